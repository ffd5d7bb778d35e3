"""ResourceClaims, and the allocation that gangbridge writes into them in place of kube-scheduler. Pure.

A claim's life: create (finalizers can only be set here), allocate and reserve in one status write, release, drop the
finalizers. Every rule below has a reason in how kube-scheduler, kubelet and the resource claim controller read claims;
each is asserted on a real API server.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from bridge import wellknown
from bridge.lifecycle.actions import Member
from bridge.lifecycle.names import claim_name
from bridge.model.gang import Gang
from bridge.model.kube import Device
from operators.kube.labels import gang_labels

Object = dict[str, Any]

REQUEST = "gpu"
"""The one request of every claim."""

MAX_DEVICES = 32
"""Most results of one allocation (resource.k8s.io/v1, AllocationResultsMaxSize)."""

_PROTECTIONS = (wellknown.DELETE_PROTECTION, wellknown.FINALIZER)


def build_claim(gang: Gang, member: Member) -> Object:
    """Return the claim of one pod, not yet allocated.

    It has no owner reference: a garbage collector that follows one would free devices that Slurm still holds.
    """
    labels = gang_labels(gang) | {wellknown.RANK: str(member.rank), wellknown.SLURM_NODE: member.slurm_node}
    name = claim_name(gang, member.rank)
    claim = _claim(name, gang.namespace, labels, member.device_class, len(member.devices))
    claim["metadata"]["finalizers"] = [wellknown.DELETE_PROTECTION]
    return claim


def build_mirror_claim(name: str, *, job_id: int, device_class: str, count: int) -> Object:
    """Return a claim that shows ``count`` devices of an sbatch job as taken, not yet allocated."""
    labels = {wellknown.MANAGED_BY: wellknown.FIELD_MANAGER, wellknown.JOB_ID: str(job_id)}
    claim = _claim(name, wellknown.MIRROR_NAMESPACE, labels, device_class, count)
    claim["metadata"]["finalizers"] = [wellknown.DELETE_PROTECTION, wellknown.FINALIZER]
    return claim


def pod_consumer(name: str, uid: str) -> Object:
    """Return the ``reservedFor`` entry of a pod. Drivers prepare a claim only for exactly one pod."""
    return {"resource": "pods", "name": name, "uid": uid}


def mirror_consumer(name: str, uid: str) -> Object:
    """Return the ``reservedFor`` entry of a mirror: no Kubernetes component frees a claim that it holds."""
    return {"apiGroup": wellknown.GROUP, "resource": "gangjobs", "name": name, "uid": uid}


def allocated(
    claim: Mapping[str, Any], *, devices: Sequence[Device], node: str, consumer: Mapping[str, Any], now: int
) -> Object:
    """Return ``claim`` holding ``devices`` on Kubernetes node ``node`` for ``consumer``, to replace its status.

    An allocation can never be changed, so all of it is here at once. ``now`` is in seconds since the epoch.
    """
    asked = claim["spec"]["devices"]["requests"][0]["exactly"]["count"]
    if asked != len(devices):
        raise AssertionError(f"claim {claim['metadata']['name']} asks for {asked} devices, gets {len(devices)}")
    results = [
        {"request": REQUEST, "driver": device.driver, "pool": device.pool, "device": device.device}
        for device in devices
    ]
    allocation = {
        # Without it kube-scheduler would add it, which the API server refuses: the pod would never bind.
        "allocationTimestamp": datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "devices": {"results": results},
        # Exactly this form ties the claim to one node for drivers with rights on their own node only.
        "nodeSelector": node_selector(node),
    }
    return {**claim, "status": {"allocation": allocation, "reservedFor": [dict(consumer)]}}


def released(claim: Mapping[str, Any]) -> Object:
    """Return ``claim`` holding nothing for nobody, to replace its status."""
    return {**claim, "status": {}}


def unprotected(claim: Mapping[str, Any]) -> Object:
    """Return ``claim`` without the finalizers that keep it, to replace it; others' finalizers stay."""
    meta = claim["metadata"]
    kept = [finalizer for finalizer in meta.get("finalizers") or [] if finalizer not in _PROTECTIONS]
    return {**claim, "metadata": {**meta, "finalizers": kept}}


def node_selector(node: str) -> Object:
    """Return the selector of exactly one node, by name."""
    return {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]}


def _claim(name: str, namespace: str, labels: Mapping[str, str], device_class: str, count: int) -> Object:
    if not 1 <= count <= MAX_DEVICES:
        raise AssertionError(f"claim {name}: {count} devices, a claim holds 1..{MAX_DEVICES}")
    exactly = {"deviceClassName": device_class, "allocationMode": "ExactCount", "count": count}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": namespace, "labels": dict(labels)},
        "spec": {"devices": {"requests": [{"name": REQUEST, "exactly": exactly}]}},
    }
