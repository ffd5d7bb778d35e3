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
    homes: dict[str, tuple[str, ...]] = {}
    with LINGJUN.open(newline="") as source:
        for row in csv.DictReader(line for line in source if not line.startswith("#")):
            dsw, psw, asw = row["DSW"], row["PSW"], row["ASW"]
            for _ in range(int(row["hosts"])):
                homes[f"h{len(homes) + 1}"] = (dsw, f"{dsw}/{psw}", f"{dsw}/{psw}/{asw}")
    return Fleet(title=f"Lingjun ({len(homes)} hosts)", levels=("dsw", "psw", "asw"), homes=homes)
