"""The fleet of one cycle, joined once: Slurm nodes, Kubernetes nodes, device maps, ledger, free capacity."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from bridge.accounting.devicemap import DeviceMap, build_device_map, tracked_types
from bridge.accounting.ledger import Ledger, build_ledger, gpu_indices
from bridge.lifecycle.guard import is_foreign
from bridge.model.fleet import FleetSpec
from bridge.model.kube import Device, KubeNode, Pool
from bridge.model.slurm import SlurmJob, SlurmNode, SlurmView
from bridge.model.snapshot import Snapshot
from bridge.model.topology import Topology
from bridge.placement.request import NodeCapacity
from bridge.queue.timeline import Timeline
from bridge.topology.fleet import fleet_topology

_COMPLETING = "COMPLETING"


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetNode:
    """One managed node in all its name spaces. ``map`` is None, and ``problem`` says why, where devices are unsure."""

    slurm: SlurmNode
    kube: KubeNode
    domains: tuple[str, ...]
    map: DeviceMap | None
    problem: str = ""

    @property
    def is_usable(self) -> bool:
        """True when new gangs may be placed here (a node that only waits for an epilog included)."""
        return not self.closed

    @property
    def closed(self) -> str:
        """Why no new gang may be placed here, in one word for people; empty for a usable node."""
        states = self.slurm.states - {_COMPLETING}
        if not SlurmNode(name=self.slurm.name, states=states).is_schedulable:
            return next((word for state, word in _CLOSED.items() if state in states), "closed in Slurm")
        if self.map is None:
            return "without device map"
        if is_foreign(self.slurm):
            return "with somebody else's text in Extra"
        if self.kube.fenced:
            return "fenced"
        if self.kube.unschedulable:
            return "cordoned"
        return "" if self.kube.ready else "not ready in Kubernetes"

    @property
    def detail(self) -> str:
        """What is known beside ``closed``: the admin's words in Slurm, or what is wrong with the device map."""
        return self.slurm.reason or self.problem


_CLOSED = {
    "DOWN": "down",
    "NOT_RESPONDING": "not responding",
    "DRAIN": "drained",
    "DRAINED": "drained",
    "DRAINING": "drained",
    "MAINT": "in maintenance",
    "MAINTENANCE": "in maintenance",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetView:
    """``nodes`` by Slurm name, the ledger of the moment, and the jobs that slurmctld showed.

    ``unmatched`` are the Slurm names on labels of Kubernetes nodes that slurmctld does not know.
    """

    fleet: FleetSpec
    slurm: SlurmView
    nodes: Mapping[str, FleetNode]
    ledger: Ledger
    topology: Topology
    now: int
    cluster: str = ""
    free: Mapping[str, NodeCapacity] = field(default_factory=dict)
    total: Mapping[str, NodeCapacity] = field(default_factory=dict)
    unmatched: tuple[str, ...] = ()

    def devices_of(self, job: SlurmJob, name: str) -> frozenset[Device] | None:
        """Return the devices that ``job`` holds on a Slurm node, or None while they cannot be read."""
        node, indices = self.nodes.get(name), gpu_indices(job.gres.get(name, ()))
        found = node.map.resolve(indices) if indices and node is not None and node.map is not None else None
        return None if found is None else frozenset(found)

    def timeline(self, partition: str) -> Timeline:
        """Return the timeline of ``partition``; closed nodes of it give nothing and are there to be explained."""
        names = [name for name, node in self.nodes.items() if partition in node.slurm.partitions]
        closed = {name: node.closed for name in names if (node := self.nodes[name]).closed}
        shut = {name: _shut(self.total[name], why) for name, why in closed.items()}
        return Timeline(
            now=self.now,
            levels=self.fleet.levels,
            free={name: shut.get(name, self.free[name]) for name in names},
            total={name: shut.get(name, self.total[name]) for name in names},
            completing=frozenset(name for name in names if _COMPLETING in self.nodes[name].slurm.states),
            ends=tuple(job for _, job in sorted(self.slurm.jobs.items()) if job.holds_devices and job.gres),
        )


def join(snapshot: Snapshot) -> FleetView | None:
    """Join the snapshot; None while the fleet or slurmctld is unknown."""
    if snapshot.fleet is None or snapshot.slurm is None:
        return None
    topology = snapshot.topology or fleet_topology(snapshot.fleet, snapshot.nodes, "")
    nodes: dict[str, FleetNode] = {}
    pools: dict[str, list[Pool]] = {}
    for pool in snapshot.pools:
        pools.setdefault(pool.node, []).append(pool)
    for kube in sorted(snapshot.nodes, key=lambda node: node.name):
        slurm = snapshot.slurm.nodes.get(kube.slurm_node)
        if slurm is None or slurm.name in nodes:
            continue
        nodes[slurm.name] = _join_node(snapshot.fleet, topology, slurm, kube, pools.get(kube.name, []))
    ledger = build_ledger(snapshot.slurm.jobs.values(), snapshot.claims)
    used: dict[str, set[int]] = {}
    for name, index in ledger.slurm:
        used.setdefault(name, set()).add(index)
    return FleetView(
        fleet=snapshot.fleet,
        slurm=snapshot.slurm,
        nodes=nodes,
        ledger=ledger,
        topology=topology,
        now=snapshot.now,
        cluster=snapshot.cluster,
        free={name: _capacity(node, used.get(name, set())) for name, node in nodes.items()},
        total={name: _capacity(node, None) for name, node in nodes.items()},
        unmatched=tuple(
            sorted({node.slurm_node for node in snapshot.nodes if node.slurm_node not in snapshot.slurm.nodes})
        ),
    )


def _join_node(
    fleet: FleetSpec, topology: Topology, slurm: SlurmNode, kube: KubeNode, pools: Iterable[Pool]
) -> FleetNode:
    map_, problem = build_device_map(slurm, kube.name, fleet, pools)
    domains = topology.domains.get(slurm.name, ("",) * len(fleet.levels))
    return FleetNode(slurm=slurm, kube=kube, domains=domains, map=map_, problem=problem)


def _shut(node: NodeCapacity, why: str) -> NodeCapacity:
    """Return a closed node: it has devices, and nobody gets them."""
    return replace(node, gpus=dict.fromkeys(node.gpus, 0), busy_gpus=sum(node.gpus.values()), closed=why)


def _capacity(node: FleetNode, used: set[int] | None) -> NodeCapacity:
    """Return what is free, or with ``used`` None what there is in all."""
    types = tracked_types(node.slurm)
    gpus = dict.fromkeys(types.values(), 0)
    for index, type_ in types.items():
        if used is None or index not in used:
            gpus[type_] += 1
    slurm = node.slurm
    busy_cpus, busy_memory = (0, 0) if used is None else (slurm.cpus_allocated, slurm.memory_allocated_mib)
    return NodeCapacity(
        name=slurm.name,
        gpus=gpus,
        busy_gpus=len(used or ()),
        cpus=slurm.cpus - busy_cpus,
        memory_mib=slurm.memory_mib - busy_memory,
        domains=node.domains,
    )
