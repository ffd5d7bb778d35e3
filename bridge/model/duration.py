"""Time limits, in Go or Slurm notation, as whole minutes: the unit slurmctld keeps them in."""

from __future__ import annotations

import re

from bridge.errors import ParseError

_GO = re.compile(r"(?:([0-9]{1,9})d)?(?:([0-9]{1,9})h)?(?:([0-9]{1,9})m)?(?:([0-9]{1,9})s)?")
_SLURM = re.compile(r"(?:(?P<days>[0-9]{1,9})-)?(?P<clock>[0-9]{1,9}(?::[0-9]{1,9}){0,2})")
MAX_MINUTES = 366 * 24 * 60


def parse_time_limit(text: str) -> int:
    """Return minutes, rounded up, of ``4h``, ``1h30m``, ``2d``, ``30`` (minutes), ``30:00``, ``4:00:00``, ``1-12``.

    Raises ParseError when the text follows neither notation, is zero, or is longer than a year.
    Source: sbatch(1) ``--time``; Go ``time.ParseDuration`` with ``d`` for days.
    """
    seconds = _go_seconds(text)
    if seconds is None:
        seconds = _slurm_seconds(text)
    if seconds is None:
        raise ParseError(text, "is no time limit (write 4h, 1h30m, 90, 1:30:00 or 1-12:00:00)")
    minutes = -(-seconds // 60)
    if not 1 <= minutes <= MAX_MINUTES:
        raise ParseError(text, f"is {minutes} minutes, outside 1..{MAX_MINUTES}")
    return minutes


def format_time_limit(minutes: int) -> str:
    """Return Slurm's ``[days-]hours:minutes:00``."""
    days, rest = divmod(minutes, 24 * 60)
    clock = f"{rest // 60:02}:{rest % 60:02}:00"
    return f"{days}-{clock}" if days else clock


def _go_seconds(text: str) -> int | None:
    match = _GO.fullmatch(text)
    if not text or match is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def _slurm_seconds(text: str) -> int | None:
    match = _SLURM.fullmatch(text)
    if match is None:
        return None
    clock = [int(part) for part in match["clock"].split(":")]
    if match["days"] is not None:
        hours, minutes, seconds = (*clock, 0, 0)[:3]
        return ((int(match["days"]) * 24 + hours) * 60 + minutes) * 60 + seconds
    if len(clock) == 3:
        return (clock[0] * 60 + clock[1]) * 60 + clock[2]
    return clock[0] * 60 + (clock[1] if len(clock) == 2 else 0)
