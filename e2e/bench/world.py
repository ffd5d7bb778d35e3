"""What the measurements run in: a namespace and a queue of their own, and ways to be sure that nothing is left."""

from __future__ import annotations

import asyncio
import subprocess
import time
from collections.abc import Mapping
from typing import Any

from e2e.operator import kubectl
from operators.kube.client import KubeClient
from operators.kube.errors import NotFound
from operators.kube.resources import PODS, RESOURCECLAIMS, RESOURCESLICES, Resource

NAMESPACE = "bench"
QUEUE = "bench"
PREFIX = "bench-"
"""Of the names of all gangs and jobs: others may use the lab's Slurm too."""
MANIFEST = f"""
apiVersion: v1
kind: Namespace
metadata: {{name: {NAMESPACE}}}
---
apiVersion: gangbridge.dev/v1alpha1
kind: GangQueue
metadata: {{name: {QUEUE}}}
spec:
  fleet: main
  namespaces: {{names: [{NAMESPACE}]}}
  slurm: {{partition: ext, account: physics, qos: [normal], user: alice}}
  defaults: {{timeLimit: 1h}}
  limits: {{maxTimeLimit: 2d, maxGpusPerGang: 4096}}
"""
CONTAINER = {"name": "main", "image": "localhost/lab/busybox:1"}


def gang(name: str, pods: int, gpus: int) -> dict[str, Any]:
    """Return a GangJob whose pods run until they are deleted."""
    role = {
        "name": "worker",
        "replicas": pods,
        "gres": f"gpu:h100:{gpus}",
        "template": {"spec": {"containers": [CONTAINER]}},
    }
    return {
        "apiVersion": "gangbridge.dev/v1alpha1",
        "kind": "GangJob",
        "metadata": {"name": f"{PREFIX}{name}", "namespace": NAMESPACE},
        "spec": {"queue": QUEUE, "timeLimit": "30m", "roles": [role]},
    }


def create() -> None:
    """Create the namespace and the queue, and return when pods may be created there."""
    kubectl("apply", "-f", "-", stdin=MANIFEST)
    kubectl("wait", "--for=create", "serviceaccount/default", "-n", NAMESPACE, "--timeout=30s")


def delete() -> None:
    """Remove both, with everything in them."""
    kubectl("delete", "--ignore-not-found", "--timeout=90s", "-f", "-", stdin=MANIFEST)


async def remove_all(
    client: KubeClient, resource: Resource, namespace: str | None = NAMESPACE, selector: str = ""
) -> None:
    """Delete every object of the type; waits for none of them."""
    items, _ = await client.list(resource, namespace, label_selector=selector)
    await asyncio.gather(*(_remove(client, resource, item["metadata"]) for item in items))


async def _remove(client: KubeClient, resource: Resource, meta: Mapping[str, Any]) -> None:
    try:
        await client.delete(resource, meta["name"], namespace=meta.get("namespace"), grace_s=0)
    except NotFound:
        return


async def until_empty(client: KubeClient, *resources: Resource, timeout_s: float = 90) -> None:
    """Return when the namespace has none of them and Slurm has no job of ours; TimeoutError says what was left."""
    deadline = time.monotonic() + timeout_s
    for resource in resources:
        while items := (await client.list(resource, NAMESPACE))[0]:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{len(items)} {resource.plural} are left in {NAMESPACE} after {timeout_s} s")
            await asyncio.sleep(0.05)
    while jobs := live_jobs():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{len(jobs)} jobs are left in squeue after {timeout_s} s, the first is {jobs[0]}")
        await asyncio.sleep(0.05)


def slurm(*args: str, user: str = "root") -> str:
    """Run a Slurm command of the lab as ``user`` and return what it prints."""
    done = subprocess.run(["env", f"LAB_USER={user}", *args], text=True, capture_output=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(args)}: {done.stderr.strip()}")
    return done.stdout


def live_jobs() -> list[str]:
    """Return the names of the jobs and holds of ours that squeue shows, completing ones too."""
    return [name for name in slurm("squeue", "-h", "-a", "-o", "%j").split() if name.startswith(PREFIX)]


async def until_published(client: KubeClient, driver: str, nodes: int, timeout_s: float = 60) -> None:
    """Return when ``driver`` has slices for so many nodes."""
    deadline = time.monotonic() + timeout_s
    while True:
        slices, _ = await client.list(RESOURCESLICES)
        found = {item["spec"]["pool"]["name"] for item in slices if item["spec"]["driver"] == driver}
        if len(found) >= nodes:
            return
        if time.monotonic() > deadline:
            raise TimeoutError(f"{driver} has slices for {len(found)} of {nodes} nodes after {timeout_s} s")
        await asyncio.sleep(0.1)


LEFT = (PODS, RESOURCECLAIMS)
