"""The verdict of chaos: what sacct must say of a gang, and that every lie is seen."""

from __future__ import annotations

from dataclasses import replace

import pytest

from e2e.chaos.truth import Row, Story, complaints, parse, unexplained

STORY = Story(
    uid="u", name="g", code=0, restarts=0, phase="Succeeded", reason="Succeeded", exit_code=0, attempt=1,
    is_touched=False, is_gone=False,
)  # fmt: skip
SECOND = replace(STORY, attempt=2)
FAILED = replace(STORY, code=3, phase="Failed", reason="PodFailed", exit_code=3)


def row(job_id: int, state: str, exit_code: str = "0:0", *, attempt: int = 1, start: int = 0, seconds: int = 5) -> Row:
    return Row(
        job_id=str(job_id), name="g", state=state, exit_code=exit_code, gang="u", attempt=attempt, seconds=seconds,
        start=f"2030-01-01T00:00:{start:02}", end=f"2030-01-01T00:00:{start + seconds:02}",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("story", "rows"),
    [
        (STORY, [row(1, "COMPLETED")]),
        (FAILED, [row(1, "FAILED", "3:0")]),
        (SECOND, [row(1, "NODE_FAIL"), row(2, "COMPLETED", attempt=2, start=5)]),
        (replace(STORY, is_touched=True, touched_jobs=frozenset({"1"})), [row(1, "CANCELLED")]),
        (replace(STORY, is_gone=True, phase="Running"), [row(1, "CANCELLED")]),
        (STORY, [row(1, "COMPLETED"), row(2, "CANCELLED", start=1, seconds=2)]),
        (
            replace(FAILED, restarts=1, attempt=2),
            [row(1, "NODE_FAIL"), row(2, "FAILED", "3:0", attempt=2, start=50)],
        ),
    ],
    ids=[
        "success",
        "exit code",
        "node failed, then success",
        "taken by an admin",
        "deleted",
        "short duplicate",
        "pods failed as their node did",
    ],
)
def test_a_true_record_is_believed(story: Story, rows: list[Row]) -> None:
    assert complaints([story], rows) == []


@pytest.mark.parametrize(
    ("story", "rows", "words"),
    [
        (STORY, [row(1, "RUNNING")], "RUNNING after the end"),
        (STORY, [row(1, "CANCELLED")], "0 of its holds are COMPLETED"),
        (STORY, [row(1, "COMPLETED"), row(2, "COMPLETED", start=5)], "2 of its holds are COMPLETED"),
        (FAILED, [row(1, "COMPLETED")], "1 of its holds are COMPLETED"),
        (SECOND, [row(1, "COMPLETED"), row(2, "CANCELLED", attempt=2, start=5)], "another attempt's"),
        (SECOND, [row(2, "COMPLETED", attempt=2)], "attempt 1 has no hold"),
        (FAILED, [row(1, "FAILED", "9:0")], "FAILED 9:0, its pods end with 3"),
        (FAILED, [row(1, "CANCELLED")], "no hold of that attempt says so"),
        (STORY, [row(1, "COMPLETED"), row(2, "OUT_OF_MEMORY", start=5)], "OUT_OF_MEMORY"),
        (STORY, [row(1, "FAILED", "1:0"), row(2, "COMPLETED", start=3)], "ran at the same time"),
        (STORY, [row(1, "COMPLETED", seconds=40), row(2, "CANCELLED", start=1, seconds=30)], "ran at the same time"),
        (replace(STORY, phase="Failed", reason="Cancelled"), [row(1, "CANCELLED")], "nobody did anything"),
        (replace(FAILED, code=0, exit_code=1), [row(1, "FAILED", "1:0")], "nobody did anything"),
        (replace(FAILED, restarts=1), [row(1, "FAILED", "3:0")], "1 of 2 attempts"),
        (replace(STORY, phase="Running"), [row(1, "CANCELLED")], "has not ended"),
    ],
)  # fmt: skip
def test_a_lie_is_seen(story: Story, rows: list[Row], words: str) -> None:
    assert any(words in problem for problem in complaints([story], rows)), complaints([story], rows)


def test_rows_are_read_with_the_marker_of_either_comment() -> None:
    marker = '{"gangbridge":1,"uid":"u","attempt":2}'
    text = (
        f"7|g|CANCELLED by 0|0:0|2030-01-01T00:00:01|Unknown|12|{marker}|\n"
        f"8|g|PENDING|0:0|Unknown|Unknown|0||{marker}\n9_1|j|COMPLETED|0:0|Unknown|Unknown||a note|\n"
    )
    first, second, foreign = parse(text)
    assert (first.state, first.gang, first.attempt, first.end, first.seconds) == ("CANCELLED", "u", 2, "", 12)
    assert (second.gang, second.start) == ("u", "")
    assert (foreign.job_id, foreign.gang) == ("9_1", "")


def test_a_job_that_nobody_cancelled_is_reported() -> None:
    rows = [row(1, "COMPLETED"), row(2, "NODE_FAIL"), row(3, "CANCELLED"), row(4, "CANCELLED"), row(5, "TIMEOUT")]
    found = unexplained(rows, frozenset({"3"}))
    assert [problem.split()[1] for problem in found] == ["4", "5"]
