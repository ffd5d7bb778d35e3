from __future__ import annotations

import pytest

from bridge import wellknown
from bridge.model.kube import Device
from operators.gangctl.facts import Objects, read_facts
from operators.gangctl.ledger import Entry, Ledger, Owner, World, build_ledger
from tests.builders import device
from tests.gangctl.world import (
    END,
    START,
    VENDOR,
    everything,
    fleet,
    gang,
    gang_claim,
    gang_pod,
    mirror,
    mirror_claim,
    node,
    sbatch_job,
    slices,
    vendor_claim,
    vendor_slice,
)


def ledger_of(**changes) -> Ledger:
    return build_ledger(read_facts(everything(**changes)))


def worlds(ledger: Ledger, on: str = "k8s-gpu-0") -> list[str]:
    return [str(entry.world) for entry in ledger.entries if entry.node == on]


def entry(ledger: Ledger, name: str, on: str = "k8s-gpu-0") -> Entry:
    (found,) = [each for each in ledger.entries if (each.node, each.device.device) == (on, name)]
    return found


def test_a_gangs_device_says_whose_it_is_since_when_and_until_when():
    assert entry(ledger_of(), "gpu-1") == Entry(
        device=device("k8s-gpu-0", 1),
        node="k8s-gpu-0",
        slurm_node="gpu0",
        index=1,
        world=World.PODS,
        owner=Owner(
            namespace="research",
            name="llm",
            rank=1,
            job_id=4711,
            user="alice",
            account="physics",
            partition="gpu",
            pod="llm-1",
            claim="research/llm-1-gpu",
        ),
        since=START,
        until=END,
    )


def test_an_sbatch_jobs_device_says_the_same_of_the_job():
    found = entry(ledger_of(), "gpu-3")
    assert (found.world, found.since, found.until) == (World.SBATCH, START, END)
    assert found.owner is not None
    assert (found.owner.label, found.owner.job_id, found.owner.user, found.owner.account) == ("bert", 20, "bob", "bio")
    assert found.owner.claim.startswith("gangbridge-mirror/slurm-20-")


def test_every_device_is_there_once_in_the_order_of_nodes_and_indices():
    many = [node(f"n{number}", f"n{number}") for number in (10, 9)]
    published = [*slices("n10", "n10", 12), *slices("n9", "n9", 1)]
    ledger = ledger_of(nodes=many, slices=published, claims=[], gangjobs=[])
    assert [(each.node, each.index) for each in ledger.entries] == [("n9", 0), *(("n10", index) for index in range(12))]


@pytest.mark.parametrize(
    ("changes", "world", "reason"),
    [
        pytest.param({"pods": [gang_pod(0)]}, "quarantined", "pod llm-1 is gone", id="pod gone"),
        pytest.param(
            {
                "pods": [gang_pod(0), gang_pod(1, deleting=True)],
                "nodes": [node("k8s-gpu-0", "gpu0", ready=False)],
            },
            "quarantined",
            "pod llm-1 cannot be proven stopped: its node is not ready",
            id="node lost",
        ),
        pytest.param(
            {"pods": [gang_pod(0), gang_pod(1, deleting=True)], "nodes": []},
            "quarantined",
            "its node is gone",
            id="node object gone",
        ),
        pytest.param({"pods": [gang_pod(0), gang_pod(1, deleting=True)]}, "pods", "", id="pod ends on a live node"),
        pytest.param({"nodes": [node("k8s-gpu-0", "gpu0", ready=False)]}, "pods", "", id="node away for a moment"),
        pytest.param({"pods": [], "seen": {"pods": frozenset({"bio"})}}, "pods", "", id="pods not readable there"),
        pytest.param(
            {"pods": [gang_pod(0)], "seen": {"pods": frozenset({"research"})}},
            "quarantined",
            "pod llm-1 is gone",
            id="pods readable there",
        ),
        pytest.param(
            {"pods": [gang_pod(1, deleting=True)], "nodes": [], "seen": {"nodes": frozenset()}},
            "pods",
            "",
            id="nodes not readable",
        ),
    ],
)
def test_a_device_whose_pod_nobody_can_prove_stopped_is_quarantined(changes, world, reason):
    found = entry(ledger_of(**changes), "gpu-1")
    assert found.world == world
    assert reason in found.reason
    assert bool(found.reason) is bool(reason)
    assert found.owner is not None
    assert found.owner.label == "research/llm"


DRAINED = {"reason": "drained", "message": "bad fan", "nodes": "gpu[1-7]"}


@pytest.mark.parametrize(
    ("changes", "state", "reason"),
    [
        pytest.param({}, "usable", "", id="well"),
        pytest.param({"fleets": [fleet(DRAINED)]}, "drained", "drained: bad fan", id="drained in Slurm"),
        pytest.param({"ready": False}, "not ready in Kubernetes", "not ready in Kubernetes", id="not ready"),
        pytest.param({"unschedulable": True}, "cordoned", "cordoned", id="cordoned"),
        pytest.param(
            {"annotations": {wellknown.FENCED: '{"by": "eve", "reason": "psu dead"}'}},
            "fenced",
            "fenced: psu dead (eve)",
            id="fenced",
        ),
        pytest.param(
            {"fleets": [fleet({"reason": "cordoned", "nodes": "gpu1"})]}, "usable", "", id="uncordoned a moment ago"
        ),
        pytest.param({"slurm": ""}, "unmanaged", "", id="unmanaged"),
        pytest.param({"slurm": "", "ready": False}, "unmanaged", "unmanaged", id="unmanaged and not ready"),
        pytest.param(
            {"slurm": "gpu0"}, "duplicate", "duplicate: gpu0 is already the Slurm name of another node", id="twin"
        ),
        pytest.param({"fleets": [fleet({"reason": "down", "nodes": "gpu[1"})]}, "usable", "", id="no host list"),
    ],
)
def test_a_device_that_nobody_holds_is_free_only_on_a_node_that_takes_work(changes, state, reason):
    fleets = changes.pop("fleets", [fleet()])
    second = node("k8s-gpu-1", changes.pop("slurm", "gpu1"), **changes)
    ledger = ledger_of(nodes=[node("k8s-gpu-0", "gpu0"), second], fleets=fleets)
    assert ledger.conditions["k8s-gpu-1"].state == state
    assert set(worlds(ledger, "k8s-gpu-1")) == {"out-of-service" if reason else "free"}
    assert {each.reason for each in ledger.entries if each.node == "k8s-gpu-1"} == {reason}


def test_what_a_gang_holds_on_a_drained_node_is_still_the_gangs():
    closed = fleet({"reason": "drained", "nodes": "gpu0"})
    assert worlds(ledger_of(fleets=[closed])) == ["pods", "pods", "out-of-service", "sbatch"]


@pytest.mark.parametrize(
    ("seen", "reason"),
    [
        pytest.param({"resourceclaims": frozenset({"research"})}, "claims of other namespaces", id="claims"),
        pytest.param({"nodes": frozenset()}, "nodes are not yours to read", id="nodes"),
    ],
)
def test_what_cannot_be_read_is_unknown_and_never_free(seen, reason):
    found = entry(ledger_of(claims=[], seen=seen), "gpu-2")
    assert found.world is World.UNKNOWN
    assert reason in found.reason


def test_a_device_with_two_claims_shows_both_owners():
    twice = [gang_claim(0, "k8s-gpu-0", [0]), vendor_claim_on_ours("k8s-gpu-0", "gpu-0")]
    ledger = ledger_of(claims=twice)
    labels = [each.owner.label for each in ledger.entries if each.device == device("k8s-gpu-0", 0) and each.owner]
    assert labels == ["bio/notebook", "research/llm"]


def vendor_claim_on_ours(on: str, name: str):
    claim = vendor_claim(on, name)
    claim["status"]["allocation"]["devices"]["results"][0]["driver"] = wellknown.DRIVER
    return claim


def test_a_vendors_devices_have_no_index_and_partitions_their_own_names():
    ledger = ledger_of(
        slices=[vendor_slice("k8s-gpu-0")],
        claims=[vendor_claim("k8s-gpu-0", "gpu-1-mig-1g10gb-19-1")],
        fleets=[fleet()],
    )
    assert [(each.device.device, each.index, str(each.world)) for each in ledger.entries] == [
        ("gpu-0", None, "free"),
        ("gpu-1-mig-1g10gb-19-0", None, "free"),
        ("gpu-1-mig-1g10gb-19-1", None, "pods"),
    ]
    held = ledger.entries[2]
    assert held.owner == Owner(namespace="bio", name="notebook", pod="notebook", claim="bio/notebook-gpu-x7k2p")
    assert (held.since, held.until, held.uuid) == (START, None, "MIG-1-k8s-gpu-0")


def test_a_claims_device_is_there_though_its_slice_is_gone():
    """kubelet deletes a vendor's slices while its plugin is down; the claims hold what they hold."""
    found = entry(ledger_of(slices=[]), "gpu-1")
    assert (found.node, found.index, found.world) == ("k8s-gpu-0", None, World.PODS)


def test_admin_access_holds_nothing():
    claim = gang_claim(0, "k8s-gpu-0", [0])
    claim["status"]["allocation"]["devices"]["results"][0]["adminAccess"] = True
    assert worlds(ledger_of(claims=[claim])) == ["free"] * 4


def test_a_claim_that_is_not_allocated_holds_nothing():
    claim = gang_claim(0, "k8s-gpu-0", [0])
    del claim["status"]
    assert worlds(ledger_of(claims=[claim])) == ["free"] * 4


def test_labels_that_anybody_can_write_on_his_own_claim_make_it_no_gangs():
    forged = gang_claim(0, "k8s-gpu-0", [0])
    forged["metadata"]["labels"].pop(wellknown.MANAGED_BY)
    found = entry(ledger_of(claims=[forged], pods=[]), "gpu-0")
    assert found.owner is not None
    assert (found.world, found.owner.label, found.owner.job_id) == (World.PODS, "research/llm-0", 0)


@pytest.mark.parametrize(
    ("jobs", "job_id", "user"),
    [
        pytest.param([gang()], 4711, "alice", id="known"),
        pytest.param([], 0, "", id="its GangJob is not readable"),
        pytest.param([gang(attempt=2)], 0, "", id="left over from an earlier attempt"),
    ],
)
def test_a_gangs_claim_names_the_gang_even_where_its_job_is_unknown(jobs, job_id, user):
    found = entry(ledger_of(gangjobs=jobs), "gpu-0")
    assert found.owner is not None
    assert (found.owner.label, found.owner.job_id, found.owner.user) == ("research/llm", job_id, user)
    assert found.since in {START, START + 5}


def test_a_mirror_that_cannot_be_read_leaves_the_job_id():
    found = entry(ledger_of(gangjobs=[]), "gpu-3")
    assert found.owner is not None
    assert (found.world, found.owner.label, found.owner.job_id) == (World.SBATCH, "job 20", 20)


def test_an_end_is_told_only_of_what_runs():
    ending = mirror(sbatch_job())
    ending["status"]["hold"]["state"] = "COMPLETED"
    assert entry(ledger_of(gangjobs=[ending]), "gpu-3").until is None


def test_only_the_newest_generation_of_a_pool_counts():
    old, new = slices("k8s-gpu-1", "gpu1", 8), slices("k8s-gpu-1", "gpu1", 2)
    new[0]["spec"]["pool"]["generation"] = 2
    assert len(worlds(ledger_of(slices=[*old, *new]), "k8s-gpu-1")) == 2


def test_a_pool_of_no_single_node_is_in_the_ledger_under_its_own_name():
    shared = vendor_slice("k8s-gpu-0")
    shared["spec"] |= {
        "nodeName": None,
        "allNodes": True,
        "pool": {"name": "fabric", "generation": 1, "resourceSliceCount": 1},
    }
    ledger = ledger_of(slices=[shared], claims=[])
    assert {(each.node, each.device.pool) for each in ledger.entries} == {("", "fabric")}
    assert ledger.entries[0].device == Device(driver=VENDOR, pool="fabric", device="gpu-0")


def test_an_empty_cluster_has_an_empty_ledger():
    assert build_ledger(read_facts(Objects())).entries == ()


def test_of_two_jobs_on_a_node_each_has_its_own():
    second = sbatch_job(21, indices=[2])
    claims = [mirror_claim(sbatch_job(), "k8s-gpu-0", "gpu0"), mirror_claim(second, "k8s-gpu-0", "gpu0")]
    ledger = ledger_of(claims=claims, gangjobs=[mirror(sbatch_job()), mirror(second)])
    assert {each.index: each.owner.job_id for each in ledger.entries if each.owner} == {3: 20, 2: 21}
