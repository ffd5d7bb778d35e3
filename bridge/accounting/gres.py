"""Slurm's texts for generic resources: ``gpu:h100:8(S:0-1)``, ``gpu:h100:3(IDX:1-2,5)``, ``fpga:x1(CNT:1)``.

What slurmctld writes is read by ``parse_gres``, which is total: an item in a form that nobody foresaw is kept with
``indices=None``, so that its devices count as unreadable and are never given away. What a person writes is read by
``parse_gres_request``, which refuses everything but one plain request.

Grammar (gres.conf(5), scontrol(1) ``show node -d`` and ``show job -d``)::

    list  = item *("," item)                       commas inside parentheses belong to the item
    item  = ["gres/" | "gres:"] name *(":" type) [(":" | "=") count] ["(" body ")"]
    count = digits [K|M|G|T|P]                     powers of 1024; absent means 1
    body  = "S:" ranges | "IDX:" ["N/A" | ranges] | "CNT:" count | slot *("," slot)
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from bridge.errors import ParseError
from bridge.model.gres import Gres, GresRequest

MAX_INDEXED = 1024
"""Most devices of one GRES that Slurm tracks by index on one node (MAX_GRES_BITMAP)."""

_COUNT = re.compile(r"([0-9]{1,18})([KMGTP]?)", re.IGNORECASE)
_RANGE = re.compile(r"([0-9]{1,6})(?:-([0-9]{1,6}))?")
_WORD = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")
_NONE = frozenset({"", "(null)", "N/A"})


@dataclass(frozen=True, slots=True, kw_only=True)
class GresItem:
    """One item as written.

    ``indices`` is None where none are given; ``slots`` are the ``used/all`` pairs of a shared GRES.
    """

    name: str
    type: str = ""
    count: int = 1
    no_consume: bool = False
    indices: tuple[int, ...] | None = None
    sockets: tuple[int, ...] = ()
    slots: tuple[str, ...] = ()

    @property
    def gres(self) -> Gres:
        """Return what the ledger needs of it."""
        return Gres(name=self.name, type=self.type, count=self.count, indices=self.indices)


def parse_gres(text: str) -> tuple[Gres, ...]:
    """Return every item of a controller's text; never raises."""
    return tuple(item.gres for item in parse_gres_items(text))


@lru_cache(maxsize=16384)
def parse_gres_items(text: str) -> tuple[GresItem, ...]:
    """Return every item of a controller's text with its sockets and slots; never raises."""
    if text in _NONE:
        return ()
    return tuple(_item(part) for part in _split(text) if part)


def configured_gres(configured: str, used: str) -> tuple[tuple[Gres, ...], dict[int, int]]:
    """Return what a node has, and the socket of those ``gpu`` indices for which Slurm names exactly one.

    slurmctld does not say outright which devices it tracks. It does by index in the text of what is in use
    (``gpu:h100:0(IDX:N/A)`` against ``gpu:h100:0``), so without that the devices count as untracked. Positions run over
    all types of a name in the order of the text; a used index that is not where that puts it makes the name untracked.
    """
    in_use = {(item.name, item.type): item.indices for item in parse_gres_items(used)}
    spans: list[tuple[GresItem, range]] = []
    ends: dict[str, int] = {}
    for item in parse_gres_items(configured):
        start = ends.get(item.name, 0)
        ends[item.name] = start + item.count
        spans.append((item, range(start, ends[item.name])))
    unreadable = {item.name for item, span in spans if not _fits(in_use.get((item.name, item.type)), span)}
    gres: list[Gres] = []
    sockets: dict[int, int] = {}
    for item, span in spans:
        indices = None if item.name in unreadable else tuple(span)
        gres.append(Gres(name=item.name, type=item.type, count=item.count, indices=indices))
        if indices is not None and item.name == "gpu" and len(item.sockets) == 1:
            sockets |= dict.fromkeys(indices, item.sockets[0])
    return tuple(gres), sockets


def _fits(used: tuple[int, ...] | None, span: range) -> bool:
    return used is not None and len(span) <= MAX_INDEXED and all(index in span for index in used)


def format_gres(items: Iterable[Gres]) -> str:
    """Return the items as ``scontrol show job -d`` writes an allocation; ``parse_gres`` reads it back."""
    return ",".join(_allocation(item) for item in items)


def format_ranges(numbers: Iterable[int]) -> str:
    """Return ``0-2,5`` for 0, 1, 2, 5."""
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def parse_ranges(text: str) -> tuple[int, ...] | None:
    """Return the numbers of ``0-2,5`` in order, or None when the text is anything else or longer than MAX_INDEXED."""
    found: set[int] = set()
    for part in text.split(","):
        match = _RANGE.fullmatch(part)
        if not match:
            return None
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first or last - first >= MAX_INDEXED:
            return None
        found.update(range(first, last + 1))
    return tuple(sorted(found)) if len(found) <= MAX_INDEXED else None


def parse_gres_request(text: str) -> GresRequest:
    """Return the one request in ``text``, as a person writes it per pod: ``gpu``, ``gpu:8``, ``gpu:h100:8``.

    Raises ``ParseError`` for everything else: several items, spellings that only sbatch takes, and counts that are not
    whole numbers from 1 to MAX_INDEXED.
    """
    if "," in text:
        raise ParseError(text, "one GRES per pod, several are given")
    name, *rest = text.split(":")
    if not _WORD.fullmatch(name):
        raise ParseError(text, "a GRES is written name, name:count or name:type:count, as in gpu:h100:8")
    match rest:
        case []:
            return GresRequest(name=name, count=1)
        case [last] if _WORD.fullmatch(last) and last[0] not in "0123456789":
            return GresRequest(name=name, type=last, count=1)
        case [count]:
            return GresRequest(name=name, count=_whole(text, count))
        case [kind, count] if _WORD.fullmatch(kind):
            return GresRequest(name=name, type=kind, count=_whole(text, count))
        case _:
            raise ParseError(text, "a GRES is written name, name:count or name:type:count, as in gpu:h100:8")


def _whole(text: str, count: str) -> int:
    if not re.fullmatch(r"-?[0-9]+", count):
        raise ParseError(text, f"the GRES count {count!r} is not a whole number")
    if len(count) > 9 or not 1 <= int(count) <= MAX_INDEXED:
        raise ParseError(text, f"the GRES count {count[:20]} is outside 1..{MAX_INDEXED}")
    return int(count)


def _split(text: str) -> Iterator[str]:
    depth = start = 0
    for position, char in enumerate(text):
        if char == "(":
            depth += 1
        elif char == ")":
            depth = max(0, depth - 1)
        elif char == "," and not depth:
            yield text[start:position].strip()
            start = position + 1
    yield text[start:].strip()


def _item(text: str) -> GresItem:
    head, _, body = text.partition("(")
    body = body.removesuffix(")")
    name, kind, count, no_consume = _head(head.removeprefix("gres/").removeprefix("gres:"))
    indices: tuple[int, ...] | None = None
    sockets: tuple[int, ...] = ()
    slots: tuple[str, ...] = ()
    tag, _, rest = body.partition(":")
    if tag == "IDX":
        indices = () if rest in {"", "N/A"} else parse_ranges(rest)
    elif tag == "CNT":
        count = _number(rest)
    elif tag == "S":
        sockets = parse_ranges(rest) or ()
    elif "/" in body:
        slots = tuple(body.split(","))
    if count is None:
        count = len(indices) if indices else 1
    return GresItem(
        name=name, type=kind, count=count, no_consume=no_consume, indices=indices, sockets=sockets, slots=slots
    )


def _head(text: str) -> tuple[str, str, int | None, bool]:
    """Split ``bandwidth:lustre:no_consume:4G``. A last part that only begins like a count (``1g.5gb``) is a type."""
    name, *parts = re.split(r"[:=]", text)
    count = _number(parts[-1]) if parts else None
    if count is not None:
        parts.pop()
    kinds = [part for part in parts if part.lower() != "no_consume"]
    return name, ":".join(kinds), count, len(kinds) < len(parts)


def _number(text: str) -> int | None:
    match = _COUNT.fullmatch(text)
    return int(match[1]) * 1024 ** " KMGTP".index(match[2].upper() or " ") if match else None


def _allocation(item: Gres) -> str:
    head = f"{item.name}:{item.type}" if item.type else item.name
    if item.indices is None:
        return f"{head}(CNT:{item.count})"
    return f"{head}:{item.count}(IDX:{format_ranges(item.indices)})"
