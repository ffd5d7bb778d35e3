"""The result: one table of fleets, one of everything else, and how it was measured."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Iterable, Sequence
from importlib.metadata import version

from rich.console import Console
from rich.table import Table

from bench.batch import ORTOOLS, Batch, Packed
from bench.churn import FULL, Flow
from bench.compare import REPEATS, SIZES, Cell
from bench.impossible import No
from bench.samples import ms, per_second, percent, percentile

WIDTH = 168
Row = tuple[str, str, str]

COLUMNS = (
    ("fleet / free", 23),
    ("allocator", 38),
    ("gangs/s", 7),
    ("p50 ms", 6),
    ("p99 ms", 6),
    ("no RPC", 6),
    ("spine-opt", 9),
    ("fully", 6),
    ("refused", 7),
    ("mean domains: found, best", 27),
)

NOTES = f"""\
Question: a gang of {", ".join(map(str, SIZES))} whole nodes on a fleet of which random nodes are drained; the gang is
taken and given back each time. gangs/s: decide, take, give back; from the medians of each size. p50, p99: the decision;
for Slurm the whole call of slurm_allocate_resources (immediate; an external job on nodes of State=EXTERNAL, which need
no slurmd); "no RPC" is what slurmctld logs for it (usec=). For gangbridge it is the search in this process, each
question {REPEATS} times; the first time there is no table for its size. Reading the fleet is not in it; it has a row.
Slurm's topology.yaml has the same leaves as switches and as blocks (block sizes: leaf, spine, all); tree and block are
partitions of one slurmctld without limits, priorities, accounting or device indices. All answer the same in turns.
Optimal: of the placed gangs, those with the fewest spines possible (spine-opt), and then with the fewest leaves
(fully). The optimum is from bench/exact.py, which shares no code with the search; that the search is optimal in all
terms of its objective is tested in tests/placement. Refused: gangs that fit and were not placed, of those that fit.
Fleets: spines x leaves x nodes. An NVL72 is a leaf of 18 nodes; Lingjun is a production
network of three levels, GB200 NVL72 a real fabric of eight racks with hosts missing in six of them.
"segments of s": s consecutive ranks share a leaf; +consolidate is Slurm's --consolidate-segments.
Everything random follows from the seed. Speed varies by a factor of two on a shared machine, quality does not vary."""


def show(
    sections: Sequence[tuple[str, Sequence[Cell]]], rows: Sequence[Row], *, slurm: str, seed: int, seconds: float
) -> None:
    """Print everything."""
    console = Console(width=WIDTH, highlight=False)
    table = Table(title="Placement: gangbridge beside Slurm", title_justify="left")
    for number, (name, width) in enumerate(COLUMNS):
        table.add_column(name, justify="left" if number < 2 else "right", overflow="fold", width=width)
    for title, cells in sections:
        table.add_section()
        table.add_row(f"[bold]{title}[/bold]")
        for cell in cells:
            table.add_row(f"  {cell.free:.0%} free", *_cell(cell))
    console.print(table)
    other = Table(title="And", title_justify="left", show_lines=True)
    for name, ratio in (("what", 4), ("result", 6), ("how", 5)):
        other.add_column(name, ratio=ratio, overflow="fold")
    for row in rows:
        other.add_row(*row)
    console.print(other)
    console.print(NOTES)
    console.print(f"{machine(slurm)}; seed {seed}; {seconds:.0f} s")


def _cell(cell: Cell) -> tuple[str, ...]:
    found, best = (
        "/".join(_mean(total, cell.placed) for total in sums[: cell.levels]) for sums in (cell.found, cell.best)
    )
    return (
        cell.title,
        per_second(cell.rate),
        ms(percentile(cell.times, 0.5)),
        ms(percentile(cell.times, 0.99)),
        ms(percentile(cell.own, 0.5)),
        percent(cell.first_optimal, cell.placed),
        percent(cell.all_optimal, cell.placed),
        f"{cell.refused}/{cell.feasible}",
        f"{found}, {best}",
    )


def _mean(total: int, count: int) -> str:
    return f"{total / count:.2f}" if count else "-"


def reads(sections: Sequence[tuple[str, Sequence[Cell]]]) -> Row:
    lines = [
        f"{title}: {ms(percentile([read for cell in cells for read in cell.reads], 0.5))} ms"
        for title, cells in sections
    ]
    return ("reading a fleet anew", "\n".join(lines), "median; a new board from a list of nodes and a first decision")


def eights(title: str, samples: Sequence[float], slurm: Sequence[Cell], goal_ms: float) -> Row:
    """Return the row of the 8-node gang; ``slurm`` are cells of the same fleet, if there are."""
    p50 = percentile(samples, 0.5)
    lines = [f"gangbridge: {_times(samples)}{goal(p50 * 1e3 < goal_ms, f'p50 < {goal_ms:g} ms')}"]
    lines += [f"{cell.title}: {_times(cell.decisions[8])}" for cell in slurm]
    how = f"half of the nodes drained; gangbridge: gangs come and the oldest go, n={len(samples)}"
    return (f"8-node gang, {title}", "\n".join(lines), how + ("; Slurm: as in the table above" if slurm else ""))


def _times(samples: Sequence[float]) -> str:
    return f"p50 {ms(percentile(samples, 0.5))} ms, p99 {ms(percentile(samples, 0.99))} ms"


def goal(is_met: bool, text: str) -> str:
    """Return a remark about a goal."""
    return f" (goal {text}: {'met' if is_met else 'MISSED'})"


def flows(found: Iterable[Flow], rounds: int, least: float) -> list[Row]:
    """Return one row for each load; ``least`` is the goal for the first."""
    rows: dict[str, list[str]] = {}
    for flow in found:
        is_first = not rows
        speed = f"{per_second(flow.best)}/s (median {per_second(flow.median)})"
        text = f"{flow.title}: {speed}, {_times(flow.decisions)}"
        if flow.refused:
            text += f", {percent(flow.refused, flow.asked)} refused"
        if is_first:
            text += goal(flow.best >= least, f"{least:,.0f}/s")
        rows.setdefault(flow.load, []).append(text)
    how = (
        f"1152 nodes kept {FULL:.0%} full; gangs come and random ones go, so each answer changes the state; take and "
        f"give; best of {rounds} alternating rounds"
    )
    return [(f"churn, {load}", "\n".join(lines), how) for load, lines in rows.items()]


def queues(title: str, found: Iterable[tuple[str, int, float]]) -> Row:
    lines = [f"Slurm {partition}, {size}-node gangs: {speed:,.0f}/s" for partition, size, speed in found]
    return (
        f"released queue, {title}",
        "\n".join(lines),
        "100 held jobs, or as many as fill half of the fleet, released at once; stamps of slurmctld's log",
    )


def impossible(title: str, found: Iterable[No], slurm: Iterable[tuple[str, float]]) -> Row:
    """Return the row of one fleet."""
    lines = []
    for no in found:
        cold, warm = percentile(no.cold, 0.5), percentile(no.warm, 0.5)
        remark = "" if warm < 0.01 else goal(False, "< 10 ms")
        lines.append(f"{no.what}: {ms(warm)} ms{remark}, with reading the fleet {ms(cold)} ms\n  {no.message}")
    lines += [f"{text}: {ms(seconds)} ms" for text, seconds in slurm]
    how = "half of the nodes drained; medians, after a change and from a list of nodes (goal: 10 ms)"
    return (f"impossible, {title}", "\n".join(lines), f"{how}; Slurm: one node too many, as an immediate allocation")


def batches(found: Iterable[Batch]) -> list[Row]:
    return [(f"batch: {batch.title}", *_batch(batch)) for batch in found]


def _batch(batch: Batch) -> tuple[str, str]:
    gap = 100 * (batch.bound - max(batch.arrival.nodes, batch.biggest.nodes)) / batch.bound
    lines = (
        f"as they come {_packed(batch.arrival)}",
        f"biggest first {_packed(batch.biggest)}",
        f"CP-SAT {_packed(batch.best)}, at most {batch.bound} nodes",
        f"gap of the better order: {gap:.1f} % of the nodes",
    )
    how = f"{batch.wanted} nodes wanted, segments of 1-16 in a leaf; CP-SAT: most nodes, then fewest spines, leaves"
    return "\n".join(lines), f"{how}; {_proof(batch.proved)}, {batch.wall:.1f} s on 2 workers"


def _proof(proved: str) -> str:
    return {"++": "both proved", "+?": "nodes proved, domains not", "?+": "nodes not proved", "??": "not proved"}[
        proved
    ]


def _packed(packed: Packed) -> str:
    return f"{packed.nodes} nodes, {packed.spines} spines, {packed.leaves} leaves"


def machine(slurm: str) -> str:
    """Return the versions and the machine."""
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    parts = (
        f"gangbridge {version('gangbridge')} ({commit.stdout.strip() or 'unknown'})",
        slurm,
        f"OR-Tools {ORTOOLS}",
        f"Python {platform.python_version()}",
        f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}",
    )
    return ", ".join(parts)
