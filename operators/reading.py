"""From raw objects of the API server to the model. Pure; what a user wrote wrong becomes a value, not an exception."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any, TypeVar

from bridge import wellknown
from bridge.accounting.gres import parse_gres_request
from bridge.errors import ParseError, SpecError
from bridge.model.duration import parse_time_limit
from bridge.model.fence import Fence
from bridge.model.fleet import BrakeSpec, DeviceMapping, FleetSpec, LabelSource, Mode, QueueSpec, SlurmSource
from bridge.model.gang import (
    Condition,
    ConditionType,
    Gang,
    GangSpec,
    GangStatus,
    HoldStatus,
    Outcome,
    Phase,
    Result,
    Role,
    Segment,
)
from bridge.model.kube import ClaimView, Device, KubeNode, MirrorView, PodPhase, PodView, Pool, PoolDevice
from bridge.model.quantity import parse_mib, parse_milli_cpu
from bridge.model.selector import Operator, Requirement, Selector
from operators.kube.stopped import is_stopped
from operators.linkmodel import read_link_model

Object = Mapping[str, Any]
Word = TypeVar("Word", bound=StrEnum)

ORIGIN_SLURM = "Slurm"
RELEASE_S = 600
"""How long the word of an admin keeps the brake off."""
_OURS = frozenset({wellknown.FINALIZER, wellknown.DELETE_PROTECTION})
_NUMBER = re.compile("[0-9]{1,18}")


def seconds(text: str | None) -> int | None:
    """Return an RFC 3339 time as seconds since the epoch."""
    return int(datetime.fromisoformat(text).timestamp()) if text else None


def _number(texts: Mapping[str, str], key: str) -> int:
    """Return the number that a label or annotation holds, or 0: anybody may write anything there."""
    text = texts.get(key, "")
    return int(text) if _NUMBER.fullmatch(text) else 0


def is_mirror(obj: Object) -> bool:
    """Return whether a GangJob is the image of an sbatch job."""
    return bool(obj.get("spec", {}).get("origin") == ORIGIN_SLURM)


def read_gang(obj: Object) -> Gang:
    """Return a user's GangJob."""
    meta = obj["metadata"]
    try:
        spec: GangSpec | SpecError = _gang_spec(obj["spec"])
    except SpecError as error:
        spec = error
    return Gang(
        namespace=meta["namespace"],
        name=meta["name"],
        uid=meta["uid"],
        generation=meta.get("generation", 1),
        created=seconds(meta.get("creationTimestamp")) or 0,
        deleting="deletionTimestamp" in meta,
        has_finalizer=wellknown.FINALIZER in meta.get("finalizers", ()),
        spec=spec,
        status=_gang_status(obj.get("status") or {}),
    )


def _gang_spec(spec: Object) -> GangSpec:
    roles = spec.get("roles") or []
    if len(roles) != 1:
        raise SpecError("spec.roles", f"has {len(roles)} roles, one is supported")
    role, topology = roles[0], spec.get("topology") or {}
    limit, segment = spec.get("timeLimit"), topology.get("segment")
    return GangSpec(
        queue=spec["queue"],
        role=_role(role, "spec.roles[0]"),
        time_limit_min=_checked(parse_time_limit, limit, "spec.timeLimit") if limit else None,
        required_level=topology.get("required"),
        preferred_level=topology.get("preferred"),
        segment=Segment(size=segment["size"], level=segment["level"]) if segment else None,
        max_restarts=(spec.get("failurePolicy") or {}).get("maxRestarts", 0),
    )


def _role(role: Object, path: str) -> Role:
    containers = role["template"]["spec"]["containers"]
    requests = [_requests(container) for container in containers]
    at = f"{path}.template.spec.containers"
    return Role(
        name=role["name"],
        replicas=role["replicas"],
        pods_per_node=role.get("podsPerNode"),
        gres=_checked(parse_gres_request, role["gres"], f"{path}.gres"),
        milli_cpu=sum(_checked(parse_milli_cpu, str(want.get("cpu", "0")), at) for want in requests),
        memory_mib=sum(_checked(parse_mib, str(want.get("memory", "0")), at) for want in requests),
    )


def _requests(container: Object) -> Object:
    resources = container.get("resources") or {}
    return dict(resources.get("limits") or {}) | dict(resources.get("requests") or {})


def _checked(parse: Any, text: str, path: str) -> Any:  # noqa: ANN401 - whatever the parser returns
    try:
        return parse(text)
    except ParseError as error:
        raise SpecError(path, f"{text!r} {error.problem}") from error


def _gang_status(status: Object) -> GangStatus:
    conditions = {item["type"]: item for item in status.get("conditions", ())}
    outcome, hold = status.get("outcome"), status.get("hold")
    return GangStatus(
        attempt=status.get("attempt", 1),
        restarts=status.get("restarts", 0),
        phase=_known(Phase, status.get("phase", ""), Phase.PENDING),
        reason=status.get("reason", ""),
        message=status.get("message", ""),
        conditions=tuple(_condition(conditions[type_]) for type_ in ConditionType if type_ in conditions),
        outcome=_outcome(outcome) if outcome else None,
        hold=_hold(hold) if hold else None,
        placement=(status.get("placement") or {}).get("summary", ""),
        quality=(status.get("placement") or {}).get("quality", ""),
        ready_pods=status.get("readyPods", 0),
        pods=status.get("pods", ""),
        gpus=status.get("gpus", 0),
        exit_code=status.get("exitCode"),
        start_time=seconds(status.get("startTime")),
        completion_time=seconds(status.get("completionTime")),
        estimated_start_time=seconds(status.get("estimatedStartTime")),
        observed_generation=status.get("observedGeneration", 0),
    )


def _condition(item: Object) -> Condition:
    return Condition(
        type=ConditionType(item["type"]),
        status=item["status"] == "True",
        reason=item.get("reason", ""),
        message=item.get("message", ""),
        since=seconds(item.get("lastTransitionTime")) or 0,
    )


def _outcome(item: Object) -> Outcome:
    return Outcome(
        attempt=item["attempt"],
        result=_known(Result, item["result"], Result.HOLD_LOST),
        exit_code=item.get("exitCode", 0),
        message=item.get("message", ""),
    )


def _hold(item: Object) -> HoldStatus:
    return HoldStatus(
        job_id=item["jobId"],
        state=item.get("state", ""),
        nodes=item.get("nodes", ""),
        user=item.get("user", ""),
        account=item.get("account", ""),
        partition=item.get("partition", ""),
        end_time=seconds(item.get("endTime")),
    )


def _known(kind: type[Word], text: str, otherwise: Word) -> Word:
    """Return a word of ours; ``otherwise`` for one that a newer version wrote."""
    return kind(text) if text in set(kind) else otherwise


def read_mirror(obj: Object) -> MirrorView:
    """Return the image of an sbatch job."""
    meta = obj["metadata"]
    annotations = meta.get("annotations") or {}
    return MirrorView(
        namespace=meta["namespace"],
        name=meta["name"],
        uid=meta["uid"],
        job_id=_number(meta.get("labels") or {}, wellknown.JOB_ID),
        submit_time=_number(annotations, wellknown.SUBMIT_TIME),
        deleting="deletionTimestamp" in meta,
        has_finalizer=wellknown.FINALIZER in meta.get("finalizers", ()),
        digest=annotations.get(wellknown.DIGEST, ""),
    )


def read_fleet(obj: Object) -> FleetSpec:
    """Return a Fleet."""
    spec = obj["spec"]
    topology = spec.get("topology") or {}
    return FleetSpec(
        name=obj["metadata"]["name"],
        mode=Mode(spec.get("mode", Mode.OBSERVE)),
        levels=tuple(topology.get("levels", ())),
        sources=tuple(_source(item) for item in topology.get("sources", ())),
        devices=tuple(
            DeviceMapping(gres=item["gres"], driver=item["driver"], device_class=item["deviceClass"])
            for item in spec.get("devices", ())
        ),
        links=read_link_model(topology.get("linkModel") or {}),
        brake=_brake(spec.get("brake") or {}, obj["metadata"].get("annotations") or {}),
    )


def _brake(spec: Object, annotations: Mapping[str, str]) -> BrakeSpec:
    try:
        released = seconds(annotations.get(wellknown.RELEASE_BRAKE))
    except ValueError:
        released = None
    return BrakeSpec(
        max_lost_percent=spec.get("maxLostPercent", 30),
        min_lost=spec.get("minLost", 3),
        released_until=released + RELEASE_S if released is not None else 0,
    )


def _source(item: Object) -> LabelSource | SlurmSource:
    if "slurm" in item:
        return SlurmSource(topology=(item["slurm"] or {}).get("topology", ""))
    return LabelSource(labels=dict(item.get("nodeLabels") or {}))


def read_queue(obj: Object) -> QueueSpec:
    """Return a GangQueue; SpecError where a time is none."""
    spec = obj["spec"]
    slurm, limits, namespaces = spec["slurm"], spec.get("limits") or {}, spec.get("namespaces") or {}
    default = (spec.get("defaults") or {}).get("timeLimit", "1h")
    most = limits.get("maxTimeLimit")
    selector = namespaces.get("selector")
    return QueueSpec(
        name=obj["metadata"]["name"],
        fleet=spec["fleet"],
        namespaces=frozenset(namespaces.get("names") or ()),
        namespace_selector=None if selector is None else _selector(selector),
        partition=slurm["partition"],
        account=slurm["account"],
        qos=tuple(slurm.get("qos") or ()),
        user=slurm["user"],
        default_time_limit_min=_checked(parse_time_limit, default, "spec.defaults.timeLimit"),
        max_time_limit_min=_checked(parse_time_limit, most, "spec.limits.maxTimeLimit") if most else None,
        max_gpus_per_gang=limits.get("maxGpusPerGang"),
    )


def _selector(item: Object) -> Selector:
    return Selector(
        labels=dict(item.get("matchLabels") or {}),
        requirements=tuple(
            Requirement(
                key=part["key"], operator=Operator(part["operator"]), values=frozenset(part.get("values") or ())
            )
            for part in item.get("matchExpressions") or ()
        ),
    )


def read_pod(obj: Object) -> PodView | None:
    """Return a pod of a gang, or None for anybody else's."""
    meta, status, spec = obj["metadata"], obj.get("status") or {}, obj.get("spec") or {}
    labels = meta.get("labels") or {}
    if wellknown.GANG_UID not in labels:
        return None
    ended = [
        state["terminated"]
        for container in status.get("containerStatuses", ())
        if "terminated" in (state := container.get("state") or {})
    ]
    failed = [state for state in ended if state.get("exitCode", 0) != 0]
    first = min(failed, key=lambda state: seconds(state.get("finishedAt")) or 0, default=None)
    return PodView(
        namespace=meta["namespace"],
        name=meta["name"],
        uid=meta["uid"],
        gang_uid=labels[wellknown.GANG_UID],
        attempt=_number(labels, wellknown.ATTEMPT),
        rank=_number(labels, wellknown.RANK),
        node=_pinned_node(spec),
        slurm_node=labels.get(wellknown.SLURM_NODE, ""),
        phase=PodPhase(status.get("phase", PodPhase.PENDING)),
        gated=any(gate["name"] == wellknown.GATE for gate in spec.get("schedulingGates", ())),
        deleting="deletionTimestamp" in meta,
        stopped=is_stopped(obj),
        held=wellknown.FINALIZER in meta.get("finalizers", ()),
        grace_s=spec.get("terminationGracePeriodSeconds", 30),
        exit_code=first["exitCode"] if first else None,
        finished_at=(seconds(first.get("finishedAt")) or 0) if first else 0,
        message=status.get("message") or (first.get("message", "") if first else ""),
    )


def _pinned_node(spec: Object) -> str:
    affinity = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    )
    return _named_node(affinity) or str(spec.get("nodeName", ""))


def _named_node(selector: Object | None) -> str:
    """Return the node that a node selector names; empty when it selects in another way."""
    for term in (selector or {}).get("nodeSelectorTerms", ()):
        for field in term.get("matchFields", ()):
            if field["key"] == "metadata.name" and field["operator"] == "In":
                return str(field["values"][0])
    return ""


def read_claim(obj: Object) -> ClaimView:
    """Return a claim, whoever owns it. What we have let go, and only another's finalizer keeps, is nobody's."""
    meta, status = obj["metadata"], obj.get("status") or {}
    allocation = status.get("allocation") or {}
    results = (allocation.get("devices") or {}).get("results", ())
    is_protected = not _OURS.isdisjoint(meta.get("finalizers") or ())
    labels = (meta.get("labels") or {}) if results or is_protected or "deletionTimestamp" not in meta else {}
    return ClaimView(
        namespace=meta["namespace"],
        name=meta["name"],
        uid=meta["uid"],
        devices=tuple(
            Device(driver=result["driver"], pool=result["pool"], device=result["device"])
            for result in results
            if not result.get("adminAccess")
        ),
        node=_named_node(allocation.get("nodeSelector")),
        slurm_node=labels.get(wellknown.SLURM_NODE, ""),
        reserved_for=tuple(consumer["uid"] for consumer in status.get("reservedFor", ())),
        deleting="deletionTimestamp" in meta,
        gang_uid=labels.get(wellknown.GANG_UID, ""),
        attempt=_number(labels, wellknown.ATTEMPT),
        rank=_number(labels, wellknown.RANK),
        job_id=_number(labels, wellknown.JOB_ID) if meta["namespace"] == wellknown.MIRROR_NAMESPACE else 0,
    )


def read_node(obj: Object) -> KubeNode | None:
    """Return a managed node, or None for one without the label."""
    meta, spec, status = obj["metadata"], obj.get("spec") or {}, obj.get("status") or {}
    labels = meta.get("labels") or {}
    if wellknown.SLURM_NODE not in labels:
        return None
    ready = any(item["type"] == "Ready" and item["status"] == "True" for item in status.get("conditions", ()))
    return KubeNode(
        name=meta["name"],
        slurm_node=labels[wellknown.SLURM_NODE],
        ready=ready,
        unschedulable=bool(spec.get("unschedulable")),
        tainted=any(taint["key"] == wellknown.TAINT for taint in spec.get("taints", ())),
        fenced=read_fence(obj),
        labels=labels,
    )


def read_fence(obj: Object) -> Fence | None:
    """Return the fence of a node: our annotation, or Kubernetes' own taint for a node that is shut down."""
    fence = Fence.loads((obj["metadata"].get("annotations") or {}).get(wellknown.FENCED))
    if fence is not None:
        return fence
    for taint in (obj.get("spec") or {}).get("taints") or ():
        if taint["key"] == wellknown.OUT_OF_SERVICE:
            return Fence(at=seconds(taint.get("timeAdded")) or 0, reason=f"taint {wellknown.OUT_OF_SERVICE}")
    return None


def read_pools(slices: Iterable[Object]) -> tuple[Pool, ...]:
    """Return the complete node pools at their newest generation; an incomplete pool is unknown, and left out."""
    by_pool: dict[tuple[str, str], list[Object]] = {}
    for obj in slices:
        spec = obj["spec"]
        by_pool.setdefault((spec["driver"], spec["pool"]["name"]), []).append(obj)
    found = []
    for (driver, name), parts in sorted(by_pool.items()):
        newest = max(part["spec"]["pool"]["generation"] for part in parts)
        current = [part for part in parts if part["spec"]["pool"]["generation"] == newest]
        counts = {part["spec"]["pool"]["resourceSliceCount"] for part in current}
        if counts == {len(current)}:
            found.append(_pool(driver, name, newest, current))
    return tuple(found)


def _pool(driver: str, name: str, generation: int, parts: list[Object]) -> Pool:
    devices = [_pool_device(device) for part in parts for device in part["spec"].get("devices", ())]
    devices.sort(key=lambda device: (device.index is None, device.index, device.name))
    node = slice_node(parts[0]["spec"])
    return Pool(driver=driver, name=name, node=node, generation=generation, devices=tuple(devices))


def slice_node(spec: Object) -> str:
    """Return the one node that a slice, or the selector of an allocation, names; empty for none or several."""
    if spec.get("nodeName"):
        return str(spec["nodeName"])
    return _named_node(spec.get("nodeSelector"))


def _pool_device(device: Object) -> PoolDevice:
    values = {key.rpartition("/")[2]: value for key, value in (device.get("attributes") or {}).items()}
    index, socket = values.get("index", {}).get("int"), values.get("socket", {}).get("int")
    return PoolDevice(
        name=device["name"],
        index=None if index is None else int(index),
        type=values.get("type", {}).get("string", ""),
        socket=None if socket is None else int(socket),
    )
