"""The peer: as many pods, each with a stock ResourceClaimTemplate for a whole node, placed by kube-scheduler."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from e2e.bench import traffic, world
from e2e.bench.burst import Burst
from e2e.bench.sight import running_pod, watching
from operators.kube.client import KubeClient
from operators.kube.resources import DEVICECLASSES, PODS, RESOURCESLICES, Resource

DRIVER = "stock.example.com"
LABEL = {"bench.gangbridge.dev/stock": "true"}
SELECTOR = "bench.gangbridge.dev/stock=true"
TEMPLATES = Resource(group="resource.k8s.io", plural="resourceclaimtemplates", kind="ResourceClaimTemplate")


async def run(client: KubeClient, nodes: list[str], devices: int) -> Burst:
    """One pod per node, posted at once; everything is deleted again."""
    await _publish(client, nodes, devices)
    try:
        async with watching(client, PODS, running_pod, world.NAMESPACE) as sight:
            before, started = await asyncio.to_thread(traffic.writes), time.time()
            await asyncio.gather(*(client.create(PODS, _pod(number)) for number in range(len(nodes))))
            ended = await sight.until(len(nodes), timeout_s=90)
            first = min(sight.at.values())
        after = await asyncio.to_thread(traffic.writes)
        return Burst(pods=len(nodes), seconds=ended - started, first=first - started, writes=after - before)
    finally:
        await clean(client)


async def clean(client: KubeClient) -> None:
    """Delete what this peer made, also after an earlier run that was killed."""
    await world.remove_all(client, PODS)
    await world.until_empty(client, PODS, *world.LEFT)
    for resource, namespace in ((TEMPLATES, world.NAMESPACE), (RESOURCESLICES, None), (DEVICECLASSES, None)):
        await world.remove_all(client, resource, namespace, SELECTOR)


async def _publish(client: KubeClient, nodes: list[str], devices: int) -> None:
    expression = f'device.driver == "{DRIVER}"'
    class_ = _object(DEVICECLASSES, DRIVER, {"selectors": [{"cel": {"expression": expression}}]})
    request = {"name": "gpus", "exactly": {"deviceClassName": DRIVER, "allocationMode": "ExactCount", "count": devices}}
    template = _object(TEMPLATES, "gpus", {"spec": {"devices": {"requests": [request]}}}, world.NAMESPACE)
    await asyncio.gather(client.create(DEVICECLASSES, class_), client.create(TEMPLATES, template))
    await asyncio.gather(*(client.create(RESOURCESLICES, _slice(node, devices)) for node in nodes))
    # kube-scheduler has its own watch of the slices: it is not part of what is measured.
    await asyncio.sleep(1)


def _object(resource: Resource, name: str, spec: dict[str, Any], namespace: str = "") -> dict[str, Any]:
    meta: dict[str, Any] = {"name": name, "labels": LABEL} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": meta, "spec": spec}


def _slice(node: str, devices: int) -> dict[str, Any]:
    spec = {
        "driver": DRIVER,
        "nodeName": node,
        "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": f"gpu-{number}"} for number in range(devices)],
    }
    return _object(RESOURCESLICES, f"stock-{node}", spec)


def _pod(number: int) -> dict[str, Any]:
    spec = {
        "containers": [{**world.CONTAINER, "resources": {"claims": [{"name": "gpus"}]}}],
        "resourceClaims": [{"name": "gpus", "resourceClaimTemplateName": "gpus"}],
        "tolerations": [{"key": "gangbridge.dev/managed", "operator": "Exists"}],
    }
    return _object(PODS, f"stock-{number}", spec, world.NAMESPACE)
