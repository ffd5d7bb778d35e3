"""Trees of switches (topology/tree), as they are found: not always trees.

Height says the tier, as Slurm's ``Level`` does: a leaf switch is tier 0, any other is one above its highest child;
where a branch is shorter than its neighbour, it skips tiers. Where the source contradicts itself the first in natural
order of the names is taken, so the order of the text never matters.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from bridge.topology.natural import listed, natural_key
from bridge.topology.tiers import Tiers


@dataclass(frozen=True, slots=True, kw_only=True)
class Switch:
    """One switch as it is written: a leaf has ``nodes``, any other ``children``."""

    name: str
    nodes: tuple[str, ...] = ()
    children: tuple[str, ...] = ()


def tiers_of_switches(switches: Iterable[Switch], problems: Iterable[str] = ()) -> Tiers:
    """Return the tiers of a tree; ``problems`` are those found on the way here."""
    found = list(problems)
    by_name = _joined(switches, found)
    homes = _homes(by_name, found)
    parents = _parents(by_name, found)
    heights = _heights(set(homes.values()), parents)
    bare = [name for name, switch in by_name.items() if name not in heights and not switch.nodes]
    if bare:
        found.append(f"switches without nodes are left out: {listed(bare)}")
    count = 1 + max(heights.values(), default=-1)
    chains = {leaf: _chain(leaf, parents, heights, count) for leaf in set(homes.values())}
    return Tiers(
        names=tuple("leaf" if tier == 0 else f"tier-{tier}" for tier in range(count)),
        chains={node: chains[leaf] for node, leaf in homes.items()},
        problems=tuple(found),
    )


def _joined(switches: Iterable[Switch], problems: list[str]) -> dict[str, Switch]:
    """Return the switches by name, in natural order."""
    by_name: dict[str, Switch] = {}
    for switch in switches:
        first = by_name.get(switch.name)
        if first is not None:
            problems.append(f"switch {switch.name} is defined more than once: all that it has is taken together")
            nodes, children = first.nodes + switch.nodes, first.children + switch.children
            by_name[switch.name] = Switch(name=switch.name, nodes=nodes, children=children)
        else:
            by_name[switch.name] = switch
    return {name: by_name[name] for name in sorted(by_name, key=natural_key)}


def _homes(by_name: Mapping[str, Switch], problems: list[str]) -> dict[str, str]:
    """Return the leaf switch of every node."""
    homes: dict[str, str] = {}
    shared: dict[tuple[str, str], list[str]] = {}
    for switch in by_name.values():
        for node in switch.nodes:
            home = homes.setdefault(node, switch.name)
            if home != switch.name:
                shared.setdefault((home, switch.name), []).append(node)
    for (home, other), nodes in shared.items():
        problems.append(f"switches {home} and {other} both have {listed(nodes)}: {home} is taken")
    return homes


def _parents(by_name: Mapping[str, Switch], problems: list[str]) -> dict[str, str]:
    """Return each switch's parent; what would not be a tree is left out and told."""
    parents: dict[str, str] = {}
    for switch in by_name.values():
        if switch.nodes and switch.children:
            problems.append(f"switch {switch.name} has nodes: its switches are ignored, as Slurm does")
            continue
        for child in dict.fromkeys(switch.children):
            problem = _misfit(switch.name, child, by_name, parents)
            if problem:
                problems.append(f"switch {switch.name}: {problem}")
            else:
                parents[child] = switch.name
    return parents


def _misfit(switch: str, child: str, by_name: Mapping[str, Switch], parents: Mapping[str, str]) -> str:
    if child not in by_name:
        return f"{child} below it is not defined"
    if child in parents:
        return f"{child} below it is below {parents[child]} already"
    above: str | None = switch
    while above is not None:
        if above == child:
            return f"{child} below it is above it too" if child != switch else "it is below itself"
        above = parents.get(above)
    return ""


def _heights(leaves: Iterable[str], parents: Mapping[str, str]) -> dict[str, int]:
    """Return the height of every switch that has nodes below it."""
    heights: dict[str, int] = {}
    for leaf in leaves:
        switch, height = leaf, 0
        while heights.get(switch, -1) < height:
            heights[switch] = height
            if switch not in parents:
                break
            switch, height = parents[switch], height + 1
    return heights


def _chain(leaf: str, parents: Mapping[str, str], heights: Mapping[str, int], count: int) -> tuple[str, ...]:
    chain = [""] * count
    switch: str | None = leaf
    while switch is not None:
        chain[heights[switch]] = switch
        switch = parents.get(switch)
    return tuple(chain)
