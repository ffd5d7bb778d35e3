"""The fleet as a picture shows it: racks (finest domains) in rows of their spine (the next coarser one)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from bridge.placement.request import NodeCapacity
from bridge.topology.natural import natural_key
from bridge.topology.paths import names_of
from operators.plan.answer import Answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One node: devices in use by others, by this gang, and free; ``ranks`` is empty where the gang is not."""

    name: str
    busy: int
    taken: int
    free: int
    closed: str = ""
    ranks: range = range(0)

    @property
    def state(self) -> str:
        """Return the node's state in words."""
        if self.closed:
            return self.closed
        parts = [f"{self.taken} for this gang"] if self.taken else []
        parts += [f"{self.busy} in use"] if self.busy else []
        parts += [f"{self.free} free"] if self.free or not parts else []
        return ", ".join(parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rack:
    """``path`` is the domain's, ``label`` what is written over its nodes."""

    path: str
    label: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One coarser domain with its racks."""

    path: str
    label: str
    racks: tuple[Rack, ...]


def rows_of(answer: Answer) -> list[Row]:
    """Return the fleet of ``answer`` in rank order."""
    ranks = {name: answer.ranks(number) for number, name in enumerate(answer.placed.nodes)} if answer.placed else {}
    grouped: dict[str, dict[str, list[Cell]]] = {}
    for node in answer.nodes.values():
        spine = node.domains[-2] if len(node.domains) > 1 else ""
        rack = node.domains[-1] if node.domains else ""
        grouped.setdefault(spine, {}).setdefault(rack, []).append(_cell(answer, node, ranks.get(node.name, range(0))))
    return [
        Row(path=spine, label=_row_label(answer, spine), racks=tuple(_racks(answer, grouped[spine])))
        for spine in sorted(grouped, key=_named_first)
    ]


def _racks(answer: Answer, racks: dict[str, list[Cell]]) -> Iterable[Rack]:
    for path in sorted(racks, key=_named_first):
        label = (names_of([path])[0] or path) if path else (f"no {answer.levels[-1]}" if answer.levels else "all nodes")
        cells = sorted(racks[path], key=lambda cell: natural_key(cell.name))
        yield Rack(path=path, label=label, cells=tuple(cells))


def _row_label(answer: Answer, path: str) -> str:
    if len(answer.levels) < 2:
        return ""
    level = answer.levels[-2]
    if not path:
        return f"no {level}"
    return path if path.startswith(level) else f"{level} {path}"


def _cell(answer: Answer, node: NodeCapacity, ranks: range) -> Cell:
    taken = len(ranks) * answer.gpus_per_pod
    # A gang that starts later takes devices that others hold now.
    free = sum(node.gpus.values())
    return Cell(
        name=node.name,
        busy=node.busy_gpus - max(0, taken - free),
        taken=taken,
        free=max(0, free - taken),
        closed=node.closed,
        ranks=ranks,
    )


def _named_first(path: str) -> tuple[bool, object]:
    return (not path, natural_key(path))
