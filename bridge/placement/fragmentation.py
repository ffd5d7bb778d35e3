"""How much of what is free is still of use to big gangs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from bridge.placement.request import NodeCapacity
from bridge.placement.tree import domain_keys

SEGMENT_SIZES = (1, 2, 4, 8, 16)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fragmentation:
    """Of one moment. A node is whole when it is open and nobody holds a device of it; one out of service is
    in ``nodes`` alone. ``whole_domains`` counts, by level, the domains all of whose nodes are whole.
    """

    nodes: int
    whole_nodes: int
    partial_nodes: int
    whole_domains: Mapping[str, int]
    largest: Mapping[str, int]
    """By level: whole nodes of the domain that has most of them, the largest gang of whole nodes at that locality."""
    segments_lost: Mapping[int, int]
    """By segment size: segments that the whole nodes would make side by side, less those of single finest domains."""

    @property
    def partial_ratio(self) -> float:
        """Share of the nodes that have some devices free, but not all (GPU fragmentation ratio)."""
        return self.partial_nodes / self.nodes if self.nodes else 0.0

    @property
    def locality(self) -> float:
        """Share of the whole nodes that one gang can have in a single finest domain."""
        finest = list(self.largest.values())[-1] if self.largest else self.whole_nodes
        return finest / self.whole_nodes if self.whole_nodes else 0.0

    def describe(self) -> str:
        """Return ``410 of 576 nodes whole, 12 partly used; most in one: spine 120, rack 18``."""
        text = f"{self.whole_nodes} of {self.nodes} nodes whole, {self.partial_nodes} partly used"
        most = ", ".join(f"{level} {count}" for level, count in self.largest.items())
        return f"{text}; most in one: {most}" if most else text


def measure(
    nodes: Iterable[NodeCapacity], levels: Sequence[str], sizes: Sequence[int] = SEGMENT_SIZES
) -> Fragmentation:
    """Return the fragmentation of ``nodes``; one without a domain at a level is a domain of its own there."""
    everything = list(nodes)
    free = {node.name: sum(node.gpus.values()) for node in everything if not node.closed}
    whole = [node for node in everything if node.is_whole and free.get(node.name, 0) > 0]
    by_level = [_by_domain(whole, depth) for depth in range(len(levels))]
    sizes_of = [_by_domain(everything, depth) for depth in range(len(levels))]
    finest = list(by_level[-1].values()) if by_level else [len(whole)]
    return Fragmentation(
        nodes=len(everything),
        whole_nodes=len(whole),
        partial_nodes=sum(1 for node in everything if not node.is_whole and free.get(node.name, 0) > 0),
        whole_domains={
            level: sum(1 for domain, count in sizes_of[depth].items() if by_level[depth][domain] == count)
            for depth, level in enumerate(levels)
        },
        largest={level: max(by_level[depth].values(), default=0) for depth, level in enumerate(levels)},
        segments_lost={size: len(whole) // size - sum(count // size for count in finest) for size in sizes},
    )


def _by_domain(nodes: Iterable[NodeCapacity], depth: int) -> Counter[str]:
    return Counter(domain_keys(node.domains, node.name)[depth] for node in nodes)
