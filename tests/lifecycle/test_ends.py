"""Every way in which a gang ends, in a small world, step by step until nothing is left to do."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bridge.lifecycle.end import OVERDUE_S, retry_at
from bridge.lifecycle.outcome import STOPPING_S
from bridge.lifecycle.plan import plan
from bridge.model.gang import Condition, ConditionType, GangStatus, Phase, Result
from bridge.model.kube import PodPhase
from bridge.model.slurm import JobState
from tests.builders import NOW, claim, devices, gang, hold, node, pod, snapshot
from tests.lifecycle.lives import apply, assert_clean, endings, started, submit_again
from tests.lifecycle.world import now, world


def test_a_gang_runs_on_the_devices_of_its_hold_and_ends_with_success():
    place, owner = started()
    assert [pod.node for pod in place.pods.values()] == ["n1", "n2"]
    assert {device for claim in place.claims.values() for device in claim.devices} == {
        *devices("n1", range(8)),
        *devices("n2", range(8)),
    }
    assert place.status(owner).is_true(ConditionType.RUNNING)
    assert (place.status(owner).pods, place.status(owner).ready_pods) == ("2/2", 2)
    place.end_pods()
    place.run()
    status = place.status(owner)
    assert (status.phase, status.reason, status.exit_code) == (Phase.SUCCEEDED, "Succeeded", 0)
    assert status.completion_time == NOW
    assert endings(place) == [(JobState.COMPLETED, 0)]
    assert len(place.pods) == 2, "pods that ended stay for their logs"
    assert_clean(place, owner)


def test_a_gang_of_which_one_pod_fails_is_taken_down_and_ends_with_its_exit_code():
    place, owner = started()
    first = next(iter(place.pods))
    place.pods[first] = replace(place.pods[first], phase=PodPhase.FAILED, exit_code=3, stopped=True)
    place.run()
    status = place.status(owner)
    assert (status.phase, status.reason, status.exit_code) == (Phase.FAILED, "PodFailed", 3)
    assert f"pod {first} (rank 0) failed with exit code 3" in status.message
    assert endings(place) == [(JobState.FAILED, 3)]
    assert list(place.pods) == [first]
    assert_clean(place, owner)


def test_a_failed_gang_with_restarts_left_runs_again_after_a_pause():
    place, owner = started(max_restarts=1)
    place.end_pods(PodPhase.FAILED, 3)
    place.run()
    status = place.status(owner)
    assert (status.attempt, status.restarts, status.exit_code) == (2, 1, None)
    assert not place.live_holds()
    place.slurm.advance(1)
    place.run()
    assert place.status(owner).phase is Phase.RUNNING
    assert all("-2-" in name for name in [*place.pods, *place.claims])
    place.end_pods(PodPhase.FAILED, 4)
    place.run()
    assert (place.status(owner).phase, place.status(owner).exit_code) == (Phase.FAILED, 4)
    assert endings(place) == [(JobState.FAILED, 3), (JobState.FAILED, 4)]
    assert_clean(place, owner)


def test_scancel_ends_a_gang_for_good():
    place, owner = started(max_restarts=3)
    place.slurm.epilog = True
    now(place.slurm.cancel(1))
    place.run()
    assert place.status(owner).phase is Phase.COMPLETING, "the epilog waits for the pods, the gang for the epilog"
    assert not place.pods
    assert not place.claims
    place.slurm.finish_epilog(1)
    place.run()
    assert (place.status(owner).phase, place.status(owner).reason) == (Phase.FAILED, "Cancelled")
    assert_clean(place, owner)


def test_a_time_limit_ends_a_gang_for_good():
    place, owner = started(time_limit_min=5, max_restarts=3)
    place.slurm.advance(301)
    place.run()
    assert (place.status(owner).phase, place.status(owner).reason) == (Phase.FAILED, "TimeLimit")
    assert_clean(place, owner)


def test_pods_stop_before_the_time_limit_and_slurm_ends_the_hold_itself():
    place, owner = started(time_limit_min=5)
    place.slurm.advance(300 - 30 - STOPPING_S - 1)
    place.run()
    assert place.status(owner).phase is Phase.RUNNING
    place.slurm.advance(1)
    place.run()
    assert (place.status(owner).phase, place.status(owner).reason) == (Phase.COMPLETING, "TimeLimit")
    assert not place.pods
    assert not place.claims
    assert endings(place) == [(JobState.RUNNING, 0)]
    place.slurm.advance(60)
    place.run()
    assert endings(place) == [(JobState.TIMEOUT, 0)], "the accounting tells the truth"
    assert (place.status(owner).phase, place.status(owner).reason) == (Phase.FAILED, "TimeLimit")
    assert_clean(place, owner)


def test_a_hold_that_slurm_does_not_end_at_its_limit_is_cancelled():
    """A site may let jobs overrun (OverTimeLimit)."""
    place, _ = started(time_limit_min=5)
    job, view = place.slurm.jobs[1], place.slurm.view
    job.time_limit_min, limit_at = 10_000, job.limit_at

    async def overdue():
        found = await view()
        late = {1: replace(found.jobs[1], end_time=int(limit_at))}
        return replace(found, jobs=late)

    place.slurm.view = overdue
    place.slurm.advance(300 + OVERDUE_S - 1)
    place.run()
    assert endings(place) == [(JobState.RUNNING, 0)]
    place.slurm.advance(1)
    place.run()
    assert endings(place) == [(JobState.CANCELLED, 0)]


def test_a_hold_that_is_given_more_time_while_its_gang_ends_does_not_idle():
    place, owner = started(time_limit_min=5)
    place.slurm.advance(300 - 30 - STOPPING_S)
    while place.status(owner).outcome is None:
        place.cycle()
    place.slurm.jobs[1].time_limit_min = 600
    place.run()
    assert endings(place) == [(JobState.CANCELLED, 0)]
    assert place.status(owner).reason == "TimeLimit"


@pytest.mark.parametrize(
    ("happen", "reason"),
    [
        pytest.param(lambda place: place.slurm.preempt(1), "Preempted", id="preempted"),
        pytest.param(lambda place: place.slurm.set_node("n2", "DOWN"), "NodeFailed", id="node failed"),
        pytest.param(lambda place: place.slurm.jobs.pop(1), "no longer knows job 1", id="record gone"),
    ],
)
def test_a_gang_that_lost_its_nodes_runs_elsewhere_and_is_not_charged_a_restart(happen, reason):
    place, owner = started("n1", "n2", "n3", max_restarts=0)
    happen(place)
    place.run()
    assert reason in place.status(owner).message
    place.slurm.advance(1)
    place.run()
    status = place.status(owner)
    assert (status.phase, status.attempt, status.restarts) == (Phase.RUNNING, 2, 0)
    assert len(place.live_holds()) == 1


def test_a_hold_that_slurm_requeued_does_not_keep_its_pods():
    place, owner = started()
    job = place.slurm.jobs[1]
    job.state, job.grants, job.start_time = JobState.PENDING, {}, None
    place.run()
    assert place.status(owner).attempt == 2
    assert job.state is JobState.CANCELLED
    assert_clean(place, owner)


def test_a_hold_that_was_requeued_and_runs_again_with_other_devices_does_not_keep_its_pods():
    """Both in between two polls, on the same nodes: only the indices tell."""
    place, owner = started(replicas=1, gres="gpu:h100:4")
    job = place.slurm.jobs[1]
    name, (held,) = next(iter(job.grants.items()))
    job.grants[name] = (replace(held, indices=tuple(index + 4 for index in held.indices)),)
    place.run()
    assert place.status(owner).attempt == 2
    assert job.state is JobState.CANCELLED
    assert_clean(place, owner)


@pytest.mark.parametrize("cycles", range(9))
def test_a_gang_can_be_deleted_at_every_step(cycles):
    place, owner = world(), gang()
    apply(place, owner)
    for _ in range(cycles):
        place.cycle()
        place.kubelet()
    if owner.uid in place.gangs and not place.gangs[owner.uid].has_finalizer:
        del place.gangs[owner.uid]
    else:
        place.change(owner, deleting=True)
    place.run()
    assert owner.uid not in place.gangs
    assert not place.pods
    assert_clean(place, owner)


def test_a_finished_gang_can_be_deleted_with_its_pods():
    place, owner = started()
    place.end_pods()
    place.run()
    place.change(owner, deleting=True)
    place.run()
    assert not place.gangs
    assert not place.pods


def test_a_hold_that_slurm_forgot_after_the_end_changes_nothing():
    place, owner = started()
    place.end_pods()
    place.run()
    place.slurm.advance(10_000)
    before = place.status(owner)
    place.run()
    assert place.status(owner) == before


def test_of_two_holds_of_one_attempt_the_older_stays():
    place, owner = started("n1", "n2", "n3", "n4")
    submit_again(place)
    assert place.live_holds() == [1, 2]
    place.run()
    assert place.live_holds() == [1]
    assert place.status(owner).phase is Phase.RUNNING
    assert place.status(owner).attempt == 1


def test_a_hold_that_slurm_cancelled_because_its_submitter_had_died_is_no_order_to_end():
    owner = gang()
    for sealed, seconds, result in (
        (False, 1, Result.HOLD_LOST),
        (True, 1, Result.CANCELLED),
        (False, 2, Result.CANCELLED),
    ):
        dead = hold(owner, 1, JobState.CANCELLED, is_sealed=sealed, submit_time=NOW, end_time=NOW + seconds)
        (decision,) = plan(snapshot([node("n1")], gangs=(owner,), jobs=[dead])).decisions
        assert decision.status.outcome.result is result


def test_pods_of_a_hold_that_slurm_has_forgotten_end_though_the_status_never_knew_it():
    owner = gang(replicas=1)
    seen = snapshot([node("n1")], gangs=(owner,), pods=(pod(owner, on="n1", gated=True),), claims=(claim(owner),))
    (decision,) = plan(seen).decisions
    assert decision.status.outcome.result is Result.HOLD_LOST


def test_a_running_attempt_whose_pods_and_claims_all_vanished_is_not_begun_again_under_the_same_names():
    place, owner = started(replicas=1)
    place.pods.clear()
    place.claims.clear()
    place.run()
    assert place.status(owner).reason == "PodLost"


def test_a_duplicate_that_turns_up_after_the_hold_ended_is_not_accounted_as_the_gangs_success():
    place, owner = started("n1", "n2", "n3", "n4")
    place.end_pods()
    while "CompleteHold" not in place.log:
        place.cycle()
    submit_again(place)
    place.run()
    assert endings(place) == [(JobState.COMPLETED, 0), (JobState.CANCELLED, 0)]
    assert place.status(owner).phase is Phase.SUCCEEDED


def test_a_hold_that_turns_up_after_its_gang_finished_is_cancelled():
    place, owner = started("n1", "n2", "n3", "n4")
    place.end_pods()
    place.run()
    submit_again(place)
    assert place.live_holds() == [2]
    place.run()
    assert_clean(place, owner)
    assert place.status(owner).phase is Phase.SUCCEEDED


def test_what_a_vanished_gang_left_is_removed_pods_first_and_the_hold_last():
    place, owner = started()
    del place.gangs[owner.uid]
    place.slurm.advance(60)
    mark = len(place.log)
    place.run()
    assert_clean(place, owner)
    done = [name for name in place.log[mark:] if name in {"DeletePod", "FreeClaim", "CancelHold"}]
    assert done == ["DeletePod"] * 2 + ["FreeClaim"] * 2 + ["CancelHold"]


def test_a_young_hold_without_a_gang_is_left_for_a_while():
    """Its GangJob may only be late in the watch."""
    place, owner = world(), gang()
    apply(place, owner)
    while not place.live_holds():
        place.cycle()
    lost = place.gangs.pop(owner.uid)
    place.run()
    assert place.live_holds() == [1]
    place.gangs[owner.uid] = lost
    place.run()
    assert place.status(owner).phase is Phase.RUNNING


def test_a_running_pod_that_somebody_deletes_ends_the_attempt():
    place, owner = started(max_restarts=0)
    place.delete_pod(next(iter(place.pods)))
    place.run()
    status = place.status(owner)
    assert (status.phase, status.reason) == (Phase.FAILED, "PodLost")
    assert "1 of 2 pods were deleted" in status.message
    assert_clean(place, owner)


def test_a_silent_slurmctld_stops_nothing_that_runs_and_starts_nothing():
    place, owner = started()
    other = gang("other", replicas=1)
    place.slurm.down = True
    apply(place, other)
    before = dict(place.pods), dict(place.claims), place.status(owner)
    for _ in range(5):
        place.cycle()
    assert (dict(place.pods), dict(place.claims), place.status(owner)) == before
    place.slurm.down = False
    place.run()
    assert place.status(other).phase is Phase.RUNNING


def test_a_gang_whose_pods_end_while_slurmctld_is_silent_waits_for_it_to_end_the_hold():
    place, owner = started()
    place.slurm.down = True
    place.end_pods()
    place.run()
    assert place.status(owner).phase is Phase.COMPLETING
    assert not place.claims
    place.slurm.down = False
    assert place.live_holds() == [1]
    place.run()
    assert place.status(owner).phase is Phase.SUCCEEDED
    assert endings(place) == [(JobState.COMPLETED, 0)]


def test_a_gang_deleted_while_slurmctld_is_silent_stays_until_its_hold_is_ended():
    place, owner = started()
    place.slurm.down = True
    place.change(owner, deleting=True)
    place.run()
    assert owner.uid in place.gangs
    assert not place.pods
    place.slurm.down = False
    place.run()
    assert owner.uid not in place.gangs


@pytest.mark.parametrize(("attempt", "pause"), [(2, 1), (3, 2), (4, 4), (9, 128), (12, 300), (10_000, 300)])
def test_each_attempt_waits_twice_as_long_up_to_five_minutes(attempt, pause):
    ended = Condition(type=ConditionType.ALLOCATED, status=False, reason="Restarting", since=NOW)
    owner = gang(status=GangStatus(attempt=attempt, conditions=(ended,)))
    assert retry_at(owner, NOW) == NOW + pause
    assert retry_at(owner, NOW - 1) == 0, "our clock was set back"


def test_the_first_attempt_does_not_wait():
    assert retry_at(gang(), NOW) == 0
