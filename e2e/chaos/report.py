"""What a run says at its end, and what it leaves behind when the verdict is bad."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path

from rich.console import Console
from rich.table import Table

from e2e.bench.table import machine
from e2e.chaos import sight, truth
from e2e.chaos.campaign import Campaign
from e2e.operator import STATE
from e2e.scenario.commands import slurm

KINDS = {"gangjobs": sight.GANGJOBS, "pods": sight.PODS, "claims": sight.CLAIMS, "nodes": sight.NODES}
SLURM = {
    "squeue": ("squeue", "-a"),
    "jobs": ("scontrol", "show", "job", "-d"),
    "nodes": ("scontrol", "show", "node"),
    "sacct": ("sacct", "-X", "-D", "-a", "-P", "-S", "now-30minutes", "-o", truth.FORMAT),
}  # fmt: skip


def show(run: Campaign) -> None:
    """Print faults by kind, the load, and the verdict."""
    table = Table(title=f"chaos, seed {run.seed}: {len(run.diary) - run.lost} faults", title_justify="left")
    table.add_column("fault")
    table.add_column("times", justify="right")
    for kind, times in run.diary.by_kind().most_common():
        table.add_row(kind, str(times))
    console = Console(width=150, highlight=False)
    console.print(table)
    gangs = Counter(story.phase if not story.is_gone else "deleted before its end" for story in run.stories)
    ours = {story.uid for story in run.stories}
    holds = Counter(row.state for row in run.rows if row.gang in ours)
    jobs = Counter(row.state for row in run.rows if row.name in run.load.errands)
    attempts = len({(row.gang, row.attempt) for row in run.rows if row.gang in ours})
    console.print(f"{run.lost} more met a server that did not answer, or refused; the table has them too")
    console.print(f"{len(run.stories)} gangs: {_shown(gangs)}")
    console.print(f"{attempts} attempts; their holds in sacct: {_shown(holds)}")
    console.print(f"{len(run.load.errands)} sbatch submissions; in sacct: {_shown(jobs)}")
    console.print(
        f"{run.keeper.lives} lives of two replicas, {run.keeper.ended_by_itself.total()} of them ended by themselves; "
        f"{run.witness.looks} looks at both servers, "
        f"{run.witness.blind} at a silent one; {run.ended - run.began:.0f} s"
    )
    if run.admin.releases:
        console.print(f"{run.admin.releases} times so much looked lost at once that the admin had to release the brake")
    if run.witness.given_away:
        looks = max(len(times) for times in run.witness.given_away.values())
        console.print(
            f"{len(run.witness.given_away)} times Slurm gave devices on before the pods of an ended hold were gone (an "
            f"EXTERNAL node, to a gang that waits, or within 3 s of a start of slurmctld), for at most {looks} looks"
        )
    console.print(machine())
    if run.problems:
        console.print(f"VERDICT: {len(run.problems)} problems", style="bold red")
        for problem in run.problems[:40]:
            console.print(f"  {problem}", markup=False)
    else:
        console.print("VERDICT: clean: nothing leaked, no device held twice, every end is true in sacct", style="bold")


def evidence(run: Campaign) -> Path:
    """Write what is needed to find out why, and return the folder."""
    folder = STATE / "chaos" / f"seed-{run.seed}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    run.diary.write(folder / "faults.jsonl")
    (folder / "problems.txt").write_text("\n".join(run.problems) + "\n")
    (folder / "last-seen-gangs.json").write_text(json.dumps(list(run.witness.gangs.values()), indent=1))
    for log, offset in run.logs.items():
        with log.open("rb") as text:
            text.seek(offset)
            (folder / log.name).write_bytes(text.read())
    for name, path in KINDS.items():
        (folder / f"{name}.json").write_text(json.dumps(sight.listed(path), indent=1))
    for name, command in SLURM.items():
        (folder / f"slurm-{name}.txt").write_text(slurm(*command))
    return folder


def _shown(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {name or 'new'}" for name, count in counts.most_common()) or "none"
