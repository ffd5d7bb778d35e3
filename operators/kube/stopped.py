"""Evidence that nothing of a pod runs, from its object alone (invariant I5). Pure.

A kubelet reports a terminal phase only after every container has ended and its claims are unprepared. Others write that
phase too, without asking the kubelet: pod garbage collection does, for pods of a node that vanished or that carries the
taint out-of-service; it leaves a condition behind that tells.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_TERMINAL = frozenset({"Succeeded", "Failed"})
_STATUSES = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")


def is_stopped(pod: Mapping[str, Any]) -> bool:
    """Return whether it is proven that no container of ``pod`` runs and none will start.

    A pod that no node has was never started; once it is being deleted, the API server binds it to none any more.
    """
    status = pod.get("status") or {}
    if not (pod.get("spec") or {}).get("nodeName"):
        return "deletionTimestamp" in pod["metadata"]
    if status.get("phase") not in _TERMINAL or _is_hearsay(status):
        return False
    return not any("running" in _state(container) for kind in _STATUSES for container in status.get(kind) or ())


def _state(container: Mapping[str, Any]) -> Mapping[str, Any]:
    return {name: value for name, value in (container.get("state") or {}).items() if value is not None}


def _is_hearsay(status: Mapping[str, Any]) -> bool:
    return any(
        item["type"] == "DisruptionTarget" and item["status"] == "True" and item.get("reason") == "DeletionByPodGC"
        for item in status.get("conditions") or ()
    )
