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
from bench.samples import ms, percent, percentile, rate

WIDTH = 150
Row = tuple[str, str, str]

COLUMNS = (
    ("fleet / free", "left"),
    ("allocator", "left"),
    ("gangs/s", "right"),
    ("p50 ms", "right"),
    ("p99 ms", "right"),
    ("without RPC", "right"),
    ("spine-optimal", "right"),
    ("fully", "right"),
    ("refused", "right"),
    ("mean domains: found / best", "right"),
)

NOTES = f"""\
Question: a gang of {", ".join(map(str, SIZES))} whole nodes on a fleet of which random nodes are drained; the gang is taken and given back each
time. gangs/s: decide + take + give back. p50, p99: the decision; for Slurm the whole slurm_allocate_resources call (immediate,
external job, State=EXTERNAL nodes without slurmd), "without RPC" is the time that slurmctld logs for it. For gangbridge it is the
search in this process, each question {REPEATS} times; the first time finds no table of its size. Reading a fleet anew (a new board and a
first answer) is a row below. Slurm's topology.yaml has the same leaves as switches and as blocks (block sizes: leaf, spine, all);
tree and block are two partitions of one slurmctld. Everybody answers the same questions in turns.
Optimal: of the placed gangs, the share with the fewest spines possible (spine-optimal) and then the fewest leaves (fully); the
optimum is from bench/exact.py, which shares nothing with the search; that the search is optimal in all its terms is tested
in tests/placement. Refused: gangs that fit and were not placed. Speed varies by a factor of two on a shared machine, quality does not."""


def show(
    sections: Sequence[tuple[str, Sequence[Cell]]], rows: Sequence[Row], *, slurm: str, seed: int, seconds: float
) -> None:
    """Print everything."""
    console = Console(width=WIDTH, highlight=False)
    table = Table(title="Placement: gangbridge beside Slurm", title_justify="left")
    for name, justify in COLUMNS:
        table.add_column(name, justify="right" if justify == "right" else "left", overflow="fold")
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
    found, best = ("/".join(_mean(total, cell.placed) for total in sums[: cell.levels]) for sums in (cell.found, cell.best))
    return (
        cell.title,
        rate(len(cell.decisions), cell.cycles),
        ms(percentile(cell.decisions, 0.5)),
        ms(percentile(cell.decisions, 0.99)),
        ms(percentile(cell.own, 0.5)),
        percent(cell.first_optimal, cell.placed),
        percent(cell.all_optimal, cell.placed),
        f"{cell.refused}/{cell.feasible}",
        f"{found} : {best}",
    )


def _mean(total: int, count: int) -> str:
    return f"{total / count:.2f}" if count else "-"


def reads(sections: Sequence[tuple[str, Sequence[Cell]]]) -> Row:
    lines = [
        f"{title.split(':')[0]}: {ms(percentile([read for cell in cells for read in cell.reads], 0.5))} ms"
        for title, cells in sections
    ]
    return ("reading a fleet anew", "\n".join(lines), "median; a new board from a list of nodes and a first decision")


def decisions(title: str, samples: Sequence[float], goal_ms: float) -> Row:
    p50 = percentile(samples, 0.5)
    how = f"an 8-node gang at 50 % free, taken and given back each time, n={len(samples)}"
    return (f"8-node gang, {title}", f"p50 {ms(p50)} ms, p99 {ms(percentile(samples, 0.99))} ms{goal(p50 * 1e3 < goal_ms, f'p50 < {goal_ms:g} ms')}", how)


def goal(is_met: bool, text: str) -> str:
    """Return a remark about a goal."""
    return f" (goal {text}: {'met' if is_met else 'MISSED'})"


def flows(found: Iterable[Flow], least: float) -> list[Row]:
    """Return one row for each load; ``least`` is the goal for the first."""
    rows: dict[str, list[str]] = {}
    for flow in found:
        text = f"{flow.title}: {flow.rate:,.0f}/s, p50 {ms(percentile(flow.decisions, 0.5))} ms, p99 {ms(percentile(flow.decisions, 0.99))} ms"
        text += f", {flow.refused} of {flow.asked} refused" if flow.refused else ""
        is_first = not rows
        lines = rows.setdefault(flow.load, [])
        lines.append(text + (goal(flow.rate >= least, f"{least:,.0f}/s") if is_first else ""))
    how = f"1152 nodes kept {FULL:.0%} full, gangs come and random ones go, each answer changes the state; median of alternating rounds; gangs/s: take and give"
    return [(f"churn, {load}", "\n".join(lines), how) for load, lines in rows.items()]


def queues(title: str, found: Iterable[tuple[str, int, float]]) -> Row:
    lines = [f"Slurm {partition}, {size}-node gangs: {speed:,.0f}/s" for partition, size, speed in found]
    return (f"released queue, {title}", "\n".join(lines), "100 held jobs or a full fleet released at once; stamps in slurmctld's log: no RPC in it")


def impossible(found: Iterable[No], slurm: Sequence[tuple[str, float]]) -> list[Row]:
    rows: list[Row] = []
    for no in found:
        cold, warm = ms(no.cold), ms(percentile(no.warm, 0.5))
        worst = max(no.cold, *no.warm) * 1e3
        result = f"{warm} ms, fleet read anew {cold} ms{goal(worst < 10, '10 ms') if no.fleet.startswith('1152') else ''}\n{no.message}"
        rows.append((f"impossible, {no.fleet.split(':')[0]}: {no.what}", result, "half of the nodes drained; median after a change"))
    for text, seconds in slurm:
        rows.append((f"impossible, Slurm: {text}", f"{ms(seconds)} ms", "the same as an immediate allocation"))
    return rows


def batches(found: Iterable[Batch]) -> list[Row]:
    return [
        (
            f"batch: {batch.title}",
            f"as they come {_packed(batch.arrival)}\nbiggest first {_packed(batch.biggest)}\n"
            f"CP-SAT {_packed(batch.best)}, at most {batch.bound} nodes\n"
            f"gap of biggest first: {100 * (batch.bound - batch.biggest.nodes) / batch.bound:.1f} % of the nodes",
            f"segments of 1-16 nodes in one leaf, {batch.wanted} nodes wanted; CP-SAT: most nodes, then spines, then leaves; "
            f"{_proof(batch.proved)}; {batch.wall:.1f} s on 2 workers",
        )
        for batch in found
    ]


def _proof(proved: str) -> str:
    return {"++": "both proved", "+?": "nodes proved, domains not", "?+": "nodes not proved", "??": "not proved"}[proved]


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
