"""The brake: what looks lost all at once is not believed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bridge.lifecycle import actions as act
from bridge.lifecycle.plan import Plan, plan
from bridge.model.fleet import BrakeSpec
from bridge.model.gang import ConditionType, GangStatus, HoldStatus
from bridge.model.kube import PodPhase
from bridge.model.slurm import JobState
from bridge.model.snapshot import Snapshot
from tests.builders import NOW, claim, fleet, gang, hold, job, mirror, node, pod, snapshot
from tests.lifecycle.lives import apply
from tests.lifecycle.world import world


def running(count: int, *, lost: int, state: JobState | None = None, **changes) -> Snapshot:
    """Return ``count`` running gangs, of which the holds of the first ``lost`` are unknown, or in ``state``."""
    names = [f"n{number:02}" for number in range(count)]
    owners = [
        gang(name, replicas=1, status=GangStatus(hold=HoldStatus(job_id=number + 1, state="RUNNING", nodes=name)))
        for number, name in enumerate(names)
    ]
    holds = [
        hold(owner, number + 1, state if state and number < lost else JobState.RUNNING, on={owner.name: range(8)})
        for number, owner in enumerate(owners)
        if state or number >= lost
    ]
    return snapshot(
        [node(name) for name in names],
        gangs=tuple(owners),
        jobs=holds,
        pods=tuple(pod(owner, on=owner.name, phase=PodPhase.RUNNING) for owner in owners),
        claims=tuple(claim(owner, on=(owner.name, range(8))) for owner in owners),
        **changes,
    )


def ended(decided: Plan) -> int:
    return sum(
        1
        for each in decided.decisions
        if each.status is not None and each.status.outcome is not None and not each.stages
    )


@pytest.mark.parametrize(
    ("count", "lost", "braked"),
    [
        pytest.param(10, 3, False, id="30 percent are allowed"),
        pytest.param(10, 4, True, id="more are not"),
        pytest.param(2, 2, False, id="too few to tell"),
        pytest.param(3, 3, True, id="all of three"),
        pytest.param(40, 12, False, id="many, but not too large a share"),
    ],
)
def test_a_share_of_gangs_without_hold_puts_it_on(count, lost, braked):
    decided = plan(running(count, lost=lost))
    assert (decided.brake is not None) is braked
    assert ended(decided) == (0 if braked else lost)


def test_it_says_how_many_and_which():
    braked = plan(running(10, lost=5)).brake
    assert braked is not None
    assert braked.message == "5 of 10 gangs look lost at once, research/n00 for one"


@pytest.mark.parametrize("state", [JobState.CANCELLED, JobState.TIMEOUT, JobState.PREEMPTED])
def test_what_somebody_ordered_is_believed_however_much_it_is(state):
    decided = plan(running(10, lost=10, state=state))
    assert decided.brake is None
    assert ended(decided) == 10


def test_pods_that_somebody_deletes_under_a_kubelet_that_answers_are_an_order():
    seen = running(10, lost=0)
    deleted = tuple(replace(each, deleting=True) for each in seen.pods)
    assert ended(plan(replace(seen, pods=deleted))) == 10
    evicted = plan(replace(seen, pods=deleted, nodes=tuple(replace(each, ready=False) for each in seen.nodes)))
    assert evicted.brake is not None, "every kubelet is silent: it is rather the network"
    vanished = plan(replace(seen, pods=()))
    assert vanished.brake is not None, "nobody saw them go"


def test_nodes_that_all_fail_at_once_are_not():
    assert plan(running(10, lost=10, state=JobState.NODE_FAIL)).brake is not None


def test_while_it_is_on_nodes_are_fenced_and_deleted_gangs_go_on_ending():
    seen = running(10, lost=5)
    gangs = (replace(seen.gangs[9], deleting=True), *seen.gangs[:9])
    decided = plan(replace(seen, gangs=gangs))
    assert decided.brake is not None
    assert [decision.gang.name for decision in decided.decisions] == ["n09"]
    drained = [name for chore in decided.chores for stage in chore.stages for action in stage
               if isinstance(action, act.DrainNodes) for name in action.nodes]  # fmt: skip
    assert drained == ["n00", "n01", "n02", "n03", "n04"]


def test_an_admin_releases_it_for_a_time():
    released = replace(fleet(), brake=BrakeSpec(released_until=NOW + 1))
    assert ended(plan(running(10, lost=10, fleet=released))) == 10
    late = replace(fleet(), brake=BrakeSpec(released_until=NOW))
    assert plan(running(10, lost=10, fleet=late)).brake is not None


def test_its_share_is_the_fleets():
    strict = replace(fleet(), brake=BrakeSpec(max_lost_percent=0, min_lost=1))
    assert plan(running(10, lost=1, fleet=strict)).brake is not None


def test_holds_whose_gangs_all_vanished_are_not_cancelled():
    seen = running(10, lost=0)
    vanished = replace(seen, gangs=seen.gangs[:2], pods=(), now=NOW + 1000)
    decided = plan(vanished)
    assert decided.brake is not None
    assert decided.brake.kind == "holds"
    assert not [chore for chore in decided.chores if chore.key.startswith("orphan")]


def test_mirrors_of_jobs_that_a_slurmctld_without_its_state_forgot_keep_their_devices():
    jobs = [job(number, on={"n1": [number % 8]}) for number in range(100, 106)]
    shown = tuple(mirror(each) for each in jobs)
    forgotten = snapshot([node("n1")], jobs=[job(1, JobState.PENDING)], mirrors=shown)
    assert plan(forgotten).brake is not None
    since = snapshot([node("n1")], jobs=[job(200, JobState.PENDING)], mirrors=shown)
    assert plan(since).brake is None, "a higher id was given since: it has kept its state, the jobs are over"


def test_a_world_that_lost_all_holds_stands_still_until_they_are_back():
    place = world(*[f"n{number}" for number in range(6)])
    owners = [gang(f"g{number}", replicas=1) for number in range(5)]
    apply(place, *owners)
    place.run()
    kept = dict(place.slurm.jobs)
    place.slurm.jobs.clear()
    place.run()
    assert all(place.status(owner).is_true(ConditionType.RUNNING) for owner in owners)
    assert "DeletePod" not in place.log
    place.slurm.jobs.update(kept)
    place.run()
    assert all(place.status(owner).attempt == 1 for owner in owners)
    assert not any(node.reason for node in place.slurm.nodes.values()), "the fences are lifted"
