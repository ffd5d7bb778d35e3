"""The guard in ``Extra`` of Slurm nodes, for which the epilog of a hold waits."""

from __future__ import annotations

import pytest

from bridge.lifecycle import actions as act
from bridge.lifecycle.guard import guarded, is_foreign
from bridge.lifecycle.plan import plan
from bridge.model.gang import Phase
from bridge.slurm.fake import FakeNode, FakeSlurm
from tests.builders import gang, hold, node, snapshot
from tests.lifecycle.lives import apply, assert_clean, started, submit_again
from tests.lifecycle.world import World, now, world


def extras(place: World) -> dict[str, str]:
    return {name: seen.extra for name, seen in now(place.slurm.view()).nodes.items() if seen.extra}


@pytest.mark.parametrize(
    ("text", "ids", "foreign"),
    [
        ("", set(), False),
        ("gangbridge:7", {7}, False),
        ("gangbridge:7,12", {7, 12}, False),
        ("gangbridge:", set(), False),
        ("gangbridge:7,x", {7}, False),
        ("rack=4", set(), True),
        ("note gangbridge:7", set(), True),
    ],
)
def test_what_extra_says(text, ids, foreign):
    seen = node("n1", extra=text)
    assert (guarded(seen), is_foreign(seen)) == (ids, foreign)


def test_every_node_is_guarded_before_the_first_claim_is_allocated_and_no_longer_than_needed():
    place, owner = world("n1", "n2", "n3"), gang()
    apply(place, owner)
    while "UngatePod" not in place.log:
        place.cycle()
        place.kubelet()
    assert place.log.index("SetGuard") < place.log.index("AllocateClaim") < place.log.index("UngatePod")
    assert extras(place) == {"n1": "gangbridge:1", "n2": "gangbridge:1"}
    place.run()
    place.end_pods()
    place.run()
    assert extras(place) == {}
    assert [name for name, _ in place.slurm.calls] == ["allocate", "set_extra", "set_extra", "complete"]


def test_no_pod_starts_while_a_node_cannot_be_guarded():
    place, owner = world("n1", "n2"), gang()
    apply(place, owner)
    while "SubmitHold" not in place.log:
        place.cycle()
    place.slurm.nodes["n2"].extra = "rack=4"
    place.run()
    assert "AllocateClaim" not in place.log
    assert extras(place) == {"n1": "gangbridge:1", "n2": "rack=4"}
    assert place.status(owner).message == "somebody else's text is in Extra of n2"
    place.slurm.nodes["n2"].extra = ""
    place.run()
    assert place.status(owner).phase is Phase.RUNNING


def test_a_node_with_somebody_elses_extra_takes_no_gang():
    place, owner = world("n1", "n2", "n3"), gang()
    place.slurm.nodes["n1"].extra = "rack=4"
    apply(place, owner)
    place.run()
    assert sorted(pod.node for pod in place.pods.values()) == ["n2", "n3"]
    assert extras(place)["n1"] == "rack=4"


def test_slurm_ends_first_and_each_node_waits_for_its_own_pods_alone():
    place, owner = started("n1", "n2", "n3")
    place.hanging_nodes.add("n2")
    now(place.slurm.cancel(1))
    place.run()
    (job,) = place.slurm.jobs.values()
    assert job.epilogs == ("n2",), "the pod on n1 is proven gone"
    assert extras(place) == {"n2": "gangbridge:1"}
    place.hanging_nodes.clear()
    place.run()
    assert_clean(place, owner)
    assert extras(place) == {}


def test_past_its_bound_the_epilog_fences_and_the_bridge_lifts_that_fence_on_evidence():
    place, owner = started("n1", "n2", "n3")
    place.hanging_nodes.add("n2")
    now(place.slurm.cancel(1))
    place.run()
    place.slurm.advance(place.slurm.epilog_bound + 1)
    place.run()
    seen = now(place.slurm.view()).nodes["n2"]
    assert seen.is_drained
    assert seen.reason.startswith("gangbridge: ")
    place.hanging_nodes.clear()
    place.run()
    assert not now(place.slurm.view()).nodes["n2"].is_drained
    assert_clean(place, owner)


def test_external_nodes_are_not_guarded_because_no_epilog_runs_there():
    place, owner = (
        World(slurm=FakeSlurm([FakeNode(name="n1", external=True), FakeNode(name="n2", external=True)])),
        gang(),
    )
    apply(place, owner)
    place.run()
    assert place.status(owner).phase is Phase.RUNNING
    assert "SetGuard" not in place.log


def test_two_holds_on_one_node_are_guarded_side_by_side():
    place = world("n1")
    first, second = (gang(name, replicas=1, gres="gpu:h100:2") for name in ("a", "b"))
    apply(place, first, second)
    place.run()
    assert extras(place) == {"n1": "gangbridge:1,2"}
    place.change(first, deleting=True)
    place.run()
    assert extras(place) == {"n1": "gangbridge:2"}


def test_a_duplicate_hold_is_not_guarded_and_goes():
    place, _ = started("n1", "n2", "n3", "n4")
    submit_again(place)
    place.run()
    assert place.live_holds() == [1]
    assert extras(place) == {"n1": "gangbridge:1", "n2": "gangbridge:1"}


def test_a_hold_whose_workdir_was_changed_before_it_ran_starts_no_pod():
    owner = gang(replicas=1)
    seen = snapshot([node("n1")], gangs=(owner,), jobs=[hold(owner, on={"n1": range(8)}, work_dir="/tmp")])  # noqa: S108
    (decision,) = plan(seen).decisions
    assert decision.status is not None
    assert decision.status.outcome is not None
    assert "WorkDir" in decision.status.outcome.message
    assert not [action for stage in decision.stages for action in stage if isinstance(action, act.CreatePod)]


def test_a_node_whose_epilog_waits_is_drained_too_because_a_restart_of_slurmctld_would_open_it():
    place, owner = started("n1", "n2", "n3")
    place.hanging_nodes.add("n2")
    now(place.slurm.cancel(1))
    place.run()
    place.slurm.finish_epilog(1)
    taker = place.slurm.sbatch(gpus=8, pin=["n2"])
    assert not place.slurm.jobs[taker].is_running
    place.hanging_nodes.clear()
    place.run()
    assert place.slurm.jobs[taker].is_running
    assert_clean(place, owner)


def test_a_guard_is_taken_off_a_node_that_is_gone_from_kubernetes_too():
    """Else its hold could never end."""
    place, owner = world("n1", "n2"), gang()
    apply(place, owner)
    place.run()
    place.end_pods()
    place.hidden_nodes |= {"n1", "n2"}
    place.run()
    assert extras(place) == {}
    assert_clean(place, owner)
