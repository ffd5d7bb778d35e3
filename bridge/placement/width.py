"""Pods per node: which numbers are possible, and the task that each of them makes of a request."""

from __future__ import annotations

from bridge.placement.board import Board, Shape
from bridge.placement.request import Request
from bridge.placement.solve import Solver, Task
from bridge.placement.tree import FLEET
from bridge.placement.weights import Weights


def widths(request: Request, most: int) -> list[int]:
    """Return the pods per node, up to ``most``, that divide the gang evenly and keep its segments whole; most first."""
    wanted = [request.pods_per_node] if request.pods_per_node else range(min(most, request.pods), 0, -1)
    even = [width for width in wanted if width <= most and request.pods % width == 0]
    return [width for width in even if _keeps_segments(request, width)]


def solver_for(board: Board, request: Request, width: int, weights: Weights, *, within: int = FLEET) -> Solver:
    """Return the solver of ``request`` with ``width`` pods on a node, in the domain ``within``."""
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


def _keeps_segments(request: Request, width: int) -> bool:
    if request.segment is None:
        return True
    size = request.segment.size
    return request.pods % size == 0 and (size % width == 0 or width % size == 0)
