"""What the real kube-scheduler and the real resource claim controller make of what gangbridge writes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from bridge.lifecycle.actions import Member
from bridge.model.gang import Gang
from bridge.model.kube import PoolDevice
from operators.kube.claims import allocated, build_claim, pod_consumer
from operators.kube.client import JSON_PATCH, KubeClient
from operators.kube.pods import build_pod, ungate_patch
from operators.kube.resources import GANGJOBS, NODES, PODS, RESOURCECLAIMS, RESOURCESLICES, Resource
from operators.kube.slices import build_slices, device_name
from tests.kube.builders import DRIVER, gang, gangjob, member, roster, template
from tests.kube.realapi import RealApi

Object = dict[str, Any]
NODE = "k8s-gpu-0"
TEMPLATES = Resource(group="resource.k8s.io", plural="resourceclaimtemplates", kind="ResourceClaimTemplate")


@pytest.fixture
async def admin(cluster: RealApi) -> AsyncIterator[KubeClient]:
    async with KubeClient(cluster.connection("admin")) as client:
        yield client


@pytest.fixture
async def operator(cluster: RealApi, admin: KubeClient) -> AsyncIterator[KubeClient]:
    """The operator, with two ready nodes without kubelets: a small one with eight GPUs and a large one with none."""
    async with KubeClient(cluster.connection("operator")) as client:
        await make_node(admin, NODE, cpu=16)
        await make_node(admin, "large", cpu=64)
        devices = [PoolDevice(name=device_name(index), index=index) for index in range(8)]
        for part in build_slices(kube_node=NODE, slurm_node="gpu0", devices=devices, generation=1):
            await client.apply(RESOURCESLICES, part, force=True)
        yield client


async def make_node(admin: KubeClient, name: str, *, cpu: int) -> None:
    await admin.apply(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}, force=True)
    room = {"cpu": str(cpu), "memory": "64Gi", "pods": "110"}
    ready = {"type": "Ready", "status": "True", "reason": "r", "message": "m"}
    ready |= {"lastHeartbeatTime": "2030-01-01T00:00:00Z", "lastTransitionTime": "2030-01-01T00:00:00Z"}
    status = {"status": {"capacity": room, "allocatable": room, "conditions": [ready]}}
    await admin.patch(NODES, name, status, subresource="status")
    await admin.patch(NODES, name, {"spec": {"taints": None}})


async def until(look: Callable[[], Awaitable[Object]], condition: Callable[[Object], object]) -> Object:
    deadline = time.monotonic() + 30
    while True:
        obj = await look()
        if condition(obj):
            return obj
        assert time.monotonic() < deadline, obj.get("status")
        await asyncio.sleep(0.1)


async def start(operator: KubeClient, who: Gang, which: Member, **spec: Any) -> str:
    """Do the start path for one pod and return its name."""
    pod = await operator.create(PODS, build_pod(who, roster(), which, template(**spec)))
    meta = pod["metadata"]
    claim = await operator.create(RESOURCECLAIMS, build_claim(who, which))
    consumer = pod_consumer(meta["name"], meta["uid"])
    full = allocated(claim, devices=which.devices, node=which.kube_node, consumer=consumer, now=int(time.time()))
    await operator.replace_status(RESOURCECLAIMS, full)
    await operator.patch(PODS, meta["name"], ungate_patch(meta["uid"]), namespace="default", content_type=JSON_PATCH)
    return str(meta["name"])


async def new_gang(admin: KubeClient, name: str) -> Gang:
    return gang(name, uid=(await admin.create(GANGJOBS, gangjob(name)))["metadata"]["uid"])


def reading(client: KubeClient, resource: Resource, name: str) -> Callable[[], Awaitable[Object]]:
    return lambda: client.get(resource, name, "default")


def unscheduled(pod: Object) -> str:
    conditions = (pod.get("status") or {}).get("conditions") or []
    return "".join(c["message"] for c in conditions if c["type"] == "PodScheduled" and c["status"] == "False")


async def test_scheduler_binds_a_pod_with_our_allocation_and_nobody_else_frees_the_claim_when_it_ends(
    operator: KubeClient, admin: KubeClient, name: str
) -> None:
    pod = await start(operator, await new_gang(admin, name), member(0))
    bound = await until(reading(operator, PODS, pod), lambda found: found["spec"].get("nodeName"))
    assert bound["spec"]["nodeName"] == NODE
    claim = await operator.get(RESOURCECLAIMS, f"{pod}-gpu", "default")
    assert [entry["uid"] for entry in claim["status"]["reservedFor"]] == [bound["metadata"]["uid"]]
    await admin.patch(PODS, pod, {"status": {"phase": "Succeeded"}}, namespace="default", subresource="status")
    await asyncio.sleep(1)
    assert await operator.get(RESOURCECLAIMS, f"{pod}-gpu", "default") == claim


async def test_stray_pod_gets_no_device_and_is_told_why(operator: KubeClient, admin: KubeClient, name: str) -> None:
    exactly = {"deviceClassName": DRIVER, "allocationMode": "ExactCount", "count": 1}
    spec = {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}}
    await admin.create(TEMPLATES, {"metadata": {"name": name, "namespace": "default"}, "spec": spec})
    stray = template(
        tolerations=[{"operator": "Exists"}], resourceClaims=[{"name": "g", "resourceClaimTemplateName": name}]
    )
    stray["spec"]["containers"][0]["resources"] = {"claims": [{"name": "g"}]}
    await admin.create(PODS, {"metadata": {"name": name, "namespace": "default"}, **stray})
    refused = await until(reading(admin, PODS, name), unscheduled)
    assert "ask for them with a GangJob or with sbatch" in unscheduled(refused)
    assert "nodeName" not in refused["spec"]
    claims, _ = await admin.list(RESOURCECLAIMS, "default")
    (generated,) = (claim for claim in claims if claim["metadata"]["name"].startswith(f"{name}-g-"))
    assert "allocation" not in (generated.get("status") or {})


async def test_pod_that_does_not_fit_keeps_its_devices(operator: KubeClient, admin: KubeClient, name: str) -> None:
    """kube-scheduler deallocates claims of pods that it cannot place, unless they are pinned to one node."""
    big = [{"name": "train", "image": "i", "resources": {"requests": {"cpu": "32"}}}]
    pod = await start(operator, await new_gang(admin, name), member(1), containers=big)
    await until(reading(operator, PODS, pod), unscheduled)
    await asyncio.sleep(1)
    claim = await operator.get(RESOURCECLAIMS, f"{pod}-gpu", "default")
    assert claim["status"]["allocation"]
    assert [entry["name"] for entry in claim["status"]["reservedFor"]] == [pod]


async def test_gated_pod_waits_without_being_scheduled(operator: KubeClient, admin: KubeClient, name: str) -> None:
    built = build_pod(await new_gang(admin, name), roster(), member(0), template())
    pod = await operator.create(PODS, built)
    assert [condition["reason"] for condition in pod["status"]["conditions"]] == ["SchedulingGated"]
    await asyncio.sleep(1)
    later = await operator.get(PODS, pod["metadata"]["name"], "default")
    assert "nodeName" not in later["spec"]
    assert later["status"] == pod["status"]
