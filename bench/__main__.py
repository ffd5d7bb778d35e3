"""Measure everything in one run and print the tables: ``make bench``.

The status is 1 when one of our answers is not optimal, or refused although it fits. Speed never fails a run.
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
import time
from collections import deque
from dataclasses import dataclass

from bench import batch, churn, compare, impossible, report
from bench.allocators import Ask, Ours, Taken
from bench.fleets import HUGE, LARGE, MEDIUM, NVL72, SMALL, Shape, gb200, lingjun
from bench.slurm import client, instance
from e2e.lab.layout import Layout, layout

GOALS_MS = ((MEDIUM, 0.1), (LARGE, 0.2), (HUGE, 0.5))
GANGS_PER_SECOND = 3000


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How much is measured. ``states``: random fleets of 576, of 1152 and of 4608 nodes, then of each other one."""

    states: tuple[int, int, int, int]
    eights: int
    rounds: int
    gangs: dict[str, int]
    queued: tuple[tuple[Shape, tuple[int, ...]], ...]
    batches: tuple[int, int, float]


FULL = Effort(
    states=(40, 30, 16, 10),
    eights=1000,
    rounds=5,
    gangs={"ours": 1000, "slurm": 150},
    queued=((MEDIUM, (8, 64)), (LARGE, (8,))),
    batches=(3, 2, 8.0),
)
QUICK = Effort(
    states=(4, 3, 1, 1),
    eights=100,
    rounds=3,
    gangs={"ours": 500, "slurm": 100},
    queued=((MEDIUM, (8,)),),
    batches=(2, 1, 1.0),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """One run."""

    effort: Effort
    seed: int
    began: float

    def run(self) -> int:
        with instance.root() as lab:
            version = instance.version(lab)
            sections = self.beside(lab)
            flows = churn.run(lab, MEDIUM, self.effort.gangs, self.effort.rounds, self.seed, self.say)
            queues = [(shape, churn.queue(lab, shape, sizes, self.say)) for shape, sizes in self.effort.queued]
            refusals = self.refusals(lab)
        sections += self.alone()
        eights = [
            report.eights(f"{shape.nodes} nodes", self.eights(shape), self.halves(sections, shape), goal)
            for shape, goal in GOALS_MS
        ]
        nos = [(shape, impossible.run(shape.fleet(), self.seed)) for shape in (MEDIUM, LARGE, HUGE)]
        self.say("impossible gangs")
        batches = batch.run(batch.solver(layout().cache, self.say), *self.effort.batches, self.seed, self.say)
        rows = [
            *eights,
            report.reads(sections),
            *report.flows(flows, self.effort.rounds, GANGS_PER_SECOND),
            *(report.queues(f"{shape.nodes} nodes", found) for shape, found in queues),
            *(report.impossible(f"{shape.nodes} nodes", found, refusals.get(shape, [])) for shape, found in nos),
            *report.batches(batches),
        ]
        report.show(sections, rows, slurm=version, seed=self.seed, seconds=time.monotonic() - self.began)
        ours = [cell for _, cells in sections for cell in cells if cell.reads]
        return int(any(cell.refused or cell.all_optimal < cell.feasible for cell in ours))

    def beside(self, lab: Layout) -> list[tuple[str, list[compare.Cell]]]:
        pairs = zip((SMALL, MEDIUM, LARGE), self.effort.states, strict=False)
        return [
            (shape.fleet().title, compare.beside_slurm(lab, shape, draws, self.seed, self.say))
            for shape, draws in pairs
        ]

    def alone(self) -> list[tuple[str, list[compare.Cell]]]:
        draws = self.effort.states[-1]
        huge, real, nvl72, fabric = HUGE.fleet(), lingjun(), NVL72.fleet(), gb200()
        found = [
            (huge.title, compare.alone(huge, draws, self.seed, (0, compare.SEGMENT))),
            (real.title, compare.alone(real, draws, self.seed, (0, 2))),
            ("NVL72 (8x8x18, 4 GPUs)", compare.alone(nvl72, draws, self.seed, (0, 4, 16), (0.5, 0.8, 0.97))),
            (fabric.title, compare.alone(fabric, draws, self.seed, (0, 4, 8), (0.5, 0.8, 1.0))),
        ]
        self.say("fleets without Slurm beside: " + ", ".join(title for title, _ in found))
        return found

    def eights(self, shape: Shape) -> list[float]:
        """Return the times of decisions about 8-node gangs: they fill half of what is free, then the oldest goes."""
        fleet = shape.fleet()
        ours = Ours(fleet, fleet.drained(0.5, random.Random(self.seed)))
        running: deque[Taken] = deque()
        times = []
        for _ in range(self.effort.eights):
            taken = ours.take(Ask(nodes=8, gpus=8))
            times.append(taken.decision)
            running.append(taken)
            if len(running) * 8 > shape.nodes // 4:
                ours.give(running.popleft())
        return times

    def halves(self, sections: list[tuple[str, list[compare.Cell]]], shape: Shape) -> list[compare.Cell]:
        """Return Slurm's cells of a fleet, half of it free, without segments."""
        cells = dict(sections).get(shape.fleet().title, [])
        return [cell for cell in cells if cell.free == 0.5 and cell.title in {"Slurm tree", "Slurm block"}]

    def refusals(self, lab: Layout) -> dict[Shape, list[tuple[str, float]]]:
        """Return what Slurm says, and after how long, to a gang of one node more than are free."""
        found: dict[Shape, list[tuple[str, float]]] = {}
        for shape in (MEDIUM, LARGE):
            fleet = shape.fleet()
            out = fleet.drained(0.5, random.Random(f"{self.seed}/impossible"))
            with instance.slurmctld(lab, shape), client.connect(lab) as slurm:
                slurm.drain(out)
                for partition in ("tree", "block"):
                    answers = [slurm.refuse(partition, len(fleet.homes) - len(out) + 1, 8, 0) for _ in range(5)]
                    seconds, text = sorted(answers)[2]
                    found.setdefault(shape, []).append((f'Slurm {partition}: "{text}"', seconds))
        return found

    def say(self, text: str) -> None:
        print(f"[{time.monotonic() - self.began:6.1f}s] {text}", file=sys.stderr, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer samples, below a minute")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    # End as after an exception, so that the bench's slurmctld ends too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    return Bench(effort=QUICK if options.quick else FULL, seed=options.seed, began=time.monotonic()).run()


if __name__ == "__main__":
    sys.exit(main())
