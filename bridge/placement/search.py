"""Where a gang runs: all or nothing, and optimal by ``weights`` for one gang of identical pods.

Slurm allocates the same shape on every node, so a gang of P pods takes P / width nodes for some width that divides it.
Every width is tried; the fewest domains win, then the fewest nodes, then the rest of the objective.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from bridge.placement.board import Board
from bridge.placement.explain import explain
from bridge.placement.request import NodeCapacity, Placed, Request, Unplaceable
from bridge.placement.solve import Solution
from bridge.placement.tree import FLEET
from bridge.placement.weights import weights_for
from bridge.placement.width import solver_for, widths


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
    return _placed(board, best[2].nodes, best[1])


def _placed(board: Board, chosen: Sequence[str], width: int) -> Placed:
    tree = board.tree
    return Placed(
        nodes=tuple(sorted(chosen, key=tree.order.__getitem__)),
        pods_per_node=width,
        domains=tree.count(chosen),
    )
