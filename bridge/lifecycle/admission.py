"""May this gang run at all? Everything that is checked before anything is submitted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from bridge.accounting.devicemap import tracked_types
from bridge.errors import SpecError
from bridge.lifecycle.fleetview import FleetView
from bridge.model.duration import format_time_limit
from bridge.model.fleet import Mode, QueueSpec
from bridge.model.gang import Gang, GangSpec
from bridge.placement.request import Request

MAX_DEVICES_PER_POD = 32
"""One claim holds at most this many devices (resource.k8s.io/v1, AllocationResultsMaxSize)."""


class Refusal(StrEnum):
    """Machine reason of the condition ``Accepted=False``."""

    INVALID_SPEC = "InvalidSpec"
    FLEET_OBSERVES = "FleetObserves"
    UNKNOWN_QUEUE = "UnknownQueue"
    NAMESPACE_NOT_ALLOWED = "NamespaceNotAllowed"
    TIME_LIMIT_TOO_LONG = "TimeLimitTooLong"
    TOO_MANY_GPUS = "TooManyGpus"
    UNKNOWN_LEVEL = "UnknownLevel"
    UNKNOWN_GRES = "UnknownGres"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """Why not; ``message`` names the field and the number."""

    reason: Refusal
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """The gang's spec and queue, ready to be placed."""

    spec: GangSpec
    queue: QueueSpec
    time_limit_min: int
    request: Request


def admit(
    gang: Gang, view: FleetView, queues: Mapping[str, QueueSpec], namespaces: Mapping[str, Mapping[str, str]]
) -> Accepted | Refused:
    """Check ``gang`` against its queue and the fleet."""
    if isinstance(gang.spec, SpecError):
        return Refused(reason=Refusal.INVALID_SPEC, message=str(gang.spec))
    if view.fleet.mode is Mode.OBSERVE:
        return Refused(reason=Refusal.FLEET_OBSERVES, message=f"Fleet {view.fleet.name} has mode Observe")
    spec = gang.spec
    queue = queues.get(spec.queue)
    if queue is None or queue.fleet != view.fleet.name:
        known = ", ".join(sorted(name for name, other in queues.items() if other.fleet == view.fleet.name)) or "none"
        return Refused(
            reason=Refusal.UNKNOWN_QUEUE, message=f"spec.queue: there is no GangQueue {spec.queue!r} (known: {known})"
        )
    return (
        _policy(gang, spec, queue, namespaces)
        or _topology(spec, view)
        or _devices(spec, queue, view)
        or _accepted(spec, queue, view)
    )


def _policy(
    gang: Gang, spec: GangSpec, queue: QueueSpec, namespaces: Mapping[str, Mapping[str, str]]
) -> Refused | None:
    if not queue.admits(gang.namespace, namespaces.get(gang.namespace, {})):
        message = f"spec.queue: GangQueue {queue.name} does not admit namespace {gang.namespace}"
        return Refused(reason=Refusal.NAMESPACE_NOT_ALLOWED, message=message)
    limit = spec.time_limit_min or queue.default_time_limit_min
    most = queue.max_time_limit_min
    if most is not None and limit > most:
        asked, allowed = format_time_limit(limit), format_time_limit(most)
        message = f"spec.timeLimit: {asked} is more than the {allowed} that GangQueue {queue.name} allows"
        return Refused(reason=Refusal.TIME_LIMIT_TOO_LONG, message=message)
    if queue.max_gpus_per_gang is not None and spec.gpus > queue.max_gpus_per_gang:
        message = (
            f"spec.roles[0]: {spec.gpus} GPUs are more than the {queue.max_gpus_per_gang} of GangQueue {queue.name}"
        )
        return Refused(reason=Refusal.TOO_MANY_GPUS, message=message)
    return None


def _topology(spec: GangSpec, view: FleetView) -> Refused | None:
    segment = spec.segment
    asked = {"required": spec.required_level, "preferred": spec.preferred_level}
    for field, level in (asked | {"segment.level": segment.level if segment else None}).items():
        if level is not None and level not in view.fleet.levels:
            known = ", ".join(view.fleet.levels) or "none"
            message = f"spec.topology.{field}: Fleet {view.fleet.name} has no level {level!r} (levels: {known})"
            return Refused(reason=Refusal.UNKNOWN_LEVEL, message=message)
    if segment is not None and spec.role.replicas % segment.size:
        message = f"spec.topology.segment.size: {spec.role.replicas} pods do not divide into segments of {segment.size}"
        return Refused(reason=Refusal.INVALID_SPEC, message=message)
    return None


def _devices(spec: GangSpec, queue: QueueSpec, view: FleetView) -> Refused | None:
    gres = spec.role.gres
    most: dict[str, int] = {}
    for node in view.nodes.values():
        if queue.partition in node.slurm.partitions:
            types = list(tracked_types(node.slurm).values())
            most.update({type_: max(most.get(type_, 0), types.count(type_)) for type_ in set(types)})
    known = ", ".join(f"gpu:{type_}" for type_ in sorted(most)) or "no tracked GPUs"
    if gres.name != "gpu" or (gres.type and gres.type not in most):
        message = f"spec.roles[0].gres: partition {queue.partition} has no {gres.name}:{gres.type} (it has {known})"
        return Refused(reason=Refusal.UNKNOWN_GRES, message=message)
    largest = most.get(gres.type, 0) if gres.type else max(most.values(), default=0)
    largest = min(largest, MAX_DEVICES_PER_POD)
    if gres.count > largest:
        where = f"a node of partition {queue.partition}"
        message = f"spec.roles[0].gres: {gres.count} GPUs per pod, but {where} gives at most {largest}"
        return Refused(reason=Refusal.TOO_MANY_GPUS, message=message)
    return None


def _accepted(spec: GangSpec, queue: QueueSpec, view: FleetView) -> Accepted:
    role = spec.role
    return Accepted(
        spec=spec,
        queue=queue,
        time_limit_min=spec.time_limit_min or queue.default_time_limit_min,
        request=Request(
            pods=role.replicas,
            pods_per_node=role.pods_per_node,
            gres=role.gres,
            cpus_per_pod=max(1, -(-role.milli_cpu // 1000)),
            memory_mib_per_pod=role.memory_mib,
            levels=view.fleet.levels,
            required_level=spec.required_level,
            preferred_level=spec.preferred_level,
            segment=spec.segment,
        ),
    )
