"""One CDI spec per claim, and back. Pure.

The spec is also the record of what was prepared: its annotations carry the claim and the devices, which is why it is
version 0.6.0 (annotations; container-device-interface SPEC.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bridge.errors import ParseError
from bridge.wellknown import GROUP
from operators.driver.claims import Allotment, ClaimRef
from operators.driver.nodes import DeviceNode

VENDOR = GROUP
CLASS = "gpu"
KIND = f"{VENDOR}/{CLASS}"

_NAMESPACE = f"{GROUP}/claim-namespace"
_NAME = f"{GROUP}/claim-name"
_UID = f"{GROUP}/claim-uid"
_REQUEST = f"{GROUP}/request"
_POOL = f"{GROUP}/pool"
_DEVICE = f"{GROUP}/device"
_INDEX = f"{GROUP}/index"


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedDevice:
    """A device that a claim was given, with Slurm's index of it and its device node."""

    allotment: Allotment
    index: int
    node: DeviceNode


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedClaim:
    """What a claim holds on this node; ``shared`` nodes are held by nobody."""

    claim: ClaimRef
    devices: tuple[PreparedDevice, ...]
    shared: tuple[DeviceNode, ...] = ()

    @property
    def allotments(self) -> tuple[Allotment, ...]:
        """The devices as the claim's allocation names them."""
        return tuple(device.allotment for device in self.devices)


def device_id(claim: ClaimRef, device: str) -> str:
    """The name by which kubelet hands a device to the container runtime: ``vendor/class=name``."""
    return f"{KIND}={_device_name(claim, device)}"


def spec_of(prepared: PreparedClaim) -> dict[str, Any]:
    """The CDI spec of a claim; its devices are injected one by one, its common edits with any of them."""
    common: dict[str, Any] = {"env": ["NVIDIA_VISIBLE_DEVICES=void"]}
    if prepared.shared:
        common["deviceNodes"] = [_edit(node) for node in prepared.shared]
    claim = prepared.claim
    return {
        "cdiVersion": "0.6.0",
        "kind": KIND,
        "annotations": {_NAMESPACE: claim.namespace, _NAME: claim.name, _UID: claim.uid},
        "devices": [_device(claim, device) for device in prepared.devices],
        "containerEdits": common,
    }


def prepared_of(spec: Mapping[str, Any]) -> PreparedClaim:
    """The inverse of ``spec_of``; ParseError for anything that it did not write."""
    try:
        notes = spec["annotations"]
        claim = ClaimRef(namespace=notes[_NAMESPACE], name=notes[_NAME], uid=notes[_UID])
        devices = tuple(_prepared_device(entry) for entry in spec["devices"])
        shared = tuple(_node(edit) for edit in spec["containerEdits"].get("deviceNodes", ()))
        return PreparedClaim(claim=claim, devices=devices, shared=shared)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise ParseError(str(spec)[:200], f"not a CDI spec of {KIND} ({error!r})") from error


def _device_name(claim: ClaimRef, device: str) -> str:
    return f"{claim.uid}-{device}"


def _device(claim: ClaimRef, device: PreparedDevice) -> dict[str, Any]:
    what = device.allotment
    return {
        "name": _device_name(claim, what.device),
        "annotations": {
            _REQUEST: what.request,
            _POOL: what.pool,
            _DEVICE: what.device,
            _INDEX: str(device.index),
        },
        "containerEdits": {
            "env": [f"GANGBRIDGE_GPU_{device.index}={what}"],
            "deviceNodes": [_edit(device.node)],
        },
    }


def _edit(node: DeviceNode) -> dict[str, Any]:
    # Type and numbers are given, so the runtime looks up nothing on the host.
    numbers = {"type": "c", "major": node.major, "minor": node.minor}
    return {"path": node.path, **numbers, "fileMode": 0o666, "permissions": "rw"}


def _prepared_device(entry: Mapping[str, Any]) -> PreparedDevice:
    notes = entry["annotations"]
    return PreparedDevice(
        allotment=Allotment(request=notes[_REQUEST], pool=notes[_POOL], device=notes[_DEVICE]),
        index=int(notes[_INDEX]),
        node=_node(entry["containerEdits"]["deviceNodes"][0]),
    )


def _node(edit: Mapping[str, Any]) -> DeviceNode:
    return DeviceNode(path=edit["path"], major=int(edit["major"]), minor=int(edit["minor"]))
