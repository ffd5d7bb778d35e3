"""What managed nodes show in Kubernetes: slices where no vendor driver publishes, and the taint."""

from __future__ import annotations

from collections.abc import Mapping

from bridge.accounting.devicemap import GPU, tracked_types
from bridge.lifecycle.actions import Action, PublishPool, TaintNode
from bridge.model.fleet import FleetSpec
from bridge.model.kube import KubeNode, Pool, PoolDevice
from bridge.model.slurm import SlurmNode
from bridge.model.snapshot import Snapshot
from bridge.wellknown import DRIVER


def inventory(snapshot: Snapshot) -> list[Action]:
    """Return the pools to publish and the nodes to taint. Nothing is ever unpublished: a device may be allocated."""
    if snapshot.fleet is None or snapshot.slurm is None:
        return []
    pools = {pool.node: pool for pool in snapshot.pools if pool.driver == DRIVER}
    actions: list[Action] = []
    for kube in sorted(snapshot.nodes, key=lambda node: node.name):
        slurm = snapshot.slurm.nodes.get(kube.slurm_node)
        if slurm is None:
            continue
        if not kube.tainted:
            actions.append(TaintNode(kube_node=kube.name))
        actions += _publish(snapshot.fleet, slurm, kube, pools.get(kube.name))
    return actions


def _publish(fleet: FleetSpec, slurm: SlurmNode, kube: KubeNode, pool: Pool | None) -> list[Action]:
    types = own_types(fleet, slurm)
    if not types or (pool is not None and _shows(pool, types, slurm)):
        return []
    devices = tuple(
        PoolDevice(name=f"{GPU}-{index}", index=index, type=type_, socket=slurm.sockets.get(index))
        for index, type_ in types.items()
    )
    generation = 1 if pool is None else pool.generation + 1
    return [PublishPool(kube_node=kube.name, slurm_node=slurm.name, generation=generation, devices=devices)]


def own_types(fleet: FleetSpec, slurm: SlurmNode) -> dict[int, str]:
    """Return the GRES type of every index of ``slurm`` whose devices are our own driver's, in order."""
    is_ours: dict[str, bool] = {}
    types = tracked_types(slurm)
    for type_ in set(types.values()):
        mapping = fleet.mapping_for(GPU, type_)
        is_ours[type_] = mapping is not None and mapping.driver == DRIVER
    return {index: types[index] for index in sorted(types) if is_ours[types[index]]}


def _shows(pool: Pool, types: Mapping[int, str], slurm: SlurmNode) -> bool:
    """Return whether the pool has exactly these devices."""
    shown = {device.index: (device.type, device.socket) for device in pool.devices}
    return shown == {index: (type_, slurm.sockets.get(index)) for index, type_ in types.items()}
