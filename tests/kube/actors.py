"""The parts of Kubernetes around the API server that loop tests need, one step at a time on the fake's objects."""

from __future__ import annotations

from typing import Any

from bridge import wellknown
from tests.kube.fakeapi import FakeApi

Object = dict[str, Any]


def claim_controller(api: FakeApi) -> int:
    """Do what the resource claim controller does once; return the number of changes.

    Consumers that are pods which ended or vanished are dropped; a claim without consumers is deallocated and loses the
    built-in finalizer; consumers that are not pods stay. A policy keeps it from claims of ours.
    """
    changes = 0
    for claim in api.of("resourceclaims"):
        meta, status = claim["metadata"], claim.get("status") or {}
        if meta.get("labels", {}).get(wellknown.MANAGED_BY) == wellknown.FIELD_MANAGER:
            continue
        consumers = status.get("reservedFor") or []
        kept = [consumer for consumer in consumers if _is_alive(api, meta["namespace"], consumer)]
        key = ("resourceclaims", meta["namespace"], meta["name"])
        is_protected = wellknown.DELETE_PROTECTION in meta.get("finalizers", ())
        is_freed = is_protected and not kept and (bool(consumers) or "deletionTimestamp" in meta)
        if len(kept) < len(consumers) or (is_freed and status.get("allocation")):
            left = {} if is_freed else {**status, "reservedFor": kept}
            api.store.modify(key, lambda old, left=left: {**old, "status": left}, "status")
            changes += 1
        if is_freed:
            api.store.modify(key, _without_protection, "")
            changes += 1
    return changes


def scheduler(api: FakeApi) -> int:
    """Bind every pod that has no gate, is pinned to one node and has its claims allocated for it; return how many."""
    bound = 0
    for pod in api.of("pods"):
        spec, meta = pod["spec"], pod["metadata"]
        if spec.get("schedulingGates") or spec.get("nodeName") or "deletionTimestamp" in meta:
            continue
        if all(_is_ready_for(api, pod, claim) for claim in spec.get("resourceClaims") or []):
            bound += 1
            _force(api, pod, {"spec": {**spec, "nodeName": _pinned_node(pod)}})
    return bound


def kubelet(api: FakeApi) -> int:
    """Start every bound pod, and finish every deleted one; return the number of changes."""
    changes = 0
    for pod in api.of("pods"):
        if not pod["spec"].get("nodeName"):
            continue
        if "deletionTimestamp" in pod["metadata"]:
            changes += _end(api, pod)
        elif pod["status"]["phase"] == "Pending":
            set_phase(api, pod, "Running")
            changes += 1
    return changes


def _end(api: FakeApi, pod: Object) -> int:
    """Report that the containers have ended, and then remove the object unless a finalizer keeps it."""
    if pod["status"]["phase"] not in {"Succeeded", "Failed"}:
        set_phase(api, pod, "Failed", exit_code=143)
        return 1
    if pod["metadata"].get("finalizers"):
        return 0
    api.remove("pods", pod["metadata"]["name"], pod["metadata"]["namespace"])
    return 1


def set_phase(api: FakeApi, pod: Object, phase: str, *, exit_code: int | None = None) -> None:
    """Set a pod's phase, and the exit code of its first container once it has ended."""
    status: Object = {"phase": phase}
    if exit_code is not None:
        terminated = {"exitCode": exit_code, "finishedAt": "2030-01-01T00:00:00Z"}
        name = pod["spec"]["containers"][0]["name"]
        status["containerStatuses"] = [{"name": name, "state": {"terminated": terminated}}]
    key = ("pods", pod["metadata"]["namespace"], pod["metadata"]["name"])
    api.store.modify(key, lambda old: {**old, "status": status}, "status")


def settle(api: FakeApi) -> None:
    """Run all of them until nothing changes."""
    while claim_controller(api) + scheduler(api) + kubelet(api):
        pass


def _is_alive(api: FakeApi, namespace: str, consumer: Object) -> bool:
    if consumer.get("apiGroup") or consumer["resource"] != "pods":
        return True
    pod = api.objects.get(("pods", namespace, consumer["name"]))
    return (
        pod is not None
        and pod["metadata"]["uid"] == consumer["uid"]
        and pod["status"]["phase"] not in {"Succeeded", "Failed"}
    )


def _is_ready_for(api: FakeApi, pod: Object, reference: Object) -> bool:
    claim = api.objects.get(("resourceclaims", pod["metadata"]["namespace"], reference["resourceClaimName"]))
    status = (claim or {}).get("status") or {}
    uids = {consumer["uid"] for consumer in status.get("reservedFor") or []}
    return bool(status.get("allocation")) and pod["metadata"]["uid"] in uids


def _pinned_node(pod: Object) -> str:
    affinity = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    return str(affinity["nodeSelectorTerms"][0]["matchFields"][-1]["values"][0])


def _force(api: FakeApi, pod: Object, change: Object) -> None:
    """Change what only the binding subresource may."""
    api.store._commit("MODIFIED", "pods", {**pod, **change, "metadata": dict(pod["metadata"])})


def _without_protection(claim: Object) -> Object:
    kept = [name for name in claim["metadata"]["finalizers"] if name != wellknown.DELETE_PROTECTION]
    return {**claim, "metadata": {**claim["metadata"], "finalizers": kept}}
