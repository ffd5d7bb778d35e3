"""Times as kubectl prints them: ``45s``, ``3m20s``, ``58m``, ``5h7m``, ``2d3h``, ``40d``."""

from __future__ import annotations

_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_YEAR = 365 * _DAY


def age(seconds: int) -> str:
    """Return a duration as kubectl's AGE has it (duration.HumanDuration); a clock that is a bit behind gives ``0s``."""
    seconds = max(seconds, 0)
    for limit, unit, of, part, of_part in _STEPS:
        if seconds < limit:
            rest = seconds % of // of_part if part else 0
            return f"{seconds // of}{unit}" + (f"{rest}{part}" if rest else "")
    return f"{seconds // _YEAR}y"


_STEPS = (
    (2 * _MINUTE, "s", 1, "", 1),
    (10 * _MINUTE, "m", _MINUTE, "s", 1),
    (3 * _HOUR, "m", _MINUTE, "", 1),
    (8 * _HOUR, "h", _HOUR, "m", _MINUTE),
    (2 * _DAY, "h", _HOUR, "", 1),
    (8 * _DAY, "d", _DAY, "h", _HOUR),
    (2 * _YEAR, "d", _DAY, "", 1),
    (8 * _YEAR, "y", _YEAR, "d", _DAY),
)
"""Up to which duration which units are shown, each with its seconds."""
