"""From a ResourceClaim to the devices that this node is to prepare. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from bridge.wellknown import DRIVER
from operators.driver.errors import ClaimRefused

_UID = re.compile(r"[A-Za-z0-9-]{1,64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRef:
    """The claim that kubelet speaks of. The uid becomes part of a file name, hence its check."""

    namespace: str
    name: str
    uid: str

    def __post_init__(self) -> None:
        if not _UID.fullmatch(self.uid):
            raise ClaimRefused(f"claim {self.namespace}/{self.name}: uid {self.uid!r} is not a Kubernetes uid")

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name} (uid {self.uid})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Allotment:
    """One device of the claim's allocation. ``request`` is the name in the claim's spec, without a subrequest."""

    request: str
    pool: str
    device: str

    def __str__(self) -> str:
        return f"{self.pool}/{self.device}"


def allotments(claim: Mapping[str, Any], ref: ClaimRef, *, node: str) -> tuple[Allotment, ...]:
    """Devices of our driver in the claim's allocation, in its order; results of other drivers are left to them.

    Raises ClaimRefused unless the claim is the one kubelet means, is allocated and reserved for a pod, and all our
    devices are in the pool of this node (the pool's name is the Kubernetes node name).
    """
    found_uid = claim.get("metadata", {}).get("uid")
    if found_uid != ref.uid:
        raise ClaimRefused(f"claim {ref} was replaced: the API server has uid {found_uid}")
    status = claim.get("status") or {}
    allocation = status.get("allocation")
    if allocation is None:
        raise ClaimRefused(f"claim {ref} is not allocated")
    _require_pod(status, ref)
    results = (allocation.get("devices") or {}).get("results") or []
    found = tuple(_ours(results, ref, node))
    if not found:
        raise ClaimRefused(f"claim {ref} has no device of driver {DRIVER} in its {len(results)} allocation results")
    names = [allotment.device for allotment in found]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ClaimRefused(f"claim {ref} lists the device {node}/{twice[0]} {names.count(twice[0])} times")
    return found


def _require_pod(status: Mapping[str, Any], ref: ClaimRef) -> None:
    consumers = status.get("reservedFor") or []
    if any(consumer.get("resource") == "pods" and not consumer.get("apiGroup") for consumer in consumers):
        return
    others = ", ".join(f"{consumer.get('resource')}/{consumer.get('name')}" for consumer in consumers)
    raise ClaimRefused(f"claim {ref} is not reserved for a pod: status.reservedFor has {others or 'no entry'}")


def _ours(results: list[Mapping[str, Any]], ref: ClaimRef, node: str) -> Iterator[Allotment]:
    for position, result in enumerate(results):
        if result["driver"] != DRIVER:
            continue
        where = f"claim {ref}: status.allocation.devices.results[{position}]"
        if result["pool"] != node:
            raise ClaimRefused(f"{where}: device {result['device']} is in pool {result['pool']}, this node is {node}")
        for field in ("adminAccess", "shareID"):
            if result.get(field):
                raise ClaimRefused(f"{where}: {field} is set; driver {DRIVER} gives whole devices to one claim only")
        # kubelet matches requests of the spec, not the alternatives below them ("gpu/h100").
        yield Allotment(request=result["request"].split("/")[0], pool=result["pool"], device=result["device"])
