"""A fleet that exists in files alone: a topology, what is busy, and one shape of node."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from bridge.accounting.devicemap import DeviceMap
from bridge.accounting.ledger import build_ledger
from bridge.errors import SpecError
from bridge.lifecycle.fleetview import FleetNode, FleetView
from bridge.model.fleet import FleetSpec, Mode, QueueSpec
from bridge.model.gang import Gang
from bridge.model.gres import Gres
from bridge.model.kube import KubeNode
from bridge.model.slurm import SlurmNode, SlurmView
from bridge.model.topology import Topology
from bridge.placement.request import NodeCapacity
from operators.plan.answer import Question
from operators.plan.busyfile import Busy

FLEET = "offline"
_STATES = {"drained": {"IDLE", "DRAIN"}, "down": {"DOWN"}, "maint": {"IDLE", "MAINT"}}


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeShape:
    """What every node has."""

    gpus: int = 8
    gpu_type: str = ""
    cpus: int = 1 << 20
    memory_mib: int = 1 << 40


def offline_question(gang: Gang, topology: Topology, busy: Busy, shape: NodeShape) -> Question:
    """Return the question about ``gang`` on a fleet of one partition, which its queue may use without limits.

    A shape without a type of GPU has the type that the gang asks for.
    """
    spec = gang.spec
    wanted = "" if isinstance(spec, SpecError) else spec.role.gres.type
    type_ = shape.gpu_type or wanted
    gres = (Gres(name="gpu", type=type_, count=shape.gpus, indices=tuple(range(shape.gpus))),)
    nodes = [_node(name, domains, gres, busy, shape) for name, domains in sorted(topology.domains.items())]
    queue = QueueSpec(
        name="" if isinstance(spec, SpecError) else spec.queue,
        fleet=FLEET,
        namespaces=frozenset({gang.namespace}),
        partition=FLEET,
        account="",
        user="",
    )
    view = FleetView(
        fleet=FleetSpec(name=FLEET, mode=Mode.SHARE, levels=topology.levels),
        slurm=SlurmView(jobs={}, nodes={node.slurm.name: node.slurm for node in nodes}, taken_at=0.0),
        nodes={node.slurm.name: node for node in nodes},
        ledger=build_ledger((), ()),
        topology=topology,
        now=0,
        free=_capacities(nodes, type_, busy, shape),
        total=_capacities(nodes, type_, Busy(), shape),
    )
    return Question(gang=gang, view=view, queues={queue.name: queue}, problems=topology.problems)


def _node(name: str, domains: tuple[str, ...], gres: tuple[Gres, ...], busy: Busy, shape: NodeShape) -> FleetNode:
    return FleetNode(
        slurm=SlurmNode(
            name=name,
            states=frozenset(_STATES.get(busy.closed.get(name, ""), {"IDLE"})),
            cpus=shape.cpus,
            memory_mib=shape.memory_mib,
            gres=gres,
            partitions=frozenset({FLEET}),
        ),
        kube=KubeNode(name=name, slurm_node=name, ready=True),
        domains=domains,
        map=DeviceMap(slurm_node=name, kube_node=name, devices={}, types={}, classes={}),
    )


def _capacities(nodes: Iterable[FleetNode], type_: str, busy: Busy, shape: NodeShape) -> dict[str, NodeCapacity]:
    found: dict[str, NodeCapacity] = {}
    for node in nodes:
        name = node.slurm.name
        used = len(busy.indices.get(name, ()))
        found[name] = NodeCapacity(
            name=name,
            gpus={type_: shape.gpus - used},
            busy_gpus=used,
            cpus=shape.cpus,
            memory_mib=shape.memory_mib,
            domains=node.domains,
        )
    return found
