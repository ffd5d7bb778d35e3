"""A device is free only on evidence: pods deleted by force, kubelets that are lost, finalizers that somebody strips."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bridge.lifecycle import actions as act
from bridge.lifecycle.evidence import Evidence, find_remains, read_evidence
from bridge.lifecycle.plan import plan
from bridge.model.gang import Gang, Phase
from bridge.model.hold import GangKey
from bridge.model.kube import ClaimView, PodPhase, PodView
from bridge.slurm.fake import FakeNode, FakeSlurm
from tests.builders import claim, gang, kube_node, node, pod, snapshot
from tests.lifecycle.lives import apply, assert_clean, started
from tests.lifecycle.world import World, now


def on(place: World, node_name: str) -> str:
    """Return the name of the pod on a node."""
    return next(name for name, each in place.pods.items() if each.node == node_name)


def node_state(place: World, name: str) -> tuple[bool, str]:
    seen = now(place.slurm.view()).nodes[name]
    return seen.is_drained, seen.reason


def test_a_lost_kubelet_keeps_the_devices_and_its_node_is_fenced():
    place, owner = started("n1", "n2", "n3")
    lost = on(place, "n2")
    place.down_nodes.add("n2")
    place.delete_pod(lost)
    place.run()
    assert place.status(owner).phase is Phase.FAILED
    assert place.claims[f"{lost}-gpu"].is_allocated
    assert place.pods[lost].held
    assert node_state(place, "n2") == (True, "gangbridge: pods of research/llm, attempt 1, are not proven gone")


def test_a_gang_with_restarts_left_runs_again_beside_what_is_not_proven_gone():
    place, owner = started("n1", "n2", "n3", max_restarts=1)
    lost = on(place, "n2")
    place.down_nodes.add("n2")
    place.delete_pod(lost)
    place.run()
    place.slurm.advance(1)
    place.run()
    assert (place.status(owner).phase, place.status(owner).attempt) == (Phase.RUNNING, 2)
    assert sorted(each.node for each in place.pods.values() if each.attempt == 2) == ["n1", "n3"]
    assert place.claims[f"{lost}-gpu"].is_allocated


def test_a_node_that_comes_back_clean_is_resumed_and_nothing_is_left():
    place, owner = started("n1", "n2", "n3")
    lost = on(place, "n2")
    place.down_nodes.add("n2")
    place.delete_pod(lost)
    place.run()
    place.down_nodes.clear()
    place.run()
    assert_clean(place, owner)
    assert lost not in place.pods
    assert node_state(place, "n2") == (False, "")


def test_the_word_of_an_admin_stands_for_the_kubelets():
    place, owner = started("n1", "n2", "n3")
    lost = on(place, "n2")
    place.down_nodes.add("n2")
    place.delete_pod(lost)
    place.run()
    place.fences.add("n2")
    place.run()
    assert_clean(place, owner)
    assert lost not in place.pods
    assert node_state(place, "n2") == (False, "")


def test_a_fenced_node_takes_no_gang():
    place, _ = started("n1", "n2", "n3", replicas=1)
    place.fences |= {"n2", "n3"}
    other = gang("other", replicas=1)
    apply(place, other)
    place.run()
    assert [each.node for each in place.pods.values()] == ["n1"]


def test_a_pod_on_a_node_that_an_admin_fences_ends_its_gang_though_it_looks_alive():
    place, owner = started("n1", "n2", "n3")
    place.down_nodes.add("n2")
    place.fences.add("n2")
    place.run()
    assert place.status(owner).reason == "PodLost"
    assert_clean(place, owner)


def test_devices_of_a_pod_whose_finalizer_was_stripped_stay_taken_until_an_admin_vouches():
    place, owner = started("n1", "n2", "n3")
    gone = on(place, "n2")
    del place.pods[gone]
    place.run()
    assert place.claims[f"{gone}-gpu"].is_allocated
    assert node_state(place, "n2")[0]
    assert place.status(owner).phase is Phase.FAILED
    place.fences.add("n2")
    place.run()
    assert_clean(place, owner)
    assert node_state(place, "n2") == (False, "")


def test_a_pod_is_not_made_anew_where_its_forerunner_may_still_run():
    """Its end would be taken for the end of the first one."""
    place, owner = started("n1", "n2", "n3", replicas=1)
    gone = on(place, "n1")
    del place.pods[gone]
    place.run()
    assert place.claim_names[f"{gone}-gpu"] == 1
    assert gone not in place.pods
    assert place.claims[f"{gone}-gpu"].is_allocated
    assert place.status(owner).reason == "PodLost"
    assert node_state(place, "n1")[0]


def test_a_pod_of_the_same_name_proves_nothing_about_the_one_that_a_claim_is_reserved_for():
    owner = gang(deleting=True)
    again = pod(owner, on="n1", uid="uid-again", deleting=True, stopped=True, gated=True)
    seen = snapshot([node("n1")], gangs=(owner,), pods=(again,), claims=(claim(owner, on=("n1", [0])),))
    (decision,) = plan(seen).decisions
    assert [type(action).__name__ for stage in decision.stages for action in stage] == ["ReleasePod"]
    (remains,) = find_remains(seen, read_evidence(seen)).values()
    assert remains.quarantined == {"n1"}


def test_a_claim_that_is_reserved_for_nobody_is_still_its_pods():
    """We died between the two writes that free it, and the resource claim controller saw no finalizer of its own."""
    owner = gang(deleting=True)
    half = replace(claim(owner, on=("n1", [0])), reserved_for=())
    ended = pod(owner, on="n1", deleting=True, stopped=True)
    seen = snapshot([node("n1")], gangs=(owner,), pods=(ended,), claims=(half,))
    (decision,) = plan(seen).decisions
    assert [type(action).__name__ for stage in decision.stages for action in stage] == ["FreeClaim", "ReleasePod"]
    assert not find_remains(seen, read_evidence(seen))[owner.key].quarantined


def test_a_deleted_gang_waits_for_what_is_not_proven_and_says_so():
    place, owner = started("n1", "n2", "n3")
    place.down_nodes.add("n2")
    place.change(owner, deleting=True)
    place.run()
    assert owner.uid in place.gangs
    assert "not proven gone on n2" in place.status(owner).message
    assert "kubectl gang fence" in place.status(owner).message
    assert not place.live_holds(), "the fence lets the hold end"
    place.down_nodes.clear()
    place.run()
    assert owner.uid not in place.gangs
    assert node_state(place, "n2") == (False, "")


@pytest.mark.parametrize("state", ["DRAIN", "DOWN"])
def test_a_node_that_an_admin_closed_is_fence_enough_and_keeps_his_reason(state):
    place, owner = started("n1", "n2", "n3")
    place.slurm.set_node("n2", state, reason="bad fan")
    place.down_nodes.add("n2")
    place.change(owner, deleting=True)
    place.run()
    assert not place.live_holds()
    assert not place.cycle(), "a drain that changes nothing is work for ever"
    place.down_nodes.clear()
    place.run()
    assert owner.uid not in place.gangs
    assert node_state(place, "n2") == (state == "DRAIN", "bad fan")


def test_what_slurm_ends_first_on_an_external_node_is_fenced_until_the_pods_are_gone():
    nodes = [FakeNode(name=name, external=True) for name in ("n1", "n2")]
    place, owner = World(slurm=FakeSlurm(nodes)), gang()
    apply(place, owner)
    place.run()
    assert place.status(owner).phase is Phase.RUNNING
    now(place.slurm.cancel(1))
    place.cycle()
    assert node_state(place, "n1")[0]
    assert node_state(place, "n2")[0]
    taker = place.slurm.sbatch(gpus=8, nodes=1)
    assert not place.slurm.jobs[taker].is_running
    place.run()
    assert_clean(place, owner)
    assert node_state(place, "n1") == (False, "")


def test_slurmctld_without_its_state_gives_no_device_of_a_running_pod_to_others():
    place, owner = started("n1", "n2")
    place.slurm.lose_state()
    place.cycle()
    job = place.slurm.sbatch(gpus=8, nodes=1)
    assert not place.slurm.jobs[job].is_running
    place.run()
    assert place.status(owner).attempt == 2


def test_a_node_that_vanished_from_kubernetes_is_not_taken_for_clean():
    """A cloud controller deletes the Node object of a kubelet that is silent; pod garbage collection fails its pods."""
    nodes = [FakeNode(name=name, external=True) for name in ("n1", "n2")]
    place, owner = World(slurm=FakeSlurm(nodes)), gang()
    apply(place, owner)
    place.run()
    lost = on(place, "n2")
    place.hidden_nodes.add("n2")
    place.delete_pod(lost)
    place.run()
    assert place.claims[f"{lost}-gpu"].is_allocated
    assert node_state(place, "n2")[0]
    place.hidden_nodes.clear()
    place.run()
    assert_clean(place, owner)
    assert node_state(place, "n2") == (False, "")


def test_a_claim_that_is_not_freed_yet_fences_its_node_too():
    owner = gang(deleting=True)
    stopped = pod(owner, on="n1", deleting=True, stopped=True)
    held = claim(owner, on=("n1", [0]))
    assert [action.nodes for action in drains((owner,), (stopped,), (held,))] == [("n1",)]


def test_a_node_with_pods_of_two_gangs_is_drained_once_and_names_one():
    owners = gang("one", deleting=True), gang("two", deleting=True)
    claims = tuple(claim(owner, on=("n1", [index])) for index, owner in enumerate(owners))
    (drain,) = drains(owners, tuple(pod(owner, on="n1") for owner in owners), claims)
    assert (drain.nodes, drain.reason) == (("n1",), "gangbridge: pods of research/one, attempt 1, are not proven gone")


def drains(gangs: tuple[Gang, ...], pods: tuple[PodView, ...], claims: tuple[ClaimView, ...]) -> list[act.DrainNodes]:
    """Return which drains are planned for the open EXTERNAL node n1."""
    free = node("n1", states=("IDLE", "EXTERNAL"))
    chores = plan(snapshot([free], gangs=gangs, pods=pods, claims=claims)).chores
    actions = [action for chore in chores for stage in chore.stages for action in stage]
    return [action for action in actions if isinstance(action, act.DrainNodes)]


READY = Evidence(ready=frozenset({"n1"}), fenced=frozenset({"n9"}))


@pytest.mark.parametrize(
    ("changes", "stopped", "awaited"),
    [
        pytest.param({"on": "n1"}, False, True, id="runs"),
        pytest.param({"on": "n2"}, False, False, id="its node is silent"),
        pytest.param({"on": "n2", "phase": PodPhase.FAILED}, True, False, id="had ended before its node fell silent"),
        pytest.param({"on": "n9"}, True, False, id="fenced"),
    ],
)
def test_what_is_known_of_a_pod(changes, stopped, awaited):
    seen = pod(gang(), **changes)
    assert (READY.is_stopped(seen), READY.is_awaited(seen)) == (stopped, awaited)


def test_an_allocated_claim_without_its_pod_is_free_on_a_fenced_node_alone():
    held = claim(gang(), on=("n1", range(8)))
    assert not READY.frees(held, None)
    assert READY.frees(replace(held, node="n9"), None)
    assert READY.frees(claim(gang()), None), "never allocated"


def test_remains_tell_what_is_bound_unproven_and_quarantined():
    owner = gang(replicas=4)
    seen = snapshot(
        [node(name) for name in ("n1", "n2", "n3", "n4")],
        nodes=tuple(kube_node(name, ready=name != "n3") for name in ("n1", "n2", "n3", "n4")),
        pods=(pod(owner, 0, on="n1", gated=True), pod(owner, 1, on="n2"), pod(owner, 2, on="n3")),
        claims=(claim(owner, 1, on=("n2", range(8))), claim(owner, 3, on=("n4", range(8)))),
    )
    (remains,) = find_remains(seen, read_evidence(seen)).values()
    assert remains.bound == {"n1", "n2", "n3", "n4"}
    assert remains.unproven == {"n2", "n3", "n4"}
    assert remains.quarantined == {"n3", "n4"}
    assert GangKey(uid=owner.uid, attempt=1) in find_remains(seen, read_evidence(seen))


def test_a_plan_frees_no_claim_before_its_pod_is_proven_gone():
    owner = gang(deleting=True)
    seen = snapshot(
        [node("n1")], gangs=(owner,), pods=(pod(owner, on="n1", deleting=True),), claims=(claim(owner, on=("n1", [0])),)
    )
    assert [decision.stages for decision in plan(seen).decisions] == [()]
