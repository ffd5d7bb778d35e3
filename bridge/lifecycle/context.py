"""What the gangs of one cycle share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from bridge.lifecycle.evidence import Evidence, Remains
from bridge.lifecycle.fleetview import FleetView
from bridge.model.fleet import QueueSpec
from bridge.model.hold import GangKey
from bridge.model.slurm import SlurmView


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """``slurm`` is None while slurmctld is silent, ``view`` also while there is no Fleet. ``now`` is our own clock."""

    now: int
    slurm: SlurmView | None
    view: FleetView | None
    queues: Mapping[str, QueueSpec]
    namespaces: Mapping[str, Mapping[str, str]]
    held_back: frozenset[str]
    evidence: Evidence = field(default_factory=Evidence)
    remains: Mapping[GangKey, Remains] = field(default_factory=dict)
