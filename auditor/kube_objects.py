"""Raw objects of the API server as evidence. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from auditor.evidence import Claim, Consumer, Device, Gang, Key, KubeNode, Place, Pod
from bridge import wellknown

Object = Mapping[str, Any]


def seconds(text: str | None) -> int | None:
    """Return an RFC 3339 time as seconds since the epoch."""
    return int(datetime.fromisoformat(text).timestamp()) if text else None


def read_claim(obj: Object) -> Claim:
    """Return a claim, whoever owns it."""
    meta, status = obj["metadata"], obj.get("status") or {}
    labels, allocation = meta.get("labels") or {}, status.get("allocation") or {}
    is_ours = labels.get(wellknown.MANAGED_BY) == wellknown.FIELD_MANAGER
    return Claim(
        namespace=meta["namespace"],
        name=meta["name"],
        uid=meta["uid"],
        created=seconds(meta.get("creationTimestamp")) or 0,
        is_deleting="deletionTimestamp" in meta,
        is_ours=is_ours,
        key=_key(labels) if is_ours else None,
        job_id=_number(labels, wellknown.JOB_ID) if meta["namespace"] == wellknown.MIRROR_NAMESPACE else 0,
        is_allocated=bool(allocation),
        devices=tuple(
            Device(result["driver"], result["pool"], result["device"])
            for result in (allocation.get("devices") or {}).get("results") or ()
            if not result.get("adminAccess")
        ),
        node=_only_node(allocation.get("nodeSelector") or {}),
        has_timestamp=bool(allocation.get("allocationTimestamp")),
        is_protected=wellknown.DELETE_PROTECTION in meta.get("finalizers", ()),
        reserved_for=tuple(
            Consumer(resource=each["resource"], name=each["name"], uid=each["uid"])
            for each in status.get("reservedFor") or ()
        ),
        managers=_managers(meta),
    )


def read_pod(obj: Object) -> Pod:
    """Return a pod, whoever owns it."""
    meta, spec, status = obj["metadata"], obj["spec"], obj.get("status") or {}
    labels = meta.get("labels") or {}
    containers = [
        state for kind in _CONTAINERS for item in status.get(kind) or () if (state := item.get("state")) is not None
    ]
    return Pod(
        namespace=meta["namespace"],
        name=meta["name"],
        uid=meta["uid"],
        created=seconds(meta.get("creationTimestamp")) or 0,
        delete_by=seconds(meta.get("deletionTimestamp")),
        key=_key(labels),
        job_id=_number(labels, wellknown.JOB_ID),
        node=spec.get("nodeName", ""),
        phase=status.get("phase", "Pending"),
        is_gated=any(gate["name"] == wellknown.GATE for gate in spec.get("schedulingGates") or ()),
        has_running_container=any("running" in state for state in containers),
        ended_unasked=any(
            (each["type"], each["status"], each.get("reason")) == ("DisruptionTarget", "True", "DeletionByPodGC")
            for each in status.get("conditions") or ()
        ),
        managers=_managers(meta),
    )


def read_gang(obj: Object) -> Gang:
    """Return a GangJob; one in the namespace of mirrors has the job id that it shows."""
    meta, status = obj["metadata"], obj.get("status") or {}
    is_mirror = meta["namespace"] == wellknown.MIRROR_NAMESPACE
    over = [each for each in status.get("conditions") or () if each["type"] == "Finished" and each["status"] == "True"]
    return Gang(
        namespace=meta["namespace"],
        name=meta["name"],
        uid=meta["uid"],
        attempt=status.get("attempt", 1),
        is_deleting="deletionTimestamp" in meta,
        finished=seconds(over[0].get("lastTransitionTime")) if over else None,
        job_id=_number(meta.get("labels") or {}, wellknown.JOB_ID) if is_mirror else 0,
    )


def read_node(obj: Object) -> KubeNode | None:
    """Return a managed Node, None for another."""
    meta = obj["metadata"]
    slurm_name = (meta.get("labels") or {}).get(wellknown.SLURM_NODE)
    if slurm_name is None:
        return None
    taints = {taint["key"] for taint in obj["spec"].get("taints") or ()}
    is_fenced = wellknown.OUT_OF_SERVICE in taints or wellknown.FENCED in (meta.get("annotations") or {})
    return KubeNode(name=meta["name"], slurm_name=slurm_name, is_fenced=is_fenced)


def read_places(
    slices: Iterable[Object], nodes: Mapping[str, KubeNode], drivers: frozenset[str]
) -> dict[Device, Place]:
    """Return the GRES index of each device of managed nodes: attribute ``index``, in a pool's newest generation."""
    newest: dict[tuple[str, str], list[Object]] = {}
    for obj in slices:
        spec = obj["spec"]
        known = newest.setdefault((spec["driver"], spec["pool"]["name"]), [])
        if known and known[0]["pool"]["generation"] < spec["pool"]["generation"]:
            known.clear()
        if not known or known[0]["pool"]["generation"] == spec["pool"]["generation"]:
            known.append(spec)
    return {
        Device(driver, pool, device["name"]): Place(nodes[name].slurm_name, index)
        for (driver, pool), specs in newest.items()
        for spec in specs
        if driver in drivers and (name := spec.get("nodeName") or _only_node(spec.get("nodeSelector") or {})) in nodes
        for device in spec.get("devices") or ()
        if (index := _index(device)) is not None
    }


def read_drivers(fleets: Iterable[Object]) -> frozenset[str]:
    """Return the DRA drivers whose devices are Slurm's GRES."""
    return frozenset(item["driver"] for fleet in fleets for item in fleet["spec"].get("devices") or ())


_CONTAINERS = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")


def _index(device: Object) -> int | None:
    """Return the device's GRES index. Names of attributes may be qualified: ``example.com/index``."""
    for name, value in (device.get("attributes") or {}).items():
        if name.rpartition("/")[2] == "index" and "int" in value:
            return int(value["int"])
    return None


def _only_node(selector: Object) -> str:
    """Return the node of a selector that can match one name only, else ""."""
    match selector.get("nodeSelectorTerms"):
        case [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}], **rest}] if not rest:
            return str(name)
        case _:
            return ""


def _key(labels: Object) -> Key | None:
    uid = labels.get(wellknown.GANG_UID)
    return Key(uid, _number(labels, wellknown.ATTEMPT)) if uid else None


def _number(labels: Object, name: str) -> int:
    text = labels.get(name, "")
    return int(text) if text.isdecimal() else 0


def _managers(meta: Object) -> frozenset[str]:
    return frozenset(each.get("manager", "") for each in meta.get("managedFields") or ())
