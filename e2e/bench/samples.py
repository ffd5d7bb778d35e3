"""Numbers of repeated measurements."""

from __future__ import annotations

import math
from collections.abc import Sequence


def percentile(samples: Sequence[float], share: float) -> float:
    """Return the nearest-rank percentile: a value that was measured. ``share`` is in (0, 1]."""
    if not samples:
        raise ValueError("no samples")
    return sorted(samples)[math.ceil(share * len(samples)) - 1]


def summary(samples: Sequence[float]) -> str:
    """Return minimum, p50 and p99 in seconds."""
    low, middle, high = min(samples), percentile(samples, 0.5), percentile(samples, 0.99)
    return f"p50 {middle:.2f} s, p99 {high:.2f} s (min {low:.2f} s, n={len(samples)})"
