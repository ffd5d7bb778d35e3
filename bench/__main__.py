"""Measure everything in one run and print the tables: ``make bench``. The status is 1 when one of our answers is not optimal."""

from __future__ import annotations

import argparse
import random
import sys
import time
from dataclasses import dataclass

from bench import batch, churn, compare, impossible, report
from bench.allocators import Ask, Ours
from bench.fleets import HUGE, LARGE, MEDIUM, NVL72, SMALL, Fleet, Shape, lingjun
from bench.slurm import client, instance
from e2e.lab.layout import Layout, layout

GOALS_MS = ((MEDIUM, 0.1), (LARGE, 0.2), (HUGE, 0.5))
GANGS_PER_SECOND = 3000


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How much is measured. ``states`` are random fleets for the 576, 1152 and 4608 nodes, then for each other fleet."""

    states: tuple[int, int, int, int]
    single: int
    rounds: int
    gangs: dict[str, int]
    queued: tuple[tuple[Shape, tuple[int, ...]], ...]
    batches: tuple[int, int, float]


FULL = Effort(
    states=(40, 30, 10, 6),
    single=400,
    rounds=3,
    gangs={"ours": 2000, "slurm": 300},
    queued=((MEDIUM, (8, 64)), (LARGE, (8,))),
    batches=(3, 2, 8.0),
)
QUICK = Effort(
    states=(4, 3, 1, 1),
    single=100,
    rounds=1,
    gangs={"ours": 1000, "slurm": 100},
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
        nos = [no for shape in (MEDIUM, LARGE, HUGE) for no in impossible.run(shape.fleet(), self.seed)]
        self.say("impossible gangs")
        singles = [report.decisions(f"{shape.nodes} nodes", self.single(shape), goal) for shape, goal in GOALS_MS]
        batches = batch.run(batch.solver(layout().cache, self.say), *self.effort.batches, self.seed, self.say)
        rows = [
            *singles,
            report.reads(sections),
            *report.flows(flows, GANGS_PER_SECOND),
            *(report.queues(f"{shape.nodes} nodes", found) for shape, found in queues),
            *report.impossible(nos, refusals),
            *report.batches(batches),
        ]
        report.show(sections, rows, slurm=version, seed=self.seed, seconds=time.monotonic() - self.began)
        ours = [cell for _, cells in sections for cell in cells if cell.reads]
        return int(any(cell.refused or cell.all_optimal < cell.feasible for cell in ours))

    def beside(self, lab: Layout) -> list[tuple[str, list[compare.Cell]]]:
        pairs = zip((SMALL, MEDIUM, LARGE), self.effort.states, strict=False)
        return [
            (shape.fleet().title, compare.beside_slurm(lab, shape, draws, self.seed, self.say)) for shape, draws in pairs
        ]

    def alone(self) -> list[tuple[str, list[compare.Cell]]]:
        draws, found = self.effort.states[-1], []
        fleets: tuple[tuple[Fleet, tuple[int, ...], str], ...] = (
            (HUGE.fleet(), (0, compare.SEGMENT), ""),
            (lingjun(), (0, 2), " (production topology, 3 levels; spines: its PSW)"),
            (NVL72.fleet(), (0, 4, 16), " x 4 GPUs, a leaf is an NVL72"),
        )
        for fleet, segments, remark in fleets:
            found.append((f"{fleet.title}{remark}", compare.alone(fleet, draws, self.seed, segments)))
            self.say(fleet.title)
        return found

    def single(self, shape: Shape) -> list[float]:
        """Return the times of decisions about an 8-node gang on a fleet that is half free."""
        fleet = shape.fleet()
        ours, ask, found = Ours(fleet, fleet.drained(0.5, random.Random(self.seed))), Ask(nodes=8, gpus=8), []
        for _ in range(self.effort.single):
            taken = ours.take(ask)
            ours.give(taken)
            found.append(taken.decision)
        return found

    def refusals(self, lab: Layout) -> list[tuple[str, float]]:
        """Return what Slurm says, and when, to a gang of one node more than are free."""
        found = []
        for shape in (MEDIUM, LARGE):
            fleet = shape.fleet()
            out = fleet.drained(0.5, random.Random(f"{self.seed}/impossible"))
            with instance.slurmctld(lab, shape), client.connect(lab) as slurm:
                slurm.drain(out)
                for partition in ("tree", "block"):
                    answers = [slurm.refuse(partition, len(fleet.homes) - len(out) + 1, 8, 0) for _ in range(5)]
                    seconds, text = sorted(answers)[2]
                    found.append((f'{shape.nodes} nodes, {partition}: "{text}"', seconds))
        return found

    def say(self, text: str) -> None:
        print(f"[{time.monotonic() - self.began:6.1f}s] {text}", file=sys.stderr, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer samples, below a minute")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    return Bench(effort=QUICK if options.quick else FULL, seed=options.seed, began=time.monotonic()).run()


if __name__ == "__main__":
    sys.exit(main())
