"""A busy fleet: gangs come and go, every answer changes the state. And a queue that is released at once."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from bench.allocators import Allocator, Ask, Ours, Slurm, Taken
from bench.compare import SIZES
from bench.fleets import Shape
from bench.samples import percentile
from bench.slurm import client, instance
from e2e.lab.command import LabError
from e2e.lab.layout import Layout

FULL = 0.8
"""Share of the free devices that is kept in use."""
GRANT = re.compile(r"^\[(\S+?)\] sched: Allocate JobId=(\d+)", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What comes: each gang is one of ``asks``. ``free`` is the share of the nodes that is not drained."""

    title: str
    asks: tuple[Ask, ...]
    free: float


LOADS = (
    Load(title="gangs of 4, 8, 16, 32 or 64 whole nodes", asks=tuple(Ask(nodes=n, gpus=8) for n in SIZES), free=1.0),
    Load(title="single GPUs", asks=(Ask(nodes=1, gpus=1),), free=0.05),
    Load(
        title="parts of nodes: 1, 2 or 4 GPUs on each of 1, 2, 4 or 8 nodes",
        asks=tuple(Ask(nodes=nodes, gpus=gpus) for nodes in (1, 2, 4, 8) for gpus in (1, 2, 4)),
        free=0.05,
    ),
)


@dataclass(slots=True, kw_only=True)
class Flow:
    """What one allocator did with one load; a round's rate is gangs taken by seconds of taking and giving."""

    title: str
    load: str
    rates: list[float] = field(default_factory=list)
    decisions: list[float] = field(default_factory=list)
    refused: int = 0
    asked: int = 0

    @property
    def best(self) -> float:
        """The round that was disturbed least."""
        return max(self.rates)

    @property
    def median(self) -> float:
        return percentile(self.rates, 0.5)


def run(
    lab: Layout, shape: Shape, gangs: dict[str, int], rounds: int, seed: int, say: Callable[[str], None]
) -> list[Flow]:
    """Return ours and Slurm's flows for every load; rounds alternate. ``gangs`` says how many each takes in a round."""
    fleet = shape.fleet()
    flows: list[Flow] = []
    for load in LOADS:
        out = fleet.drained(load.free, random.Random(f"{seed}/{load.title}"))
        by_title: dict[str, Flow] = {}
        with instance.slurmctld(lab, shape), client.connect(lab) as slurm:
            slurm.drain(out)
            devices = (len(fleet.homes) - len(out)) * fleet.gpus
            for number in range(rounds):
                allocators: list[Allocator] = [Ours(fleet, out), Slurm(slurm, "tree"), Slurm(slurm, "block")]
                for allocator in allocators:
                    flow = by_title.setdefault(allocator.title, Flow(title=allocator.title, load=load.title))
                    count = gangs["ours" if isinstance(allocator, Ours) else "slurm"]
                    _flow(flow, allocator, load, count, devices, random.Random(f"{seed}/{number}"))
        say(f"{shape.nodes} nodes, {load.title}: " + ", ".join(f"{f.title} {f.best:,.0f}/s" for f in by_title.values()))
        flows += by_title.values()
    return flows


def _flow(flow: Flow, allocator: Allocator, load: Load, gangs: int, devices: int, rng: random.Random) -> None:
    """Fill the fleet to ``FULL``, then let ``gangs`` come while random ones go; only the second part is counted."""
    running: list[tuple[Taken, int]] = []
    used = taken = 0
    seconds, is_warm = 0.0, False
    while taken < gangs:
        ask = rng.choice(load.asks)
        size = ask.nodes * ask.gpus
        while used + size > devices * FULL:
            is_warm = True
            gone, freed = running.pop(rng.randrange(len(running)))
            seconds += allocator.give(gone)
            used -= freed
        answer = allocator.take(ask)
        if answer.nodes:
            running.append((answer, size))
            used += size
        if is_warm:
            seconds += answer.total
            flow.decisions.append(answer.decision)
            flow.asked += 1
            flow.refused += not answer.nodes
            taken += 1
        else:
            seconds = 0.0
    flow.rates.append(gangs / seconds)
    for gone, _ in running:
        allocator.give(gone)


def queue(lab: Layout, shape: Shape, sizes: Sequence[int], say: Callable[[str], None]) -> list[tuple[str, int, float]]:
    """Return (partition, size of gang, gangs a second) of slurmctld's own loop over a queue released at once.

    Stamps of its log, first to last: no RPC is in it.
    """
    found = []
    with instance.slurmctld(lab, shape), client.connect(lab) as slurm:
        for partition in ("tree", "block"):
            for size in sizes:
                count = min(100, shape.nodes // size // 2)
                jobs = [slurm.queue(partition, size, 8) for _ in range(count)]
                slurm.scontrol("release", ",".join(map(str, jobs)))
                stamps = _grants(lab, jobs)
                rate = (count - 1) / (max(stamps) - min(stamps))
                found.append((partition, size, rate))
                for job in jobs:
                    slurm.give(job)
                say(f"{shape.nodes} nodes, released queue: {partition} {rate:.0f} gangs/s of {size} nodes")
    return found


def _grants(lab: Layout, jobs: Sequence[int]) -> list[float]:
    """Wait until the log has granted all ``jobs``; return its stamps in seconds."""
    deadline, wanted = time.monotonic() + 90, set(jobs)
    stamps: dict[int, str] = {}
    while len(stamps) < len(wanted):
        if time.monotonic() > deadline:
            raise LabError(f"{len(wanted) - len(stamps)} of {len(wanted)} released jobs did not start within 90 s")
        time.sleep(0.1)
        found = GRANT.findall(instance.log(lab).read_text())
        stamps = {int(job): stamp for stamp, job in found if int(job) in wanted}
    return [datetime.fromisoformat(stamp).timestamp() for stamp in stamps.values()]
