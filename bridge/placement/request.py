"""What is asked of the allocator, and its two answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from bridge.model.gres import GresRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """``pods`` equal pods, equally many on every node (``pods_per_node``, or as many as pack best).

    ``required_level`` puts all of them into one domain of that level; ``preferred_level`` tries to. ``levels`` names
    the levels in the order of ``NodeCapacity.domains``, coarse to fine.
    """

    pods: int
    pods_per_node: int | None = None
    gres: GresRequest
    cpus_per_pod: int = 1
    memory_mib_per_pod: int = 0
    levels: tuple[str, ...] = ()
    required_level: str | None = None
    preferred_level: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCapacity:
    """What one node could give. ``gpus`` counts free devices by GRES type; ``domains`` go from coarse to fine."""

    name: str
    gpus: Mapping[str, int]
    cpus: int
    memory_mib: int
    domains: tuple[str, ...] = ()

    def pods(self, request: Request) -> int:
        """Return how many pods of ``request`` fit here."""
        wanted = request.gres.type
        free = self.gpus.get(wanted, 0) if wanted else max(self.gpus.values(), default=0)
        fits = free // request.gres.count
        if request.cpus_per_pod:
            fits = min(fits, self.cpus // request.cpus_per_pod)
        if request.memory_mib_per_pod:
            fits = min(fits, self.memory_mib // request.memory_mib_per_pod)
        return fits


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """The chosen ``nodes`` in rank order, ``pods_per_node`` pods on each; ``domains`` counts them by level."""

    nodes: tuple[str, ...]
    pods_per_node: int
    domains: Mapping[str, int] = field(default_factory=dict)

    def describe(self) -> str:
        """Return ``2 racks, 4 nodes``: the levels that say something, then the nodes."""
        parts = [_count(count, level) for level, count in self.domains.items()]
        return ", ".join([*parts, _count(len(self.nodes), "node")])


class Shortage(StrEnum):
    """What the gang lacks."""

    INSUFFICIENT_DEVICES = "InsufficientDevices"
    NO_DOMAIN_FITS = "NoDomainFits"
    UNEVEN_SPLIT = "UnevenSplit"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unplaceable:
    """Why the gang fits nowhere: ``message`` names the numbers."""

    shortage: Shortage
    message: str


def _count(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
