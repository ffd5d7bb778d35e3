"""Slurm's host lists: ``gpu[0-3,07],login`` to names, in the order of the text."""

from __future__ import annotations

import re
from itertools import product

_ELEMENT = re.compile(r"(?:[^\[\],]|\[[^\]]*\])+")
_PIECE = re.compile(r"\[([^\]]*)\]|([^\[\]]+)")


def expand(text: str) -> tuple[str, ...]:
    """Return the names. ``ValueError`` when a range is no range of numbers."""
    return tuple(name for element in _ELEMENT.findall(text) for name in _names(element))


def numbers(ranges: str) -> list[str]:
    """Return the numbers of ``0-2,07`` with their leading zeros. ``ValueError`` when it is anything else."""
    found: list[str] = []
    for part in ranges.split(","):
        first, _, last = part.partition("-")
        found += [str(number).zfill(len(first)) for number in range(int(first), int(last or first) + 1)]
    return found


def _names(element: str) -> list[str]:
    pieces = [[literal] if literal else numbers(ranges) for ranges, literal in _PIECE.findall(element)]
    return ["".join(parts) for parts in product(*pieces)]
