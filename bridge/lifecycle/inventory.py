"""What managed nodes show in Kubernetes: slices where no vendor driver publishes, and the taint."""

from __future__ import annotations

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
    devices = own_devices(fleet, slurm)
    if not devices or (pool is not None and pool.devices == devices):
        return []
    generation = 1 if pool is None else pool.generation + 1
    return [PublishPool(kube_node=kube.name, slurm_node=slurm.name, generation=generation, devices=devices)]


def own_devices(fleet: FleetSpec, slurm: SlurmNode) -> tuple[PoolDevice, ...]:
    """Return the devices of ``slurm`` whose GRES is mapped to our own driver, by index."""
    found = []
    for index, type_ in sorted(tracked_types(slurm).items()):
        mapping = fleet.mapping_for(GPU, type_)
        if mapping is not None and mapping.driver == DRIVER:
            found.append(PoolDevice(name=f"{GPU}-{index}", index=index, type=type_, socket=slurm.sockets.get(index)))
    return tuple(found)
