"""The best placement by trying every set of nodes: slow, and too simple to be wrong. Shares no code with the search."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

from bridge.placement.request import NodeCapacity, Request


def best_objective(request: Request, nodes: Sequence[NodeCapacity]) -> tuple[int, ...] | None:
    """Return the least objective of any placement, or None when there is none."""
    return min(
        (
            objective(request, nodes, chosen, width)
            for width in range(1, request.pods + 1)
            for chosen in _choices(request, nodes, width)
        ),
        default=None,
    )


def is_valid(request: Request, nodes: Sequence[NodeCapacity], chosen: Sequence[NodeCapacity], width: int) -> bool:
    """Return whether ``width`` pods on each of ``chosen`` meet every constraint."""
    if request.pods != width * len(chosen) or request.pods_per_node not in {None, width}:
        return False
    if any(node.name in request.exclude or not _fits(node, request, width) for node in chosen):
        return False
    if not request.keep <= {node.name for node in chosen}:
        return False
    if request.required_level:
        depth = request.levels.index(request.required_level)
        places = {node.domains[depth] for node in chosen}
        if len(places) > 1 or not places.pop():
            return False
    return _segments_hold(request, chosen, width)


def objective(
    request: Request, nodes: Sequence[NodeCapacity], chosen: Sequence[NodeCapacity], width: int
) -> tuple[int, ...]:
    """Return the terms of the objective in their order, written down from its definition."""
    levels = list(range(len(request.levels)))
    order = sorted(levels, key=lambda level: (request.levels[level] != request.preferred_level, level))
    touched = [{_place(node, level) for node in chosen} for level in levels]
    whole = [
        sum(all(not node.busy_gpus for node in nodes if _place(node, level) == place) for place in touched[level])
        for level in levels
    ]
    finest = len(levels)
    homes = {_place(node, finest - 1) for node in chosen}
    able = [node for node in nodes if node.name not in request.exclude and _fits(node, request, width)]
    stranded = sum(_place(node, finest - 1) in homes for node in able) - len(chosen)
    waste = [_free(node, request) - width * request.gres.count for node in chosen]
    broken = sum(left > 0 and not node.busy_gpus for node, left in zip(chosen, waste, strict=True))
    counts = [len(touched[level]) for level in order]
    return (*counts, len(chosen), *whole, broken, stranded, sum(waste))


def _choices(request: Request, nodes: Sequence[NodeCapacity], width: int) -> Iterator[tuple[NodeCapacity, ...]]:
    if request.pods % width == 0:
        for chosen in combinations(nodes, request.pods // width):
            if is_valid(request, nodes, chosen, width):
                yield chosen


def _segments_hold(request: Request, chosen: Sequence[NodeCapacity], width: int) -> bool:
    if request.segment is None:
        return True
    size, depth = request.segment.size, request.levels.index(request.segment.level)
    if request.pods % size or (size % width and width % size):
        return False
    if width >= size:
        return True
    places = [_place(node, depth) for node in chosen]
    return all(places.count(place) % (size // width) == 0 for place in places)


def _place(node: NodeCapacity, level: int) -> str:
    """Return the node's domain; one without a name is no larger than the named one within it, or the node."""
    return next((domain for domain in node.domains[max(level, 0) :] if domain), node.name) if level >= 0 else ""


def _fits(node: NodeCapacity, request: Request, width: int) -> bool:
    enough = node.cpus >= width * request.cpus_per_pod and node.memory_mib >= width * request.memory_mib_per_pod
    return enough and _free(node, request) >= width * request.gres.count


def _free(node: NodeCapacity, request: Request) -> int:
    return node.gpus.get(request.gres.type, 0) if request.gres.type else max(node.gpus.values(), default=0)
