"""The one rule by which a source without level names meets the levels of a Fleet.

A source has *tiers*, counted from the fine end: 0 is the leaf switch or block, then what is above it. Tiers meet levels
from the fine end too, because that is where they mean the same thing everywhere: the finest level is tier 0.

* More tiers than levels: the coarse ones are dropped. That is a problem worth telling unless everything is in one
  domain there (a core switch over all).
* Fewer: whatever is on top stands for itself at the coarser levels (``bridge.topology.paths``). Two nodes are together
  there only if they are together on top; no domain is made up for switches that nothing joins.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from bridge.model.topology import Topology
from bridge.topology.natural import listed, natural_key
from bridge.topology.paths import paths_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiers:
    """What a source says: for each node the names of its domains, **fine to coarse**, one per tier, ``""`` where a tier
    is skipped; ``names`` are the tiers' own names for who has no Fleet.
    """

    names: tuple[str, ...] = ()
    chains: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    problems: tuple[str, ...] = ()


def align(
    tiers: Tiers,
    levels: Sequence[str] | None,
    known: Collection[str] | None,
    *,
    name: str = "",
    is_default: bool = True,
) -> Topology:
    """Return the topology at ``levels`` (the source's own tiers when None) for the ``known`` nodes (those it names when
    None).
    """
    chosen = tuple(reversed(tiers.names)) if levels is None else tuple(levels)
    problems = [*tiers.problems, *_dropped(tiers, len(chosen)), *_unknown(tiers, known)]
    domains = {
        node: _paths(tiers.chains.get(node, ()), len(chosen)) for node in (tiers.chains if known is None else known)
    }
    ordered = tuple(sorted(set(problems), key=natural_key))
    return Topology(name=name, levels=chosen, domains=domains, problems=ordered, is_default=is_default)


def _paths(chain: Sequence[str], depth: int) -> tuple[str, ...]:
    kept = [*chain[:depth], *[""] * (depth - len(chain))]
    return paths_of(kept[::-1])


def _dropped(tiers: Tiers, depth: int) -> list[str]:
    if not depth:
        return []
    problems = []
    for tier in range(depth, len(tiers.names)):
        domains = {chain[tier] for chain in tiers.chains.values()}
        if len(domains) > 1:
            problems.append(f"{tiers.names[tier]} is above the fleet's levels and is dropped: {listed(domains - {''})}")
    return problems


def _unknown(tiers: Tiers, known: Collection[str] | None) -> list[str]:
    unknown = set() if known is None else set(tiers.chains) - set(known)
    return [f"unknown nodes are left out: {listed(unknown)}"] if unknown else []
