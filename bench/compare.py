"""Ours and Slurm's answers to the same questions on the same fleets, and the best there is."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from bench.allocators import Allocator, Ask, Ours, Slurm
from bench.exact import Counts, Optimum, touched
from bench.fleets import Fleet, Shape
from bench.samples import percentile
from bench.slurm import client, instance
from e2e.lab.layout import Layout

SIZES = (4, 8, 16, 32, 64)
FREE = (0.2, 0.5, 0.8)
SEGMENT = 4
REPEATS = 3
"""We answer this often, with the gang taken and given back in between, for more samples of a short time."""


@dataclass(slots=True, kw_only=True)
class Cell:
    """All answers of one allocator on one fleet at one share of free nodes. ``decisions`` and ``cycles`` are seconds by
    size of the gang, a cycle is deciding, taking and giving back; ``best`` and ``found`` are sums.
    """

    title: str
    free: float
    decisions: dict[int, list[float]] = field(default_factory=lambda: defaultdict(list))
    jobs: list[int] = field(default_factory=list)
    cycles: dict[int, list[float]] = field(default_factory=lambda: defaultdict(list))
    own: list[float] = field(default_factory=list)
    reads: list[float] = field(default_factory=list)
    placed: int = 0
    refused: int = 0
    feasible: int = 0
    first_optimal: int = 0
    all_optimal: int = 0
    levels: int = 0
    found: list[int] = field(default_factory=lambda: [0, 0, 0])
    best: list[int] = field(default_factory=lambda: [0, 0, 0])

    @property
    def times(self) -> list[float]:
        """The decisions about gangs of any size."""
        return [seconds for found in self.decisions.values() for seconds in found]

    @property
    def rate(self) -> float:
        """Gangs a second when every size is as frequent; of medians, so that a disturbed machine matters little."""
        return len(self.cycles) / sum(percentile(seconds, 0.5) for seconds in self.cycles.values())

    def judge(self, found: Counts | None, best: Counts | None) -> None:
        """Count one answer; None stands for "refused" and for "does not fit"."""
        if best is None:
            if found is not None:
                raise AssertionError(f"{self.title} placed a gang that cannot be placed: {found}")
            return
        self.feasible += 1
        if found is None:
            self.refused += 1
            return
        if found < best:
            raise AssertionError(f"{self.title} found {found}, better than the optimum {best}")
        self.placed += 1
        self.levels = len(best)
        self.first_optimal += found[:-1] == best[:-1]
        self.all_optimal += found == best
        for sums, counts in ((self.found, found), (self.best, best)):
            for level, count in enumerate(counts):
                sums[level] += count


def ask_once(cell: Cell, allocator: Allocator, ask: Ask, repeats: int = 1) -> tuple[str, ...]:
    """Ask, give back, and note the times; return the nodes."""
    nodes: tuple[str, ...] = ()
    for _ in range(repeats):
        taken = allocator.take(ask)
        cell.decisions[ask.nodes].append(taken.decision)
        seconds, nodes = taken.total, taken.nodes
        if nodes:
            seconds += allocator.give(taken)
            cell.jobs.append(taken.job)
        cell.cycles[ask.nodes].append(seconds)
    return nodes


def beside_slurm(lab: Layout, shape: Shape, draws: int, seed: int, say: Callable[[str], None]) -> list[Cell]:
    """Return the cells of one fleet: three shares of free nodes, with and without segments, ours and Slurm's."""
    fleet = shape.fleet()
    cells: dict[tuple[float, int, str], Cell] = {}
    with instance.slurmctld(lab, shape), client.connect(lab) as slurm:
        for _ in range(3):
            slurm.ping()
        for draw in range(draws):
            rng = random.Random(f"{seed}/{shape}/{draw}")
            for free in FREE:
                out = fleet.drained(free, rng)
                slurm.drain(out)
                rows = _rows(fleet, out, slurm)
                # Whoever comes first finds cold caches: everyone does in turn.
                for segment, allocator in rows[draw % len(rows) :] + rows[: draw % len(rows)]:
                    title = _title(allocator.title, segment)
                    cell = cells.setdefault(
                        (free, rows.index((segment, allocator)), title), Cell(title=title, free=free)
                    )
                    _one(cell, fleet, out, allocator, segment)
            if (draw + 1) % max(1, draws // 4) == 0:
                say(f"{shape.nodes} nodes beside Slurm: {draw + 1} of {draws} states")
        own = client.own_times(instance.log(lab))
    for cell in cells.values():
        cell.own = [own[job] for job in cell.jobs if job in own]
    return [cells[key] for key in sorted(cells)]


def alone(fleet: Fleet, draws: int, seed: int, segments: Sequence[int], shares: Sequence[float] = FREE) -> list[Cell]:
    """Return the cells of a fleet on which only we are measured."""
    cells: dict[tuple[float, int], Cell] = {}
    for draw in range(draws):
        rng = random.Random(f"{seed}/{fleet.title}/{draw}")
        for free in shares:
            out = fleet.drained(free, rng)
            for segment in segments:
                title = _title(Ours.title, segment)
                cell = cells.setdefault((free, segment), Cell(title=title, free=free))
                _one(cell, fleet, out, Ours(fleet, out), segment)
    return [cells[key] for key in sorted(cells)]


def _title(name: str, segment: int) -> str:
    return f"{name}, segments of {segment}" if segment else name


def _rows(fleet: Fleet, out: frozenset[str], slurm: client.Client) -> list[tuple[int, Allocator]]:
    ours, block = Ours(fleet, out), Slurm(slurm, "block")
    return [
        (0, ours),
        (0, Slurm(slurm, "tree")),
        (0, block),
        (SEGMENT, ours),
        (SEGMENT, block),
        (SEGMENT, Slurm(slurm, "block", consolidate=True)),
    ]


def _one(cell: Cell, fleet: Fleet, out: frozenset[str], allocator: Allocator, segment: int) -> None:
    free = [name for name in fleet.homes if name not in out]
    if isinstance(allocator, Ours):
        cell.reads.append(allocator.read)
    optimum = Optimum(fleet.homes, free, limit=max(SIZES), segment=segment or 1)
    for size in _sizes(segment):
        ask = Ask(nodes=size, gpus=fleet.gpus, segment=segment)
        nodes = ask_once(cell, allocator, ask, REPEATS if isinstance(allocator, Ours) else 1)
        if nodes:
            _check(nodes, ask, out)
        cell.judge(touched(fleet.homes, nodes) if nodes else None, optimum.counts(size))


def _sizes(segment: int) -> Iterator[int]:
    return (size for size in SIZES if not segment or size % segment == 0)


def _check(nodes: Sequence[str], ask: Ask, out: frozenset[str]) -> None:
    if len(set(nodes)) != ask.nodes or not out.isdisjoint(nodes):
        raise AssertionError(f"not an answer to {ask}: {nodes}")
