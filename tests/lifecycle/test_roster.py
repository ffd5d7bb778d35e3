"""Who gets which devices of a running hold, or what is not known yet."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bridge.errors import SpecError
from bridge.lifecycle.fleetview import join
from bridge.lifecycle.plan import plan
from bridge.lifecycle.start import build_roster
from bridge.model.gang import ConditionType
from bridge.model.gres import Gres
from tests.builders import devices, gang, hold, kube_node, node, pool, snapshot

MACHINES = (node("n1"), node("n2"), node("n10"))


def roster(owner, job, *, machines=MACHINES, **changes):
    return build_roster(owner, job, join(snapshot(machines, jobs=[job], **changes)))


def test_ranks_follow_the_topology_and_devices_the_indices():
    owner = gang(replicas=6, gres="gpu:h100:2")
    racks = {"n1": ("s1", "r2"), "n2": ("s1", "r10"), "n10": ("s1", "r1")}
    nodes = tuple(kube_node(name, domains=domains) for name, domains in racks.items())
    found = roster(owner, hold(owner, on={"n2": [0, 1, 2, 3], "n1": [4, 5, 6, 7], "n10": [1, 3, 5, 7]}), nodes=nodes)
    assert (found.nodes, found.pods_per_node) == (("n10", "n1", "n2"), 2)
    assert [(each.rank, each.slurm_node, each.node_rank, each.local_rank) for each in found.members] == [
        (0, "n10", 0, 0),
        (1, "n10", 0, 1),
        (2, "n1", 1, 0),
        (3, "n1", 1, 1),
        (4, "n2", 2, 0),
        (5, "n2", 2, 1),
    ]
    assert found.members[0].devices == devices("n10", [1, 3])
    assert found.members[1].devices == devices("n10", [5, 7])


def test_a_member_runs_on_the_kubernetes_node_of_its_slurm_node():
    owner = gang(replicas=1, gres="gpu:h100:1")
    nodes = (kube_node("kube-7", slurm_node="n1"),)
    found = roster(owner, hold(owner, on={"n1": [0]}), nodes=nodes, pools=(pool("kube-7"),))
    assert found.members[0].kube_node == "kube-7"
    assert found.members[0].devices == devices("kube-7", [0])


def test_what_slurm_gave_beyond_the_request_goes_to_the_last_pod_of_the_node():
    """The claims list what is allocated, so that nobody else is given it."""
    owner = gang(replicas=2, gres="gpu:h100:2")
    found = roster(owner, hold(owner, on={"n1": range(6)}))
    assert [len(each.devices) for each in found.members] == [2, 4]


@pytest.mark.parametrize(
    ("on", "changes", "words"),
    [
        pytest.param(
            {"n1": range(8), "n2": range(8)}, {"pools": (pool("n1"),)}, ["1 of 2", "n2", "pool"], id="no pool"
        ),
        pytest.param(
            {"n1": range(8), "n2": range(8)},
            {"pools": (pool("n1"), pool("n2", count=7))},
            ["n2", "index 7"],
            id="index without a device",
        ),
        pytest.param(
            {"n1": range(8), "away": range(8)}, {}, ["away", "no managed Kubernetes node"], id="no kubernetes node"
        ),
        pytest.param({"n1": range(8), "n2": range(5)}, {}, ["5 of 8", "n2"], id="indices not told yet"),
        pytest.param({"n1": range(8), "n2": (), "n10": ()}, {}, ["2 pods", "3 nodes"], id="uneven"),
        pytest.param({}, {}, ["2 pods", "0 nodes"], id="no nodes yet"),
        pytest.param({"n1": range(8), "n2": range(1, 9)}, {}, ["n2", "8"], id="an index that the node does not have"),
    ],
)
def test_a_start_that_cannot_be_sure_waits_and_says_what_it_lacks(on, changes, words):
    owner = gang()
    seen = snapshot(MACHINES, jobs=[hold(owner, on=on)], gangs=(owner,), **changes)
    (decision,) = plan(seen).decisions
    condition = decision.status.condition(ConditionType.RUNNING)
    assert not any(decision.stages)
    assert (condition.status, condition.reason) == (False, "DevicesUnknown")
    for word in words:
        assert word in condition.message


def test_a_hold_whose_gres_are_only_counted_starts_nothing():
    owner = gang(replicas=1)
    counted = replace(hold(owner, on={"n1": ()}), gres={"n1": (Gres(name="gpu", type="h100", count=8),)})
    assert "0 of 8" in roster(owner, counted)


def test_a_gang_whose_spec_cannot_be_read_starts_nothing():
    owner = gang(problem=SpecError("spec.roles", "has 2 roles, one is supported"))
    assert "2 roles" in roster(owner, hold(owner, on={"n1": range(8)}))
