"""What is asked of the allocator, and its two answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from bridge.model.gang import Segment
from bridge.model.gres import GresRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """``pods`` equal pods, equally many on every node (``pods_per_node``, or as many as pack best).

    ``required_level`` puts all of them into one domain of that level; ``preferred_level`` tries to. ``levels`` names
    the levels in the order of ``NodeCapacity.domains``, coarse to fine. Nodes in ``exclude`` are not used,
    those in ``avoid`` only if the gang does not fit without them; all in ``keep`` are part of the answer.
    """

    pods: int
    pods_per_node: int | None = None
    gres: GresRequest
    cpus_per_pod: int = 1
    memory_mib_per_pod: int = 0
    levels: tuple[str, ...] = ()
    required_level: str | None = None
    preferred_level: str | None = None
    segment: Segment | None = None
    exclude: frozenset[str] = frozenset()
    avoid: frozenset[str] = frozenset()
    keep: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCapacity:
    """What one node could give. ``gpus`` counts free devices by GRES type, ``busy_gpus`` the others of all types;
    ``domains`` go from coarse to fine.
    """

    name: str
    gpus: Mapping[str, int]
    cpus: int
    memory_mib: int
    busy_gpus: int = 0
    closed: str = ""
    """Why nothing may start here (``drained``), for explanations; such a node has nothing free."""
    domains: tuple[str, ...] = ()

    @property
    def is_whole(self) -> bool:
        """True when nobody holds a device here."""
        return not self.busy_gpus

    def free_gpus(self, type_: str) -> int:
        """Return the free devices of a type, for ``""`` of the type that has most: a pod gets one type."""
        return self.gpus.get(type_, 0) if type_ else max(self.gpus.values(), default=0)

    def pods(self, request: Request) -> int:
        """Return how many pods of ``request`` fit here."""
        fits = self.free_gpus(request.gres.type) // request.gres.count
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
    NO_SEGMENT_FITS = "NoSegmentFits"
    UNEVEN_SPLIT = "UnevenSplit"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unplaceable:
    """Why the gang fits nowhere. ``has`` and ``needs`` count nodes, segments or devices, as ``message`` says, in
    ``domain`` of ``level``: the one that comes nearest.
    """

    shortage: Shortage
    message: str
    level: str = ""
    domain: str = ""
    has: int = 0
    needs: int = 0


def _count(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
