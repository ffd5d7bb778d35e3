"""SIGKILL of the operator between any two steps: its next lives complete what they find, or undo it, exactly once.

Every life is killed at another place while it carries a new gang, and what the lives before it left, as far as it gets.
"""

from __future__ import annotations

from e2e.operator import Operator
from e2e.scenario import audit, batch, fleet, gang
from e2e.scenario.gang import Gang

START_AND_END = (
    "before:AddFinalizer", "after:AddFinalizer", "after:DryRunPod", "before:SubmitHold", "after:SubmitHold",
    "after:StatusQueued", "after:CreatePod", "after:CreatePod:2", "after:CreateClaim:1", "after:StatusStarting",
    "after:AllocateClaim", "after:AllocateClaim:2", "before:UngatePod", "after:UngatePod:1", "before:StatusRunning",
    "before:StatusCompleting", "after:FreeClaim:1", "before:CompleteHold", "after:CompleteHold",
)  # fmt: skip
"""Steps in their order; a number is how many times the place is passed first, so that it is one in the middle."""

UNDO = (
    "before:DeletePod", "after:DeletePod:1", "after:FreeClaim", "before:CancelHold", "after:CancelHold",
    "before:RemoveFinalizer",
)  # fmt: skip


def test_gangs_whose_operator_is_killed_at_every_step_run_once_and_end_with_one_completed_hold(
    bridge: Operator,
) -> None:
    gangs: list[Gang] = []
    with fleet.only(*fleet.KWOK):
        for life, place in enumerate(START_AND_END):
            bridge.live_until(place)
            gangs.append(gang.submit(f"phoenix-{life}", pods=4, gpus=1, per_node=2, kwok="succeed"))
            bridge.wait_killed()
            assert audit.violations() == [], f"after a death {place}"
        bridge.live()
        for each in gangs:
            each.wait_for("Succeeded", within_s=30)
    known = batch.jobs()
    for each, place in zip(gangs, START_AND_END, strict=True):
        holds = batch.holds_of(each.uid(), known)
        assert len(holds) == 1, f"{each.name}, with a death {place}, had {len(holds)} holds"
        row = batch.ended(holds[0]["job_id"])
        assert (row.state, row.exit_code) == ("COMPLETED", "0:0"), f"{each.name}, with a death {place}"
        assert each.claims() == []
    assert batch.live_jobs() == []


def test_deletions_whose_operator_is_killed_at_every_step_leave_nothing(bridge: Operator) -> None:
    with fleet.only(*fleet.KWOK):
        gangs = [gang.submit(f"ash-{life}", pods=2, gpus=1, per_node=1) for life in range(len(UNDO))]
        for each in gangs:
            each.wait_for("Running")
        holds = [each.hold()["job_id"] for each in gangs]
        bridge.kill()
        for each, place in zip(gangs, UNDO, strict=True):
            each.request_deletion()
            bridge.live_until(place)
            bridge.wait_killed()
            assert audit.violations() == [], f"after a death {place}"
        bridge.live()
        audit.assert_nothing_left()
    assert {batch.ended(job_id).state for job_id in holds} == {"CANCELLED"}
