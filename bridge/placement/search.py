"""All-or-nothing placement over the levels of the fleet.

The order of wishes: the required level holds; then the fewest domains at the finest level that can hold the gang, in a
domain that it fills best; then the fewest nodes; names break ties. Same input, same answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from bridge.placement.request import NodeCapacity, Placed, Request, Shortage, Unplaceable
from bridge.topology.labels import natural_key

_Fit = tuple[NodeCapacity, int]


def place(request: Request, nodes: Iterable[NodeCapacity]) -> Placed | Unplaceable:
    """Return the nodes for ``request`` among ``nodes``, or why there are none. O(levels x nodes log nodes)."""
    fits = [(node, pods) for node in nodes if (pods := node.pods(request)) > 0]
    widths = _widths(request, max((pods for _, pods in fits), default=0))
    for first, group in _groups(request, fits):
        for width in widths:
            chosen = _choose(group, request.pods // width, width, first)
            if chosen is not None:
                return _placed(request, chosen, width)
    return _explain(request, fits, widths)


def _widths(request: Request, most: int) -> list[int]:
    """Return the pods per node to try, the fewest nodes first; they must divide the gang evenly."""
    if request.pods_per_node is not None:
        fixed = request.pods_per_node
        return [fixed] if fixed <= most and request.pods % fixed == 0 else []
    return [width for width in range(min(most, request.pods), 0, -1) if request.pods % width == 0]


def _groups(request: Request, fits: Sequence[_Fit]) -> Iterable[tuple[int, Sequence[_Fit]]]:
    """Yield (depth, nodes of one domain) from the finest level to the whole fleet.

    Depth is how many levels the domain fixes; domains of one level come in the order best filled first.
    """
    names = request.levels
    coarsest = names.index(request.required_level) if request.required_level else -1
    if coarsest >= 0:
        # A rack may have a name and its spine none: nothing then says that two such racks share a spine.
        fits = [fit for fit in fits if fit[0].domains[coarsest]]
    finest = names.index(request.preferred_level) if request.preferred_level else len(names) - 1
    for level in range(max(finest, coarsest), max(coarsest, 0) - 1, -1):
        yield from ((level + 1, group) for group in _domains(fits, level))
    if coarsest < 0:
        yield 0, fits


def _domains(fits: Sequence[_Fit], level: int) -> list[list[_Fit]]:
    by_domain: dict[str, list[_Fit]] = {}
    for fit in fits:
        domain = fit[0].domains[level]
        if domain:
            by_domain.setdefault(domain, []).append(fit)
    return [by_domain[name] for name in sorted(by_domain, key=lambda name: (_room(by_domain[name]), natural_key(name)))]


def _room(group: Sequence[_Fit]) -> int:
    return sum(pods for _, pods in group)


def _choose(group: Sequence[_Fit], count: int, width: int, depth: int) -> list[NodeCapacity] | None:
    """Return ``count`` nodes that fit ``width`` pods each: few finer domains, fullest nodes first; None if too few."""
    able = [fit for fit in group if fit[1] >= width]
    if len(able) < count:
        return None
    if not able[0][0].domains[depth:]:
        able.sort(key=lambda fit: (fit[1], natural_key(fit[0].name)))
        return [node for node, _ in able[:count]]
    chosen: list[NodeCapacity] = []
    parts = _domains(able, depth) or [able]
    while len(chosen) < count:
        missing = count - len(chosen)
        enough = [part for part in parts if len(part) >= missing]
        part = min(enough, key=len) if enough else max(parts, key=len)
        parts = [other for other in parts if other is not part]
        chosen += _choose(part, min(missing, len(part)), width, depth + 1) or []
        if not parts and len(chosen) < count:
            taken = {node.name for node in chosen}
            rest = sorted((fit for fit in able if fit[0].name not in taken), key=lambda fit: natural_key(fit[0].name))
            chosen += [node for node, _ in rest[: count - len(chosen)]]
    return chosen


def _placed(request: Request, chosen: Sequence[NodeCapacity], width: int) -> Placed:
    ordered = sorted(chosen, key=lambda node: rank_key(node.domains, node.name))
    return Placed(
        nodes=tuple(node.name for node in ordered),
        pods_per_node=width,
        domains=count_domains(request.levels, [node.domains for node in ordered]),
    )


def rank_key(domains: Sequence[str], name: str) -> tuple[object, ...]:
    """Return the sort key of a node in rank order: depth first through the levels, then by name."""
    return (*(natural_key(domain) for domain in domains), natural_key(name))


def count_domains(levels: Sequence[str], domains: Sequence[Sequence[str]]) -> Mapping[str, int]:
    """Return how many domains of each level the nodes touch; a node outside the topology counts as one of its own."""
    counts: dict[str, int] = {}
    for depth, level in enumerate(levels):
        named = {node[depth] for node in domains if node[depth]}
        counts[level] = len(named) + sum(1 for node in domains if not node[depth])
    return counts


def _explain(request: Request, fits: Sequence[_Fit], widths: Sequence[int]) -> Unplaceable:
    room = _room(fits)
    wanted = f"{request.pods} pods of {request.gres}"
    if room < request.pods:
        message = f"{wanted} need {request.pods} places, {room} are free"
        return Unplaceable(shortage=Shortage.INSUFFICIENT_DEVICES, message=message)
    if request.required_level:
        level = request.levels.index(request.required_level)
        best = max((_room(group) for group in _domains(fits, level)), default=0)
        message = f"{wanted} must share one {request.required_level}; the best one has room for {best}"
        return Unplaceable(shortage=Shortage.NO_DOMAIN_FITS, message=message)
    per_node = f"{request.pods_per_node} on each node" if request.pods_per_node else "equally many on each node"
    message = f"{wanted}, {per_node}: {room} places are free, but not so divided (tried {widths or 'none'})"
    return Unplaceable(shortage=Shortage.UNEVEN_SPLIT, message=message)
