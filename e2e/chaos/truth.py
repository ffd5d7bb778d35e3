"""Is what sacct says of every hold what happened to it? Pure: rows of sacct and what was seen in, complaints out."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

ENDED_BY_SLURM = frozenset({"CANCELLED", "NODE_FAIL", "PREEMPTED", "REQUEUED", "TIMEOUT", "BOOT_FAIL"})
TAKEN = frozenset({"NODE_FAIL", "PREEMPTED"})
UNENDED = frozenset({"PENDING", "RUNNING", "SUSPENDED", "COMPLETING", "RESIZING", "CONFIGURING"})
LOST_POD = 1
"""Exit code of a gang whose pod went without one."""
DUPLICATE_S = 15
"""How long a second hold of one attempt, from a submission whose answer was lost, may run before it is cancelled."""
FORMAT = "jobid,jobname,state,exitcode,start,end,elapsedraw,admincomment,comment"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One record of sacct; times as sacct writes them, which sort, and empty when there is none."""

    job_id: str
    name: str
    state: str
    exit_code: str
    start: str
    end: str
    seconds: int
    gang: str
    attempt: int

    @property
    def code(self) -> int:
        """The exit code without the signal."""
        return int(self.exit_code.partition(":")[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """What was meant, seen and done: of one gang.

    ``is_touched``: a fault aimed at the gang, at one of its pods, holds or nodes. ``is_gone``: the GangJob was deleted,
    by a fault or its user, and what was last seen may not have been its last word.
    """

    uid: str
    name: str
    code: int
    restarts: int
    phase: str
    reason: str
    exit_code: int | None
    attempt: int
    is_touched: bool
    is_gone: bool
    touched_jobs: frozenset[str] = frozenset()


def parse(text: str) -> list[Row]:
    """Return the rows of ``sacct -X -D -n -P -o FORMAT``."""
    rows = []
    for line in text.splitlines():
        job_id, name, state, exit_code, start, end, seconds, *comments = line.split("|")
        marker: dict[str, Any] = next((json.loads(text) for text in comments if text.startswith("{")), {})
        rows.append(
            Row(
                job_id=job_id,
                name=name,
                state=state.split()[0],
                exit_code=exit_code,
                start=_time(start),
                end=_time(end),
                seconds=int(seconds or 0),
                gang=marker.get("uid", ""),
                attempt=int(marker.get("attempt", 0)),
            )
        )
    return rows


def complaints(stories: Iterable[Story], rows: Iterable[Row]) -> list[str]:
    """Return a sentence for every end in sacct that is not what happened."""
    by_gang: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if row.gang:
            by_gang[row.gang].append(row)
    return [f"{story.name}: {problem}" for story in stories for problem in _of_gang(story, by_gang.get(story.uid, []))]


def unexplained(rows: Iterable[Row], cancelled: frozenset[str]) -> list[str]:
    """Return a sentence for every sbatch job whose end nobody wanted (I8: what is not ours is never changed)."""
    # A node that goes down requeues the jobs on it.
    fine = {"COMPLETED", "REQUEUED", "NODE_FAIL"}
    return [
        f"job {row.job_id} ({row.name}) is {row.state}, and nobody did that"
        for row in rows
        if row.state not in fine and not (row.state == "CANCELLED" and row.job_id in cancelled)
    ]


def _of_gang(story: Story, rows: list[Row]) -> Iterator[str]:
    yield from (f"job {row.job_id} is {row.state} after the end" for row in rows if row.state in UNENDED)
    yield from _overlaps(rows)
    completed = [row for row in rows if row.state == "COMPLETED"]
    most = 1 if story.phase == "Succeeded" or story.is_gone else 0
    is_missing = story.phase == "Succeeded" and not completed and not _was_taken(story, rows)
    if len(completed) > most or is_missing:
        yield f"it is {story.phase or 'new'}, and {len(completed)} of its holds are COMPLETED: {_shown(rows)}"
    if story.phase == "Succeeded" and any(row.attempt != story.attempt for row in completed):
        yield f"attempt {story.attempt} succeeded, but the COMPLETED hold is another attempt's: {_shown(rows)}"
    allowed = {story.code, LOST_POD} if story.is_touched else {story.code}
    for row in rows:
        if row.state == "FAILED" and row.seconds and row.code not in allowed:
            yield f"job {row.job_id} is FAILED {row.exit_code}, its pods end with {story.code}"
        elif row.state not in {"COMPLETED", "FAILED", *ENDED_BY_SLURM, *UNENDED}:
            yield f"job {row.job_id} is {row.state}"
    if not story.is_gone:
        yield from _of_phase(story, rows)


def _of_phase(story: Story, rows: list[Row]) -> Iterator[str]:
    last = [row for row in rows if row.attempt == story.attempt]
    if story.phase not in {"Succeeded", "Failed"}:
        yield f"it has not ended: {story.phase} {story.reason}"
        return
    for attempt in range(1, story.attempt):
        if not any(row.attempt == attempt for row in rows):
            yield f"attempt {attempt} has no hold in sacct: {_shown(rows)}"
    if story.phase == "Failed" and story.reason in {"PodFailed", "PodLost"}:
        told = [row for row in last if row.state == "FAILED" and row.code == story.exit_code]
        if not told and not _was_taken(story, rows):
            yield f"its pods ended with {story.exit_code}, and no hold of that attempt says so: {_shown(rows)}"
    elif story.phase == "Failed" and not story.is_touched:
        yield f"it failed as {story.reason}, and nobody did anything to it: {_shown(rows)}"
    # Pods may have failed by themselves just before Slurm ended their hold in its own way: such an attempt may count.
    failed = {row.attempt for row in rows if (row.state == "FAILED" and row.seconds) or row.state in TAKEN}
    is_free = not story.is_touched and not _was_taken(story, rows)
    if story.phase == "Failed" and is_free and len(failed) <= story.restarts:
        yield f"it failed after {len(failed)} of {story.restarts + 1} attempts: {_shown(rows)}"
    if not story.is_touched and (story.phase == "Succeeded") != (story.code == 0):
        yield f"it is {story.phase}, its pods end with {story.code}, and nobody did anything to it: {_shown(rows)}"


def _was_taken(story: Story, rows: list[Row]) -> bool:
    """Return whether Slurm or an admin ended the last hold while the pods came to their own end."""
    return any(
        row.attempt == story.attempt and (row.job_id in story.touched_jobs or row.state in TAKEN) for row in rows
    )


def _overlaps(rows: list[Row]) -> Iterator[str]:
    """Yield every two holds that ran at the same time; one that was cancelled soon as a duplicate is none."""
    ran = sorted((row for row in rows if row.start and row.seconds), key=lambda row: row.start)
    for index, one in enumerate(ran):
        for other in ran[index + 1 :]:
            is_duplicate = one.attempt == other.attempt and any(
                row.state == "CANCELLED" and row.seconds <= DUPLICATE_S for row in (one, other)
            )
            if other.start < (one.end or "~") and one.job_id != other.job_id and not is_duplicate:
                yield f"jobs {one.job_id} and {other.job_id} ran at the same time: {_shown(rows)}"


def _time(text: str) -> str:
    return "" if text in {"Unknown", "None"} else text


def _shown(rows: list[Row]) -> str:
    return ", ".join(
        f"{row.job_id} attempt {row.attempt} {row.state} {row.exit_code} {row.start[11:]}-{row.end[11:]}"
        for row in rows
    )
