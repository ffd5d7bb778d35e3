from __future__ import annotations

import pytest

from bridge.accounting.gres import parse_gres_request
from bridge.lifecycle.fleetview import join
from bridge.model.gres import Gres
from bridge.model.slurm import JobState
from bridge.placement.request import Request, Unplaceable
from bridge.queue.timeline import Pin
from tests.builders import LEVELS, fleet, job, kube_node, node, pool, snapshot


def test_free_is_what_no_live_job_holds_and_total_what_there_is():
    seen = snapshot(
        [node("n1", cpus_allocated=4, memory_allocated_mib=1000)],
        jobs=[job(1, on={"n1": [0, 1]}), job(2, JobState.COMPLETED, on={"n1": [2]})],
    )
    view = join(seen)
    assert (view.free["n1"].gpus, view.total["n1"].gpus) == ({"h100": 6}, {"h100": 8})
    assert (view.free["n1"].cpus, view.total["n1"].cpus) == (60, 64)
    assert (view.free["n1"].memory_mib, view.total["n1"].memory_mib) == (511_000, 512_000)


@pytest.mark.parametrize(
    ("machine", "kube", "pools", "usable"),
    [
        pytest.param(node("n1"), kube_node("n1"), (pool("n1"),), True, id="all well"),
        pytest.param(node("n1", states=("MIXED", "COMPLETING")), kube_node("n1"), (pool("n1"),), True, id="epilog"),
        pytest.param(node("n1", states=("IDLE", "DRAIN")), kube_node("n1"), (pool("n1"),), False, id="drained"),
        pytest.param(node("n1", states=("DOWN",)), kube_node("n1"), (pool("n1"),), False, id="down"),
        pytest.param(node("n1"), kube_node("n1", ready=False), (pool("n1"),), False, id="not ready"),
        pytest.param(node("n1"), kube_node("n1", unschedulable=True), (pool("n1"),), False, id="cordoned"),
        pytest.param(node("n1"), kube_node("n1"), (), False, id="no pool"),
        pytest.param(
            node("n1", gres=(Gres(name="gpu", type="h100", count=8),)),
            kube_node("n1"),
            (pool("n1"),),
            False,
            id="counted",
        ),
    ],
)
def test_a_node_is_usable_when_both_worlds_would_take_work_and_its_devices_are_known(machine, kube, pools, usable):
    view = join(snapshot([machine], nodes=(kube,), pools=pools))
    assert view.nodes["n1"].is_usable is usable
    assert bool(view.nodes["n1"].problem) is (view.nodes["n1"].map is None)
    asked = Request(pods=1, gres=parse_gres_request("gpu:h100:1"), levels=LEVELS)
    assert isinstance(view.timeline("gpu").earliest(asked), Pin if usable else Unplaceable)


def test_of_two_kubernetes_nodes_that_name_one_slurm_node_the_first_by_name_counts():
    both = (kube_node("b", slurm_node="n1"), kube_node("a", slurm_node="n1"))
    view = join(snapshot([node("n1")], nodes=both, pools=(pool("a"), pool("b"))))
    assert view.nodes["n1"].kube.name == "a"


def test_a_node_that_only_one_world_knows_is_not_in_the_fleet():
    view = join(snapshot([node("n1"), node("n2")], nodes=(kube_node("n1"), kube_node("n3"))))
    assert list(view.nodes) == ["n1"]


def test_a_timeline_has_the_nodes_of_its_partition():
    machines = [node("n1"), node("n2", partitions=frozenset({"other"}))]
    view = join(snapshot(machines))
    assert list(view.timeline("gpu").board.nodes) == ["n1"]
    assert list(view.timeline("other").board.nodes) == ["n2"]
    assert list(view.timeline("none").board.nodes) == []


def test_there_is_no_view_while_slurm_or_the_fleet_is_unknown():
    assert join(snapshot([node("n1")], silent=True)) is None
    assert join(snapshot([node("n1")], fleet=None)) is None


def test_domains_are_those_of_the_kubernetes_nodes_labels():
    seen = snapshot([node("n1")], nodes=(kube_node("n1", domains=("s1", "r7")),), fleet=fleet(levels=("rack",)))
    assert join(seen).nodes["n1"].domains == ("r7",)
