"""The frozen input of one cycle."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from bridge.model.fleet import FleetSpec, QueueSpec
from bridge.model.gang import Gang
from bridge.model.kube import ClaimView, KubeNode, MirrorView, PodView, Pool
from bridge.model.slurm import SlurmView
from bridge.model.topology import Topology


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Everything one cycle knows. ``slurm`` is None while slurmctld does not answer: unknown, never gone.

    ``held_back`` are uids of gangs for which nothing is submitted and no pin moved in this cycle.
    ``cluster`` is the uid of the namespace ``kube-system``: holds that name another one are other people's jobs.
    ``topology`` is that of the fleet's nodes, by Slurm name; None when it is to be read from their labels alone.
    ``services`` are (namespace, gang uid) of the headless services of gangs.
    """

    now: int
    cluster: str = ""
    fleet: FleetSpec | None = None
    queues: Mapping[str, QueueSpec] = field(default_factory=dict)
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    gangs: tuple[Gang, ...] = ()
    mirrors: tuple[MirrorView, ...] = ()
    pods: tuple[PodView, ...] = ()
    claims: tuple[ClaimView, ...] = ()
    services: frozenset[tuple[str, str]] = frozenset()
    nodes: tuple[KubeNode, ...] = ()
    pools: tuple[Pool, ...] = ()
    topology: Topology | None = None
    slurm: SlurmView | None = None
    held_back: frozenset[str] = frozenset()
