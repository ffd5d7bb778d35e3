"""ResourceSlices for nodes without a vendor driver, and the DeviceClass of the project's own driver. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bridge import wellknown
from bridge.model.kube import PoolDevice
from operators.kube.claims import node_selector

Object = dict[str, Any]

MAX_DEVICES = 128
"""Most devices of one slice without taints or counters (resource.k8s.io/v1, ResourceSliceMaxDevices)."""


def device_name(index: int) -> str:
    """Return the name of the device at a GRES index: ``gpu-3``."""
    return f"gpu-{index}"


def slice_name(kube_node: str, ordinal: int) -> str:
    """Return the name of a node's ``ordinal``-th slice; the same for every generation."""
    return f"gangbridge-{kube_node}-{ordinal}"


def build_slices(
    *, kube_node: str, slurm_node: str, devices: Sequence[PoolDevice], generation: int, node_uid: str | None = None
) -> list[Object]:
    """Return the slices of one node's pool, all of one ``generation``; one without devices when there are none.

    They select the node by name instead of naming it: kubelet deletes slices with its ``nodeName`` at every start.
    With ``node_uid`` they vanish with the Node object.
    """
    ordered = sorted(devices, key=lambda device: (device.index is None, device.index, device.name))
    chunks = [ordered[start : start + MAX_DEVICES] for start in range(0, len(ordered), MAX_DEVICES)] or [[]]
    pool = {"name": kube_node, "generation": generation, "resourceSliceCount": len(chunks)}
    return [
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": _metadata(kube_node, ordinal, node_uid),
            "spec": {
                "driver": wellknown.DRIVER,
                "pool": pool,
                "nodeSelector": node_selector(kube_node),
                "devices": [_device(device, slurm_node) for device in chunk],
            },
        }
        for ordinal, chunk in enumerate(chunks)
    ]


def build_device_class() -> Object:
    """Return the DeviceClass that stands for every device of the project's driver."""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": wellknown.DRIVER},
        "spec": {"selectors": [{"cel": {"expression": f'device.driver == "{wellknown.DRIVER}"'}}]},
    }


def _metadata(kube_node: str, ordinal: int, node_uid: str | None) -> Object:
    labels = {wellknown.MANAGED_BY: wellknown.FIELD_MANAGER}
    meta: Object = {"name": slice_name(kube_node, ordinal), "labels": labels}
    if node_uid:
        meta["ownerReferences"] = [{"apiVersion": "v1", "kind": "Node", "name": kube_node, "uid": node_uid}]
    return meta


def _device(device: PoolDevice, slurm_node: str) -> Object:
    attributes: Object = {"slurmNode": {"string": slurm_node}}
    if device.index is not None:
        attributes["index"] = {"int": device.index}
    if device.type:
        attributes["type"] = {"string": device.type}
    if device.socket is not None:
        attributes["socket"] = {"int": device.socket}
    return {"name": device.name, "attributes": attributes}
