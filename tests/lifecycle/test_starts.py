"""From an accepted gang to started pods, in a small world, step by step until nothing is left to do."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bridge.errors import SlurmUnavailable
from bridge.lifecycle import actions as act
from bridge.lifecycle.plan import plan
from bridge.model.gang import GangStatus, HoldStatus, Phase, Result
from bridge.model.slurm import JobState
from bridge.slurm.fake import Fault
from tests.builders import NOW, devices, foreign_claim, gang, hold, job, node, snapshot
from tests.lifecycle.lives import apply
from tests.lifecycle.world import world


def test_a_gated_pod_that_somebody_deletes_is_made_again():
    place, owner = world(), gang()
    apply(place, owner)
    while not place.pods:
        place.cycle()
    del place.pods[next(iter(place.pods))]
    place.run()
    assert (place.status(owner).phase, place.status(owner).attempt) == (Phase.RUNNING, 1)


@pytest.mark.parametrize(
    "harm",
    [
        pytest.param(lambda pod, claim: (replace(pod, node="n3"), claim), id="another node"),
        pytest.param(lambda pod, claim: (replace(pod, uid="uid-new"), claim), id="another pod"),
        pytest.param(lambda pod, claim: (pod, replace(claim, devices=devices("n3", [0]))), id="other devices"),
        pytest.param(lambda pod, claim: (pod, replace(claim, deleting=True)), id="claim deleted"),
    ],
)
def test_an_attempt_that_is_not_as_planned_is_undone_and_begun_again(harm):
    place, owner = world(), gang()
    apply(place, owner)
    while not any(claim.is_allocated for claim in place.claims.values()):
        place.cycle()
    pod, claim = next(iter(place.pods.values())), next(iter(place.claims.values()))
    place.pods[pod.name], place.claims[claim.name] = harm(pod, claim)
    place.settle(place.kubelet)
    assert place.status(owner).outcome is None
    assert place.status(owner).attempt == 2
    place.slurm.advance(1)
    place.run()
    assert (place.status(owner).phase, place.status(owner).attempt) == (Phase.RUNNING, 2)


def test_a_gang_waits_for_a_foreign_claim_on_its_devices():
    place, owner = world(), gang()
    place.claims["theirs"] = foreign_claim("theirs", devices("n1", [3]))
    apply(place, owner)
    place.run()
    status = place.status(owner)
    assert (status.phase, status.reason) == (Phase.STARTING, "DevicesBusy")
    assert "claim other/theirs" in status.message
    assert all(pod.gated for pod in place.pods.values())
    del place.claims["theirs"]
    place.run()
    assert place.status(owner).phase is Phase.RUNNING


def test_an_index_without_a_device_stops_the_start_and_says_where():
    place, owner = world(), gang()
    apply(place, owner)
    while not place.live_holds():
        place.cycle()
    whole = place.pools["n2"]
    place.pools["n2"] = replace(whole, devices=whole.devices[:-1])
    assert place.snapshot().slurm.jobs[1].state is JobState.RUNNING
    place.fleet = replace(place.fleet, devices=())  # so that the pool is not repaired meanwhile
    place.run()
    status = place.status(owner)
    assert (status.phase, status.reason) == (Phase.STARTING, "DevicesUnknown")
    assert "n1" in status.message
    assert not place.pods
    place.fleet = world().fleet
    place.run()
    assert place.status(owner).phase is Phase.RUNNING


def test_a_submission_without_an_answer_never_makes_a_second_live_hold():
    place, owner = world(), gang()
    place.run()
    apply(place, owner)
    place.slurm.fail("allocate", Fault.AFTER)
    with pytest.raises(SlurmUnavailable, match="no answer, carried out"):
        place.cycle()
    place.run()
    assert len(place.slurm.jobs) == 1
    assert place.status(owner).phase is Phase.RUNNING


def test_two_gangs_in_one_cycle_do_not_get_the_same_nodes():
    place = world("n1", "n2", "n3", "n4")
    first, second = gang("first"), gang("second")
    apply(place, first, second)
    place.run()
    held = [sorted(job.grants) for job in place.slurm.jobs.values()]
    assert held == [["n1", "n2"], ["n3", "n4"]]


def test_the_older_gang_goes_first():
    place = world("n1", "n2")
    young, old = gang("a-young", created=NOW - 1), gang("z-old", created=NOW - 2)
    apply(place, young, old)
    place.run()
    assert place.status(old).phase is Phase.RUNNING
    assert place.status(young).phase is Phase.QUEUED


def test_two_gangs_share_a_node_without_sharing_a_device():
    place = world("n1")
    pair = gang("first", replicas=1, gres="gpu:h100:4"), gang("second", replicas=2, gres="gpu:h100:2")
    apply(place, *pair)
    place.run()
    assert [place.status(owner).phase for owner in pair] == [Phase.RUNNING, Phase.RUNNING]
    used = [device for claim in place.claims.values() for device in claim.devices]
    assert len(used) == len(set(used)) == 8


def test_a_gang_that_never_fits_is_told_why_and_asks_slurm_for_nothing():
    place, owner = world("n1"), gang(replicas=2)
    apply(place, owner)
    place.run()
    status = place.status(owner)
    assert (status.phase, status.reason) == (Phase.PENDING, "InsufficientDevices")
    assert "2 pods of gpu:h100:8 need 2 nodes with 8 free gpu:h100 each; 1 of 1 have them" in status.message
    assert not place.slurm.jobs


def test_a_refused_gang_is_told_why_and_asks_slurm_for_nothing():
    place, owner = world("n1"), gang(namespace="other")
    apply(place, owner)
    place.run()
    status = place.status(owner)
    assert (status.phase, status.reason) == (Phase.PENDING, "NamespaceNotAllowed")
    assert not place.slurm.jobs


def test_a_gang_waits_pinned_where_devices_are_free_first():
    place, owner = world("n1", "n2"), gang(replicas=1)
    place.run()
    place.slurm.sbatch(gpus=8, pin=["n1"], time_limit_min=30)
    place.slurm.sbatch(gpus=8, pin=["n2"], time_limit_min=10)
    apply(place, owner)
    place.run()
    assert place.slurm.jobs[3].pin == ("n2",)
    assert place.status(owner).phase is Phase.QUEUED
    place.slurm.advance(601)
    place.run()
    assert place.status(owner).phase is Phase.RUNNING


@pytest.mark.parametrize("loss", ["drained", "kubernetes"])
def test_a_pin_moves_when_its_nodes_go_out_of_service(loss):
    place, owner = world("n1", "n2"), gang(replicas=1)
    place.run()
    place.slurm.sbatch(gpus=8, pin=["n1"], time_limit_min=10)
    place.slurm.sbatch(gpus=8, pin=["n2"], time_limit_min=30)
    apply(place, owner)
    place.run()
    assert place.slurm.jobs[3].pin == ("n1",)
    if loss == "drained":
        place.slurm.set_node("n1", "DRAIN")
    else:
        place.down_nodes.add("n1")
    place.slurm.advance(5)
    place.run()
    assert place.slurm.jobs[3].pin == ("n2",)


def test_a_pin_moves_to_nodes_that_became_free_and_keeps_the_shape_of_its_hold():
    place, owner = world("n1", "n2", "n3"), gang(replicas=2, gres="gpu:h100:4")
    place.run()
    blockers = [
        place.slurm.sbatch(gpus=5, pin=[name], time_limit_min=10 * (1 + number))
        for number, name in enumerate(["n1", "n2", "n3"])
    ]
    apply(place, owner)
    place.run()
    hold = place.slurm.jobs[4]
    assert (hold.pin, hold.count, hold.shape.gres[0].count) == (("n1",), 1, 8)
    place.slurm.end(blockers[2])
    place.slurm.advance(5)
    place.run()
    assert (hold.pin, hold.state) == (("n3",), JobState.RUNNING)
    assert place.status(owner).phase is Phase.RUNNING


def test_a_spread_hold_is_not_moved_onto_fewer_nodes_than_it_has():
    place, owner = world("n1", "n2", "n3"), gang(replicas=2, gres="gpu:h100:4")
    place.run()
    for name in ("n1", "n2"):
        place.slurm.sbatch(gpus=4, pin=[name], time_limit_min=600)
    whole = place.slurm.sbatch(gpus=8, pin=["n3"], time_limit_min=600)
    late = [place.slurm.sbatch(gpus=4, pin=[name], time_limit_min=10) for name in ("n1", "n2")]
    apply(place, owner)
    place.run()
    hold = place.slurm.jobs[6]
    assert (hold.pin, hold.count) == (("n1", "n2"), 2)
    place.slurm.end(whole)
    place.slurm.advance(5)
    place.run()
    assert len(hold.pin) == hold.count == 2
    for number in late:
        place.slurm.end(number)
    place.run()
    assert place.status(owner).phase is Phase.RUNNING


def test_an_sbatch_job_is_mirrored_and_its_devices_are_taken_until_its_epilog_is_done():
    place = world("n1", "n2")
    place.slurm.epilog = True
    place.run()
    number = place.slurm.sbatch(gpus=3, nodes=2)
    place.run()
    assert list(place.mirrors) == ["slurm-1"]
    taken = {*devices("n1", range(3)), *devices("n2", range(3))}
    assert {device for claim in place.claims.values() for device in claim.devices} == taken
    place.slurm.end(number)
    place.run()
    assert {device for claim in place.claims.values() for device in claim.devices} == taken
    place.slurm.finish_epilog(number, "n1")
    place.run()
    assert {device for claim in place.claims.values() for device in claim.devices} == {*devices("n2", range(3))}
    place.slurm.finish_epilog(number)
    place.run()
    assert not place.claims
    assert not place.mirrors


def test_a_gang_takes_only_what_sbatch_left():
    place = world("n1")
    place.run()
    place.slurm.sbatch(gpus=3)
    owner = gang(replicas=1, gres="gpu:h100:5")
    apply(place, owner)
    place.run()
    assert place.status(owner).phase is Phase.RUNNING
    mine = [claim for claim in place.claims.values() if claim.gang_uid]
    assert mine[0].devices == devices("n1", range(3, 8))


def test_a_gang_does_not_take_a_node_whose_epilog_runs_while_another_is_free():
    place, owner = world("n1", "n2"), gang(replicas=1)
    place.run()
    place.slurm.epilog = True
    place.slurm.end(place.slurm.sbatch(gpus=8, pin=["n1"]))
    apply(place, owner)
    place.run()
    assert place.slurm.jobs[2].pin == ("n2",)
    assert place.status(owner).phase is Phase.RUNNING


def test_a_gang_of_any_type_waits_in_slurms_queue_behind_another_one():
    place = world("n1")
    place.run()
    place.slurm.sbatch(gpus=8, time_limit_min=30)
    first, second = gang("first", replicas=1, gres="gpu:8"), gang("second", replicas=1, gres="gpu:8")
    apply(place, first, second)
    place.run()
    assert [job.pin for job in place.slurm.jobs.values()] == [(), ("n1",), ("n1",)]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [({"silent": True}, "SlurmUnreachable"), ({"fleet": None}, "NoFleet")],
    ids=["slurm", "fleet"],
)
def test_a_gang_that_cannot_be_judged_yet_says_so_once(changes, reason):
    owner = gang(has_finalizer=False)
    (decision,) = plan(snapshot([node("n1")], gangs=(owner,), **changes)).decisions
    assert (decision.status.phase, decision.status.reason) == (Phase.PENDING, reason)
    assert not any(decision.stages)
    told = replace(owner, status=decision.status)
    assert plan(snapshot([node("n1")], gangs=(told,), **changes)).decisions[0].status is None


def test_a_hold_that_slurmctld_failed_by_itself_is_lost_and_tried_again():
    """A submission that hung: slurmctld makes the job and ends it, because nobody is there any more to be told."""
    owner = gang(max_restarts=0)
    failed = hold(owner, state=JobState.FAILED, on={})
    (decision,) = plan(snapshot([node("n1")], gangs=(owner,), jobs=[failed])).decisions
    assert decision.status.outcome.result is Result.HOLD_LOST
    told = replace(owner, status=decision.status)
    (decision,) = plan(snapshot([node("n1")], gangs=(told,), jobs=[failed])).decisions
    assert (decision.status.attempt, decision.status.restarts) == (2, 0)


@pytest.mark.parametrize(("reason", "moves"), [("Resources", True), ("JobHeldAdmin", False), ("JobHeldUser", False)])
def test_a_pin_stays_where_it_is_while_somebody_holds_the_job(reason, moves):
    owner = gang(replicas=1, status=GangStatus(hold=HoldStatus(job_id=10, state="PENDING", nodes="n1")))
    waits = hold(owner, 10, JobState.PENDING, reason=reason, required_nodes=("n1",), submit_time=NOW - 60)
    seen = snapshot([node("n1"), node("n2")], gangs=(owner,), jobs=[job(1, on={"n1": range(8)}), waits])
    (decision,) = plan(seen).decisions
    moved = [action for stage in decision.stages for action in stage if isinstance(action, act.RepinHold)]
    assert [action.nodes for action in moved] == ([("n2",)] if moves else [])
    assert f"Slurm: {reason}" in decision.status.message
