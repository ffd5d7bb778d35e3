"""Numbers of repeated measurements."""

from __future__ import annotations

import math
from collections.abc import Sequence


def percentile(samples: Sequence[float], share: float) -> float:
    """Return the nearest-rank percentile, a value that was measured; ``share`` is in (0, 1]. NaN without samples."""
    if not samples:
        return math.nan
    return sorted(samples)[math.ceil(share * len(samples)) - 1]


def ms(seconds: float) -> str:
    """Return a time in milliseconds with three digits that say something."""
    value = seconds * 1000
    if math.isnan(value):
        return "-"
    digits = 3 if value < 1 else 2 if value < 10 else 1 if value < 100 else 0
    return f"{value:.{digits}f}"


def per_second(value: float) -> str:
    """Return a rate without digits that say nothing."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def percent(part: int, whole: int) -> str:
    """Return a share; a value that would be rounded up to 100 % stays below it."""
    if not whole:
        return "-"
    share = 100 * part / whole
    return f"{min(share, 99.9) if part < whole else 100:.3g} %"
