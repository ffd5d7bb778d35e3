"""Per node: tracked Slurm GRES index to DRA device and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from bridge.model.fleet import FleetSpec
from bridge.model.kube import Device, Pool
from bridge.model.slurm import SlurmNode

GPU = "gpu"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceMap:
    """Every tracked GPU index of one Slurm node with its device, its type and the device class that requests it."""

    slurm_node: str
    kube_node: str
    devices: Mapping[int, Device]
    types: Mapping[int, str]
    classes: Mapping[int, str]

    def resolve(self, indices: Iterable[int]) -> tuple[Device, ...] | None:
        """Return the devices of ``indices`` in order, or None when one of them is not mapped: never a guess."""
        found = [self.devices.get(index) for index in indices]
        return None if None in found else tuple(device for device in found if device is not None)


def tracked_types(node: SlurmNode) -> dict[int, str]:
    """Return the GRES type of every GPU index that slurmctld tracks on ``node``; count-only GPUs are left out."""
    types: dict[int, str] = {}
    for gres in node.gres:
        if gres.name == GPU and gres.is_tracked:
            types.update(dict.fromkeys(gres.indices or (), gres.type))
    return types


def build_device_map(
    node: SlurmNode, kube_node: str, fleet: FleetSpec, pools: Iterable[Pool]
) -> tuple[DeviceMap | None, str]:
    """Match ``node``'s indices with the pools of ``kube_node``; return the map, or None and the reason.

    An index without a device, or two devices that claim one index, makes the whole node unusable: a hole in the map
    would turn into a wrong device.
    """
    types = tracked_types(node)
    if not types:
        return None, "Slurm tracks no GPU index here (gres.conf without File=)"
    by_driver = {pool.driver: pool for pool in pools if pool.node == kube_node}
    devices: dict[int, Device] = {}
    classes: dict[int, str] = {}
    for index, type_ in sorted(types.items()):
        mapping = fleet.mapping_for(GPU, type_)
        if mapping is None:
            return None, f"Fleet maps no driver to gpu:{type_}"
        pool = by_driver.get(mapping.driver)
        if pool is None:
            return None, f"no complete pool of {mapping.driver} on this node"
        matching = [device for device in pool.by_index.get(index, ()) if device.type in {"", type_}]
        if len(matching) != 1:
            return None, f"{len(matching)} devices of pool {pool.name} say index {index} of type {type_ or 'any'}"
        devices[index] = Device(driver=pool.driver, pool=pool.name, device=matching[0].name)
        classes[index] = mapping.device_class
    return (
        DeviceMap(slurm_node=node.name, kube_node=kube_node, devices=devices, types=types, classes=classes),
        "",
    )
