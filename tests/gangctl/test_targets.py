from __future__ import annotations

import pytest

from operators.gangctl.facts import read_facts
from operators.gangctl.ledger import Ledger, build_ledger
from operators.gangctl.targets import UnknownTarget, find, find_node
from tests.gangctl.world import everything, node, slices, vendor_slice


@pytest.fixture(scope="module")
def ledger() -> Ledger:
    """Two nodes of ours and one with a vendor's driver, which Slurm does not know."""
    nodes = [node("k8s-gpu-0", "gpu0"), node("k8s-gpu-1", "gpu1"), node("vendor", ""), node("bare", "")]
    published = [*slices("k8s-gpu-0", "gpu0"), *slices("k8s-gpu-1", "gpu1"), vendor_slice("vendor")]
    return build_ledger(read_facts(everything(nodes=nodes, slices=published)))


@pytest.mark.parametrize(
    ("target", "places"),
    [
        pytest.param("k8s-gpu-1", [("k8s-gpu-1", f"gpu-{index}") for index in range(4)], id="Kubernetes node"),
        pytest.param("gpu1", [("k8s-gpu-1", f"gpu-{index}") for index in range(4)], id="Slurm node"),
        pytest.param("k8s-gpu-0/gpu-2", [("k8s-gpu-0", "gpu-2")], id="node and device"),
        pytest.param("gpu0/gpu-2", [("k8s-gpu-0", "gpu-2")], id="Slurm node and device"),
        pytest.param("gpu0:3", [("k8s-gpu-0", "gpu-3")], id="node and index"),
        pytest.param("GPU-00000000-vendor", [("vendor", "gpu-0")], id="uuid"),
        pytest.param("gpu-00000000-VENDOR", [("vendor", "gpu-0")], id="uuid in another case"),
        pytest.param("MIG-1-vendor", [("vendor", "gpu-1-mig-1g10gb-19-1")], id="uuid of a partition"),
        pytest.param(
            "GPU-11111111-vendor",
            [("vendor", "gpu-1-mig-1g10gb-19-0"), ("vendor", "gpu-1-mig-1g10gb-19-1")],
            id="uuid of a GPU in parts",
        ),
        pytest.param("0000:3b:00.0", [("vendor", "gpu-0")], id="PCI bus id"),
        pytest.param("vendor/0000:3b:00.0", [("vendor", "gpu-0")], id="node and PCI bus id"),
        pytest.param("vendor/gpu-1-mig-1g10gb-19-0", [("vendor", "gpu-1-mig-1g10gb-19-0")], id="partition"),
    ],
)
def test_a_target_means_these_devices(ledger, target, places):
    assert [(entry.node, entry.device.device) for entry in find(ledger, target).entries] == places


@pytest.mark.parametrize(
    ("target", "says"),
    [
        pytest.param("k8s-gpu-9", "did you mean k8s-gpu-1 or k8s-gpu-0?", id="node"),
        pytest.param("gpu9", "did you mean gpu1 or gpu0", id="Slurm node"),
        pytest.param("GPU-00000000-vendro", "did you mean GPU-00000000-vendor", id="uuid"),
        pytest.param("gpu0/gpu-22", 'gpu0 has no device "gpu-22"; did you mean gpu-2', id="device"),
        pytest.param("gpu0:8", 'gpu0 has no device of index "8"; it has 0 to 3', id="index"),
        pytest.param("gpu0:x", 'gpu0 has no device of index "x"', id="no index"),
        pytest.param("vendor:0", "no GRES index; name one as vendor/gpu-0", id="driver without index"),
        pytest.param("zzz", 'there is no node, device or uuid "zzz"', id="nothing near"),
        pytest.param("", 'there is no node, device or uuid ""', id="empty"),
        pytest.param("/gpu-0", 'there is no node, device or uuid "/gpu-0"', id="no node"),
        pytest.param(":0", 'there is no node, device or uuid ":0"', id="no node, index"),
    ],
)
def test_an_unknown_name_is_an_error_with_what_is_near(ledger, target, says):
    with pytest.raises(UnknownTarget) as caught:
        find(ledger, target)
    assert says in str(caught.value)


def test_nothing_near_is_said_where_nothing_is_near(ledger):
    with pytest.raises(UnknownTarget) as caught:
        find(ledger, "zzz")
    assert "did you mean" not in str(caught.value)


def test_a_node_without_devices_is_known(ledger):
    found = find(ledger, "bare")
    assert (found.entries, found.note) == ((), "no ResourceSlice shows a device of bare")


def test_who_may_not_read_nodes_still_finds_those_of_his_own_claims():
    ledger = build_ledger(read_facts(everything(nodes=[], slices=[], seen={"nodes": frozenset()})))
    assert [entry.device.device for entry in find(ledger, "k8s-gpu-0").entries] == ["gpu-0", "gpu-1", "gpu-3"]


def test_a_pool_with_a_name_of_its_own_is_found_by_it():
    odd = slices("k8s-gpu-1", "gpu1")
    odd[0]["spec"]["pool"]["name"] = "racks/r1/pool"
    ledger = build_ledger(read_facts(everything(slices=odd)))
    (entry,) = find(ledger, "racks/r1/pool/gpu-2").entries
    assert (entry.node, entry.index) == ("k8s-gpu-1", 2)


def test_a_name_in_both_worlds_means_the_kubernetes_node_and_says_so():
    crossed = [node("gpu0", "gpu1"), node("gpu1", "gpu0")]
    ledger = build_ledger(
        read_facts(everything(nodes=crossed, slices=[*slices("gpu0", "gpu1"), *slices("gpu1", "gpu0")]))
    )
    found = find(ledger, "gpu0")
    assert {entry.node for entry in found.entries} == {"gpu0"}
    assert found.note == "gpu0 is also the Slurm name of gpu1"
    assert find(ledger, "gpu0:1").entries[0].node == "gpu0"


def test_a_node_of_the_same_name_in_both_worlds_is_no_ambiguity():
    ledger = build_ledger(read_facts(everything(nodes=[node("gpu0", "gpu0")], slices=slices("gpu0", "gpu0"))))
    assert find(ledger, "gpu0").note == ""


def test_of_two_nodes_with_one_slurm_name_the_first_is_meant():
    facts = read_facts(everything(nodes=[node("b", "gpu0"), node("a", "gpu0")]))
    assert find_node(facts, "gpu0").name == "a"


@pytest.mark.parametrize("name", ["", "gpu-0", "k8s-gpu-0/gpu-1"])
def test_only_a_node_is_a_node(ledger, name):
    with pytest.raises(UnknownTarget, match="there is no node"):
        find_node(ledger.facts, name)
