"""Blocks (topology/block), and the larger ones that BlockSizes makes of neighbours.

The first size is that of a block; size ``2^k`` times as large joins ``2^k`` consecutive blocks, counted from the
first, in the order of the text. What is left over at the end belongs to no larger block; that is what
``scontrol show topology`` calls AggregatedBlock. A block may have fewer nodes than its size (17 of 18 trays is an
ordinary day) and is used as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bridge.topology.natural import listed
from bridge.topology.tiers import Tiers


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One block as it is written."""

    name: str
    nodes: tuple[str, ...] = ()


def tiers_of_blocks(blocks: Iterable[Block], sizes: Sequence[int], problems: Iterable[str] = ()) -> Tiers:
    """Return the tiers of the blocks; ``problems`` are those found on the way here."""
    found = list(problems)
    joined = _joined(blocks, found)
    joins = _joins(sizes, found)
    if sizes:
        found += [
            f"block {name} has {len(set(nodes))} nodes, more than its size {min(sizes)}"
            for name, nodes in joined.items()
            if len(set(nodes)) > min(sizes)
        ]
    names = list(joined)
    chains: dict[str, tuple[str, ...]] = {}
    owners: dict[str, str] = {}
    shared: dict[tuple[str, str], list[str]] = {}
    for index, (name, nodes) in enumerate(joined.items()):
        chain = (name, *(_larger(names, index, count) for count in joins))
        for node in nodes:
            owner = owners.setdefault(node, name)
            chains.setdefault(node, chain)
            if owner != name:
                shared.setdefault((owner, name), []).append(node)
    for (owner, other), both in shared.items():
        found.append(f"blocks {owner} and {other} both have {listed(both)}: {owner} is taken")
    return Tiers(
        names=("block", *(f"block-{count * min(sizes)}" for count in joins)), chains=chains, problems=tuple(found)
    )


def _joined(blocks: Iterable[Block], problems: list[str]) -> dict[str, tuple[str, ...]]:
    joined: dict[str, tuple[str, ...]] = {}
    for block in blocks:
        if block.name in joined:
            problems.append(f"block {block.name} is defined more than once: all that it has is taken together")
        joined[block.name] = joined.get(block.name, ()) + block.nodes
    bare = [name for name, nodes in joined.items() if not nodes]
    if bare:
        problems.append(f"blocks without nodes: {listed(bare)}")
    return joined


def _joins(sizes: Sequence[int], problems: list[str]) -> list[int]:
    """Return how many blocks make one, for each size above the first."""
    ordered = sorted(set(sizes))
    joins = []
    for size in ordered[1:]:
        count, rest = divmod(size, ordered[0])
        if rest or count & (count - 1):
            problems.append(f"block size {size} is no power of two times {ordered[0]} and is left out")
        else:
            joins.append(count)
    return joins


def _larger(names: Sequence[str], index: int, count: int) -> str:
    first = index - index % count
    return f"{names[first]}..{names[first + count - 1]}" if first + count <= len(names) else ""
