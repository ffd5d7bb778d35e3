"""What a gang's status shows of its hold, and when that is worth a write."""

from __future__ import annotations

from dataclasses import replace

from bridge.lifecycle.observed import observe_all
from bridge.lifecycle.status import settle
from bridge.model.gang import HoldStatus
from bridge.model.slurm import JobState
from tests.builders import NOW, gang, hold, node, snapshot


def shown(seen, owner=None):
    owner = owner or gang()
    (observed,) = observe_all(snapshot([node("n1"), node("n2")], jobs=[seen], gangs=(owner,)))
    return settle(owner.status, observed)


def test_a_running_hold_says_who_pays_for_it_and_until_when():
    assert shown(hold(gang(), 7, on={"n1": [0], "n2": [0]})).hold == HoldStatus(
        job_id=7,
        state="RUNNING",
        nodes="n[1-2]",
        user="alice",
        account="physics",
        partition="gpu",
        end_time=NOW + 3600,
    )


def test_a_time_limit_that_an_admin_changes_is_shown():
    seen = hold(gang(), 7, on={"n1": [0]})
    before = shown(seen)
    after = shown(replace(seen, end_time=NOW + 7200), gang(status=before))
    assert after == replace(before, hold=replace(before.hold, end_time=NOW + 7200))


def test_the_estimate_of_a_waiting_hold_may_move_without_a_write():
    seen = hold(gang(), 7, JobState.PENDING, required_nodes=("n1",), end_time=NOW + 4000)
    before = shown(seen)
    assert before.hold.end_time is None
    assert shown(replace(seen, end_time=NOW + 5000), gang(status=before)) == before
