"""Node lists as Slurm writes them: ``rack[1-2]n[01-16,20],login``.

``expand`` keeps the order and the repetitions of the text, because lists that slurmctld sends beside it (a job's GRES
per node) run parallel to it; a set would sort the names and merge what is listed twice. ``fold`` is for texts that go
*to* Slurm, where order does not matter. Grammar: scontrol(1) ``show hostnames``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import product

from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet

from bridge.errors import ParseError

MAX_RANGE = 64 * 1024
"""Most hosts of one range, and the size of slurmctld's node table (MAX_RANGE, MAX_SLURM_NODES)."""

_RANGE = re.compile(r"([0-9]{1,18})(?:-([0-9]{1,18}))?")
_PIECE = re.compile(r"\[([^\[\]]*)\]|([^\[\],]+)")
_ELEMENT = re.compile(r"(?:[^\[\],]+|\[[^\[\]]*\])+")
_NONE = frozenset({"", "(null)", "None", "N/A"})


@lru_cache(maxsize=8192)
def expand(text: str) -> tuple[str, ...]:
    """Return the names in the order of the text; ``ParseError`` when it is no host list or names too many hosts."""
    if text in _NONE:
        return ()
    names: list[str] = []
    position = 0
    while position <= len(text):
        element = _ELEMENT.match(text, position)
        if not element:
            raise ParseError(text, f"no host name at position {position}")
        position = element.end() + 1
        if text[element.end() : position] not in {"", ","}:
            raise ParseError(text, f"unexpected {text[element.end()]!r} at position {element.end()}")
        names.extend(_expand_element(text, element[0]))
        if len(names) > MAX_RANGE:
            raise ParseError(text, f"more than {MAX_RANGE} hosts")
    return tuple(names)


def fold(names: Iterable[str]) -> str:
    """Return the shortest list of these names for Slurm to read; sorted, each name once."""
    wanted = list(names)
    for name in wanted:
        if not name or set(name) & set("[], @&!^*%"):
            raise ParseError(name, "not a node name")
    return str(NodeSet.fromlist(wanted, resolver=RESOLVER_NOGROUP))


def _expand_element(text: str, element: str) -> list[str]:
    pieces = [[literal] if literal else _expand_ranges(text, ranges) for ranges, literal in _PIECE.findall(element)]
    size = 1
    for piece in pieces:
        size *= len(piece)
    if size > MAX_RANGE:
        raise ParseError(text, f"more than {MAX_RANGE} hosts")
    return ["".join(parts) for parts in product(*pieces)]


def _expand_ranges(text: str, ranges: str) -> list[str]:
    numbers: list[str] = []
    for part in ranges.split(","):
        match = _RANGE.fullmatch(part)
        if not match:
            raise ParseError(text, f"{part!r} is no range of numbers")
        first, last, width = int(match[1]), int(match[2] or match[1]), len(match[1])
        if last < first:
            raise ParseError(text, f"range {part} runs backwards")
        if last - first >= MAX_RANGE:
            raise ParseError(text, f"range {part} names more than {MAX_RANGE} hosts")
        numbers.extend(f"{number:0{width}d}" for number in range(first, last + 1))
    return numbers
