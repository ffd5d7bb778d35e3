from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge import wellknown
from bridge.errors import SpecError
from bridge.lifecycle.names import claim_name, pod_name, service_name
from bridge.model.hostlist import expand
from operators.kube.pods import build_pod, build_service, build_trial_pod
from tests.kube.builders import gang, member, roster, template


def env_of(container: dict[str, Any]) -> dict[str, str]:
    return {entry["name"]: entry.get("value", "") for entry in container["env"]}


def built(rank: int = 3, **spec: Any) -> dict[str, Any]:
    return build_pod(gang(), roster(), member(rank), template(**spec))


def terms(pod: dict[str, Any]) -> list[dict[str, Any]]:
    required = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    found: list[dict[str, Any]] = required["nodeSelectorTerms"]
    return found


def test_pod_is_gated_pinned_owned_and_labelled() -> None:
    pod = built()
    spec, meta = pod["spec"], pod["metadata"]
    assert spec["schedulingGates"] == [{"name": wellknown.GATE}]
    only = {"key": "metadata.name", "operator": "In", "values": ["k8s-gpu-1"]}
    assert terms(pod) == [{"matchFields": [only]}]
    assert spec["restartPolicy"] == "Never"
    assert {"key": wellknown.TAINT, "operator": "Exists", "effect": "NoSchedule"} in spec["tolerations"]
    assert (meta["name"], meta["namespace"]) == (pod_name(gang(), 3), "default")
    owner = meta["ownerReferences"][0]
    assert (owner["kind"], owner["name"], owner["uid"]) == ("GangJob", "llm", gang().uid)
    assert owner["controller"] is owner["blockOwnerDeletion"] is True
    assert meta["labels"] == {
        wellknown.MANAGED_BY: "gangbridge",
        wellknown.GANG: "llm",
        wellknown.GANG_UID: gang().uid,
        wellknown.ATTEMPT: "1",
        wellknown.ROLE: "worker",
        wellknown.RANK: "3",
        wellknown.JOB_ID: "4711",
        wellknown.SLURM_NODE: "gpu1",
    }
    assert meta["finalizers"] == [wellknown.FINALIZER]


def test_pod_knows_its_place_as_pytorch_and_as_slurm_call_it() -> None:
    values = env_of(built()["spec"]["containers"][0])
    assert values == {
        "RANK": "3",
        "WORLD_SIZE": "4",
        "LOCAL_RANK": "1",
        "LOCAL_WORLD_SIZE": "2",
        "NODE_RANK": "1",
        "MASTER_ADDR": f"{pod_name(gang(), 0)}.{service_name(gang())}",
        "MASTER_PORT": "29500",
        "SLURM_PROCID": "3",
        "SLURM_NTASKS": "4",
        "SLURM_NTASKS_PER_NODE": "2",
        "SLURM_LOCALID": "1",
        "SLURM_NODEID": "1",
        "SLURM_JOB_ID": "4711",
        "SLURM_JOB_NAME": "llm",
        "SLURM_JOB_NUM_NODES": "2",
        "SLURM_JOB_NODELIST": "gpu[0-1]",
        "SLURMD_NODENAME": "gpu1",
        "SLURM_RESTART_COUNT": "0",
    }


def test_node_list_keeps_the_order_of_node_ranks() -> None:
    crossed = dataclasses.replace(roster(), nodes=("gpu1", "gpu0"))
    values = env_of(build_pod(gang(), crossed, member(), template())["spec"]["containers"][0])
    assert expand(values["SLURM_JOB_NODELIST"]) == ("gpu1", "gpu0")


def test_own_environment_wins_and_may_refer_to_ours() -> None:
    own = [{"name": "MASTER_PORT", "value": "1234"}, {"name": "ARGS", "value": "--rank=$(RANK)"}]
    container = {"name": "c", "image": "i", "env": own}
    found = built(containers=[container])["spec"]["containers"][0]["env"]
    names = [entry["name"] for entry in found]
    assert names.count("MASTER_PORT") == 1
    assert {"name": "MASTER_PORT", "value": "1234"} in found
    assert names.index("RANK") < names.index("ARGS")


def test_every_container_gets_the_environment() -> None:
    pod = built(initContainers=[{"name": "i", "image": "i"}], containers=[{"name": "a"}, {"name": "b"}])
    every = pod["spec"]["initContainers"] + pod["spec"]["containers"]
    assert [env_of(container)["RANK"] for container in every] == ["3", "3", "3"]


def test_regular_containers_share_the_claim_unless_they_say_otherwise() -> None:
    containers = [
        {"name": "train", "resources": {"limits": {"cpu": 1}}},
        {"name": "sidecar", "resources": {"claims": []}},
        {"name": "nic", "resources": {"claims": [{"name": "nic"}]}},
    ]
    nic = {"name": "nic", "resourceClaimName": "nic-1"}
    pod = built(containers=containers, initContainers=[{"name": "init"}], resourceClaims=[nic])
    spec = pod["spec"]
    assert [container["resources"].get("claims") for container in spec["containers"]] == [
        [{"name": "gpus"}],
        [],
        [{"name": "nic"}],
    ]
    assert spec["containers"][0]["resources"]["limits"] == {"cpu": 1}
    assert "resources" not in spec["initContainers"][0]
    assert spec["resourceClaims"] == [nic, {"name": "gpus", "resourceClaimName": claim_name(gang(), 3)}]


def test_required_affinity_of_the_template_holds_as_well() -> None:
    zone = {"key": "zone", "operator": "In", "values": ["a"]}
    disk = {"key": "disk", "operator": "Exists"}
    own = {"nodeSelectorTerms": [{"matchExpressions": [zone]}, {"matchExpressions": [disk]}]}
    preferred = [{"weight": 1, "preference": {"matchExpressions": [disk]}}]
    affinity = {
        "podAffinity": {"x": []},
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": own,
            "preferredDuringSchedulingIgnoredDuringExecution": preferred,
        },
    }
    pod = built(affinity=affinity)
    only = [{"key": "metadata.name", "operator": "In", "values": ["k8s-gpu-1"]}]
    assert terms(pod) == [
        {"matchExpressions": [zone], "matchFields": only},
        {"matchExpressions": [disk], "matchFields": only},
    ]
    assert pod["spec"]["affinity"]["podAffinity"] == {"x": []}
    node_affinity = pod["spec"]["affinity"]["nodeAffinity"]
    assert node_affinity["preferredDuringSchedulingIgnoredDuringExecution"] == preferred


def test_labels_of_the_template_are_kept_and_ours_win() -> None:
    labels = {"app": "train", wellknown.RANK: "77"}
    meta = {"labels": labels, "annotations": {"a": "b"}}
    pod = build_pod(gang(), roster(), member(3), {"metadata": meta, **template()})
    assert pod["metadata"]["labels"]["app"] == "train"
    assert pod["metadata"]["labels"][wellknown.RANK] == "3"
    assert pod["metadata"]["annotations"] == {"a": "b"}


def test_own_toleration_of_the_taint_is_not_doubled() -> None:
    ours = {"key": wellknown.TAINT, "operator": "Exists", "effect": "NoSchedule"}
    assert built(tolerations=[ours])["spec"]["tolerations"] == [ours]


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        pytest.param({"nodeName": "n"}, "nodeName", id="nodeName"),
        pytest.param({"schedulingGates": [{"name": "a/b"}]}, "schedulingGates", id="gates"),
        pytest.param({"hostname": "h"}, "hostname", id="hostname"),
        pytest.param({"subdomain": "s"}, "subdomain", id="subdomain"),
        pytest.param({"restartPolicy": "Always"}, "restartPolicy", id="restart"),
        pytest.param({"containers": []}, "containers", id="none"),
        pytest.param({"resourceClaims": [{"name": "a"}, {"name": "gpus"}]}, "resourceClaims[1].name", id="claim"),
    ],
)
def test_template_cannot_decide_what_is_the_gangs(spec: dict[str, Any], path: str) -> None:
    with pytest.raises(SpecError) as raised:
        built(**spec)
    assert raised.value.path == f"spec.roles[0].template.spec.{path}"


def test_template_is_left_as_it_was() -> None:
    source = template(tolerations=[], initContainers=[{"name": "i"}])
    before = repr(source)
    build_pod(gang(), roster(), member(), source)
    assert repr(source) == before


def test_trial_pod_has_all_but_the_place() -> None:
    trial, pod = build_trial_pod(gang(), template()), built(0)
    assert trial["metadata"]["name"] == pod["metadata"]["name"]
    assert "resourceClaims" not in trial["spec"]
    assert "affinity" not in trial["spec"]
    assert trial["spec"]["schedulingGates"] == pod["spec"]["schedulingGates"]


def test_service_finds_the_pods_of_every_attempt() -> None:
    first, second = build_service(gang(attempt=1)), build_service(gang(attempt=2))
    assert first == second
    pod = build_pod(gang(attempt=2), roster(), member(), template())
    assert first["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    assert pod["spec"]["subdomain"] == first["metadata"]["name"]
    assert first["spec"]["clusterIP"] == "None"
    assert first["spec"]["publishNotReadyAddresses"] is True


LABEL = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", fullmatch=True)


@given(
    name=LABEL,
    attempt=st.integers(1, 9999),
    rank=st.integers(0, 4095),
    uids=st.lists(st.uuids(), min_size=2, max_size=2, unique=True),
)
def test_names_fit_and_never_recur(name: str, attempt: int, rank: int, uids: list[Any]) -> None:
    one, other = (gang(name, uid=str(uid), attempt=attempt) for uid in uids)
    for make in (lambda g: pod_name(g, rank), service_name):
        assert len(make(one)) <= 63
        assert make(one) == make(one).lower().strip("-.")
        assert make(one) != make(other)
    again = gang(name, uid=one.uid, attempt=attempt + 1)
    assert len({pod_name(one, rank), pod_name(one, rank + 1), pod_name(again, rank)}) == 3
    assert claim_name(one, rank).startswith(pod_name(one, rank) + "-"), "the allocation policy relies on it"
    assert len(gang(name).name[:63]) <= 63
