"""Pods that ask for devices past the bridge never get one that Slurm gave away; by policy they get none at all."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from e2e.scenario import audit, batch, fleet, gang
from e2e.scenario.commands import NAMESPACE, Object, apply, found, kubectl, listed
from e2e.scenario.eventually import eventually, stays

pytestmark = pytest.mark.usefixtures("bridge", "without_templates")

POLICY = "allocations.gangbridge.dev"


@pytest.fixture
def without_templates() -> Iterator[None]:
    yield
    kubectl("delete", "pods", "stray", "-n", NAMESPACE, "--ignore-not-found", "--grace-period=0", "--force")
    kubectl("delete", "resourceclaimtemplates", "--all", "-n", NAMESPACE)


@pytest.fixture
def without_policy() -> Iterator[None]:
    """The allocator of kube-scheduler alone: what holds when an admin has removed the policy."""
    binding = found("validatingadmissionpolicybinding", POLICY, namespace=None)
    assert binding is not None
    kubectl("delete", "validatingadmissionpolicybinding", POLICY)
    yield
    for field in ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields"):
        binding["metadata"].pop(field, None)
    apply(binding)


def test_a_stray_pod_gets_no_device_at_all_and_is_told_to_use_a_gangjob() -> None:
    apply(*_stray("k8s-gpu-0"), user="alice")
    told = eventually(lambda: _told(POLICY), "the pod's events name the policy", within_s=15)
    assert "ask for them with a GangJob or with sbatch" in told
    assert not _claim_of_stray().get("status", {}).get("allocation")


@pytest.mark.usefixtures("without_policy")
def test_kube_scheduler_gives_a_stray_pod_the_one_device_that_neither_an_sbatch_job_nor_a_gang_holds() -> None:
    job_id = batch.sbatch(4, node="gpu0")
    job = batch.wait_running(job_id)
    with fleet.only("k8s-gpu-0"):
        trio = gang.submit("trio", pods=1, gpus=3)
        trio.wait_for("Running")
    eventually(lambda: len(_mirrored(job_id)) == 4, "the sbatch job's devices are in a claim")
    taken = {*batch.indices(job)["gpu0"], *batch.indices(trio.hold())["gpu0"]}
    (free,) = set(range(8)) - taken

    _apply_stray_when_the_policy_is_gone()
    given = eventually(lambda: audit.devices_of(_claim_of_stray()), "the stray pod has got a device")
    assert [owned.device for owned in given] == [("gpu0", free)]


@pytest.mark.usefixtures("without_policy")
@pytest.mark.parametrize("holder", ["sbatch job", "gang"])
def test_kube_scheduler_finds_no_device_for_a_stray_pod_where_slurm_gave_all_of_them_away(holder: str) -> None:
    if holder == "gang":
        with fleet.only("k8s-gpu-0"):
            gang.submit("all", pods=2, gpus=4).wait_for("Running")
    else:
        job_id = batch.sbatch(8, node="gpu0")
        eventually(lambda: len(_mirrored(job_id)) == 8, "the sbatch job's devices are in a claim")
    _apply_stray_when_the_policy_is_gone()
    eventually(lambda: _told("cannot allocate all claims"), "kube-scheduler finds no free device")
    stays(lambda: not _claim_of_stray().get("status", {}).get("allocation"), "the stray pod has no device", for_s=1)


def _stray(node: str) -> tuple[Object, Object]:
    exactly = {"deviceClassName": "gpu.gangbridge.dev", "allocationMode": "ExactCount", "count": 1}
    template = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "one-gpu", "namespace": NAMESPACE},
        "spec": {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}},
    }
    container = {"name": "main", "image": gang.IMAGE, "imagePullPolicy": "Never", "command": ["sleep", "600"]}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "stray", "namespace": NAMESPACE},
        "spec": {
            "nodeSelector": {"kubernetes.io/hostname": node},
            "tolerations": [{"operator": "Exists"}],
            "terminationGracePeriodSeconds": 0,
            "containers": [container | {"resources": {"claims": [{"name": "gpu"}]}}],
            "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}],
        },
    }
    return template, pod


def _apply_stray_when_the_policy_is_gone() -> None:
    """The API server follows policies with a watch of its own."""
    apply(*_stray("k8s-gpu-0"), user="alice")


def _claim_of_stray() -> Object:
    claims = [obj for obj in listed("resourceclaims") if obj["metadata"]["name"].startswith("stray-")]
    return claims[0] if claims else {"metadata": {}}


def _told(words: str) -> str:
    """Return the first message of the pod's events that has ``words``."""
    selector = "involvedObject.name=stray,involvedObject.kind=Pod"
    messages = [obj["message"] for obj in listed("events", "--field-selector", selector)]
    return next((message for message in messages if words in message), "")


def _mirrored(job_id: int) -> list[audit.Device]:
    return [owned.device for owned in audit.claimed() if owned.name.startswith(f"gangbridge-mirror/slurm-{job_id}-")]
