"""The order of names that people expect: numbers in them count as numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable

_DIGITS = re.compile(r"([0-9]{1,18})")
_SHOWN = 3


def natural_key(text: str) -> tuple[tuple[int, int, str], ...]:
    """Return a sort key that puts ``gpu2`` before ``gpu10``; total and deterministic."""
    parts = (part for part in _DIGITS.split(text) if part)
    return tuple((0, int(part), part) if _DIGITS.fullmatch(part) else (1, 0, part) for part in parts)


def listed(names: Iterable[str]) -> str:
    """Return names for people, in natural order: ``n1, n2, n3 and 29 more``."""
    ordered = sorted(set(names), key=natural_key)
    shown = ", ".join(ordered[:_SHOWN])
    return f"{shown} and {len(ordered) - _SHOWN} more" if len(ordered) > _SHOWN else shown
