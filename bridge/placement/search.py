"""Where a gang runs: all or nothing, and optimal by ``weights`` for one gang of identical pods.

Slurm allocates the same shape on every node, so a gang of P pods takes P / width nodes for some width that divides it.
Every width is tried; the fewest domains win, then the fewest nodes, then the rest of the objective.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from bridge.placement.board import Board, Shape
from bridge.placement.explain import explain
from bridge.placement.request import NodeCapacity, Placed, Request, Unplaceable
from bridge.placement.solve import Solution, Solver, Task
from bridge.placement.tree import FLEET
from bridge.placement.weights import Weights, weights_for
from bridge.topology.labels import natural_key


def place(request: Request, nodes: Iterable[NodeCapacity]) -> Placed | Unplaceable:
    """Return the nodes for ``request`` among ``nodes``, or why there are none."""
    return place_on(Board(nodes, request.levels), request)


def place_on(board: Board, request: Request, *, within: int = FLEET) -> Placed | Unplaceable:
    """Return the nodes for ``request`` on ``board`` (in its domain ``within``), or why there are none; take nothing."""
    if request.avoid:
        without = replace(request, exclude=request.exclude | request.avoid, avoid=frozenset())
        answer = place_on(board, without, within=within)
        if isinstance(answer, Placed):
            return answer
        request = replace(request, avoid=frozenset())
    weights = weights_for(request, board)
    best: tuple[tuple[int, int, int], int, Solution] | None = None
    for width in widths(request, board.widest(request)):
        solution = solver_for(board, request, width, weights, within=within).solve()
        if solution is None:
            continue
        touched, rest = divmod(solution.cost, weights.rest)
        rank = (touched, len(solution.nodes), rest)
        if best is None or rank < best[0]:
            best = (rank, width, solution)
    if best is None:
        return explain(board, request)
    return _placed(board, request, best[2].nodes, best[1])


def widths(request: Request, most: int) -> list[int]:
    """Return the pods per node that divide the gang evenly and keep its segments whole, the most first."""
    wanted = [request.pods_per_node] if request.pods_per_node else range(min(most, request.pods), 0, -1)
    return [
        width for width in wanted if width <= most and request.pods % width == 0 and _keeps_segments(request, width)
    ]


def _keeps_segments(request: Request, width: int) -> bool:
    if request.segment is None:
        return True
    size = request.segment.size
    return request.pods % size == 0 and (size % width == 0 or width % size == 0)


def solver_for(board: Board, request: Request, width: int, weights: Weights, *, within: int = FLEET) -> Solver:
    """Return the solver of ``request`` with ``width`` pods on a node."""
    depth = {level: number for number, level in enumerate(board.tree.levels, 1)}
    segment = request.segment
    task = Task(
        need=request.pods // width,
        unit=max(1, segment.size // width) if segment else 1,
        segment_depth=depth[segment.level] if segment and segment.size > width else 0,
        required_depth=depth[request.required_level] if request.required_level else 0,
        preferred_depth=depth[request.preferred_level] if request.preferred_level else 0,
        keep=request.keep,
        within=within,
    )
    return Solver(board, board.counts(Shape.of(request, width)), weights, task)


def _placed(board: Board, request: Request, chosen: Sequence[str], width: int) -> Placed:
    home, order = board.tree.home, {name: number for number, name in enumerate(chosen)}
    domains = {name: board.nodes[name].domains for name in order}
    # Domains are numbered depth first: the number of a node's finest domain comes before its name.
    ordered = sorted(order, key=lambda name: (home[name], natural_key(name)))
    return Placed(
        nodes=tuple(ordered),
        pods_per_node=width,
        domains=count_domains(request.levels, [domains[name] for name in ordered]),
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
