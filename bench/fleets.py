"""The fleets that are measured: regular trees, whose nodes Slurm knows by the same names, and a real one.

A fleet is a list of nodes and the names of its levels. Nothing runs on it; some nodes may be drained.
"""

from __future__ import annotations

import csv
import random
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from bridge.placement.request import NodeCapacity

GPU = "h100"
CPUS, MEMORY_MIB = 64, 512_000
LINGJUN = Path(__file__).with_name("lingjun.csv")
GB200 = Path(__file__).with_name("nvl72.csv")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """``homes`` gives each node's domain paths, coarse to fine, in the order of ``levels``."""

    title: str
    levels: tuple[str, ...]
    homes: dict[str, tuple[str, ...]]
    gpus: int = 8

    def drained(self, free: float, rng: random.Random) -> frozenset[str]:
        """Return which nodes to drain so that a share of ``free`` is left, scattered at random."""
        names = list(self.homes)
        return frozenset(rng.sample(names, len(names) - round(len(names) * free)))

    def capacities(self, out: Iterable[str] = ()) -> list[NodeCapacity]:
        """Return the nodes, those of ``out`` drained and all others empty."""
        gone = frozenset(out)
        return [self._drained(name) if name in gone else self._empty(name) for name in self.homes]

    def _empty(self, name: str) -> NodeCapacity:
        return NodeCapacity(
            name=name, gpus={GPU: self.gpus}, cpus=CPUS, memory_mib=MEMORY_MIB, domains=self.homes[name]
        )

    def _drained(self, name: str) -> NodeCapacity:
        return NodeCapacity(
            name=name,
            gpus={GPU: 0},
            busy_gpus=self.gpus,
            cpus=0,
            memory_mib=0,
            closed="drained",
            domains=self.homes[name],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A regular tree: ``spines`` x ``leaves`` x ``size`` nodes of ``gpus`` devices; node ``n1`` is the very first."""

    spines: int
    leaves: int
    size: int = 18
    gpus: int = 8

    @property
    def nodes(self) -> int:
        return self.spines * self.leaves * self.size

    def fleet(self) -> Fleet:
        homes: dict[str, tuple[str, ...]] = {}
        for number in range(self.nodes):
            leaf = number // self.size
            spine = leaf // self.leaves
            homes[f"n{number + 1}"] = (f"s{spine}", f"s{spine}/l{leaf}")
        title = f"{self.nodes} nodes ({self.spines}x{self.leaves}x{self.size})"
        return Fleet(title=title, levels=("spine", "leaf"), homes=homes, gpus=self.gpus)


SMALL = Shape(spines=4, leaves=8)
MEDIUM = Shape(spines=8, leaves=8)
LARGE = Shape(spines=16, leaves=16)
HUGE = Shape(spines=20, leaves=25, size=20)
NVL72 = Shape(spines=8, leaves=8, gpus=4)


def lingjun() -> Fleet:
    """Return the hosts of a production cluster by switch (lingjun.csv says where they come from)."""
    rows = [((row["DSW"], row["PSW"], row["ASW"]), int(row["hosts"])) for row in _rows(LINGJUN)]
    return _recorded("Lingjun", ("dsw", "psw", "asw"), rows, gpus=8)


def gb200() -> Fleet:
    """Return the hosts of a real NVL72 fabric by rack, as many as answered in each (nvl72.csv)."""
    rows = [((row["half"], row["rack"]), int(row["hosts"])) for row in _rows(GB200)]
    return _recorded("GB200 NVL72", ("half", "rack"), rows, gpus=4)


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as source:
        return list(csv.DictReader(line for line in source if not line.startswith("#")))


def _recorded(name: str, levels: tuple[str, ...], rows: list[tuple[tuple[str, ...], int]], *, gpus: int) -> Fleet:
    homes: dict[str, tuple[str, ...]] = {}
    for names, hosts in rows:
        paths = tuple("/".join(names[: depth + 1]) for depth in range(len(names)))
        for _ in range(hosts):
            homes[f"h{len(homes) + 1}"] = paths
    return Fleet(title=f"{name} ({len(homes)} hosts)", levels=levels, homes=homes, gpus=gpus)
