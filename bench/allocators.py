"""Who may be asked for a gang: our search, and a partition of the real slurmctld. Both are timed the same way."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Protocol

from bench.fleets import GPU, Fleet
from bench.slurm.client import Client
from bridge.model.gres import GresRequest
from bridge.placement.board import Board
from bridge.placement.request import NodeCapacity, Placed, Request, Segment
from bridge.placement.search import place_on


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A gang of ``nodes`` pods with ``gpus`` devices each, one pod a node; ``segment`` pods at a time share a leaf."""

    nodes: int
    gpus: int
    segment: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """``decision`` is the time of the answer, ``total`` that of taking too, in seconds; no ``nodes`` when refused."""

    decision: float
    total: float
    nodes: tuple[str, ...]
    job: int = 0
    gpus: int = 0


class Allocator(Protocol):
    """Takes gangs and gives them back."""

    title: str

    def take(self, ask: Ask) -> Taken:
        """Decide where the gang runs and take its nodes."""

    def give(self, taken: Taken) -> float:
        """Give the nodes back; return the seconds."""


class Ours:
    """Our search on one board, in this process."""

    title = "gangbridge"

    def __init__(self, fleet: Fleet, out: frozenset[str]) -> None:
        self._fleet = fleet
        capacities = fleet.capacities(out)
        began = time.perf_counter()
        self.board = Board(capacities, fleet.levels)
        place_on(self.board, self.request(Ask(nodes=1, gpus=fleet.gpus)))
        self.read = time.perf_counter() - began
        """Seconds of reading the whole fleet and answering a first question about whole nodes."""

    def request(self, ask: Ask) -> Request:
        return Request(
            pods=ask.nodes,
            pods_per_node=1,
            gres=GresRequest(name="gpu", type=GPU, count=ask.gpus),
            levels=self._fleet.levels,
            segment=Segment(size=ask.segment, level=self._fleet.levels[-1]) if ask.segment else None,
        )

    def take(self, ask: Ask) -> Taken:
        request = self.request(ask)
        began = time.perf_counter()
        answer = place_on(self.board, request)
        decided = time.perf_counter()
        nodes = answer.nodes if isinstance(answer, Placed) else ()
        for name in nodes:
            self.board.take(name, request.gres, cpus=1)
        return Taken(decision=decided - began, total=time.perf_counter() - began, nodes=nodes, gpus=ask.gpus)

    def give(self, taken: Taken) -> float:
        began = time.perf_counter()
        for name in taken.nodes:
            node = self.board.nodes[name]
            self.board.put(
                NodeCapacity(
                    name=name,
                    gpus={GPU: node.gpus[GPU] + taken.gpus},
                    cpus=node.cpus + 1,
                    memory_mib=node.memory_mib,
                    busy_gpus=node.busy_gpus - taken.gpus,
                    domains=node.domains,
                )
            )
        return time.perf_counter() - began


class Slurm:
    """One partition of slurmctld, with its topology plugin. A call's time has the RPC in it."""

    def __init__(self, client: Client, partition: str, *, consolidate: bool = False) -> None:
        self.title = f"Slurm {partition}" + (" +consolidate" if consolidate else "")
        self._client, self._partition, self._consolidate = client, partition, consolidate

    def take(self, ask: Ask) -> Taken:
        seconds, job, nodes = self._client.take(self._partition, ask.nodes, ask.gpus, ask.segment, self._consolidate)
        return Taken(decision=seconds, total=seconds, nodes=nodes, job=job, gpus=ask.gpus)

    def give(self, taken: Taken) -> float:
        return self._client.give(taken.job)
