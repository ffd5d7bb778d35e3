"""Why a gang fits nowhere: which constraint, where it comes nearest, what it lacks there, what would help."""

from __future__ import annotations

from bridge.placement.board import Board, Shape
from bridge.placement.request import Request, Shortage, Unplaceable
from bridge.placement.tree import FLEET


def explain(board: Board, request: Request) -> Unplaceable:
    """Return why ``request`` has no placement on ``board``; the numbers are of the width that comes nearest."""
    from bridge.placement.search import widths  # noqa: PLC0415 - the search explains its own failures

    possible = widths(request, board.widest(request))
    if not possible:
        return _no_width(board, request)
    width = max(possible, key=lambda width: (board.counts(Shape.of(request, width)).able[FLEET] * width, width))
    need = request.pods // width
    able = board.counts(Shape.of(request, width)).able
    each = f"{width * request.gres.count} free {_kind(request)}"
    if able[FLEET] < need:
        where = _inventory(board, able, FLEET)
        return Unplaceable(
            shortage=Shortage.INSUFFICIENT_DEVICES,
            message=f"needs {need} nodes with {each} each, {able[FLEET]} of {len(board.nodes)} have them{where}",
            has=able[FLEET],
            needs=need,
        )
    return _no_domain(board, request, width, each)


def _no_width(board: Board, request: Request) -> Unplaceable:
    most, count = board.largest(request.gres.type), request.gres.count
    if most < count:
        message = f"a pod needs {count} {_kind(request)} on one node, the largest node has {most}"
        return Unplaceable(shortage=Shortage.INSUFFICIENT_DEVICES, message=message, has=most, needs=count)
    parts = [f"{request.pods} pods"]
    if request.pods_per_node:
        parts.append(f"{request.pods_per_node} on each node")
    if request.segment:
        parts.append(f"segments of {request.segment.size}")
    message = f"{', '.join(parts)}: cannot be divided evenly over nodes of at most {most // count} pods"
    return Unplaceable(shortage=Shortage.UNEVEN_SPLIT, message=message, has=most // count, needs=request.pods)


def _no_domain(board: Board, request: Request, width: int, each: str) -> Unplaceable:
    from bridge.placement.search import solver_for  # noqa: PLC0415 - as above
    from bridge.placement.weights import weights_for  # noqa: PLC0415

    solver = solver_for(board, request, width, weights_for(request, board))
    tree = board.tree
    tops = solver.tops()
    if not tops:
        message = f"no node has a domain of level {request.required_level}"
        return Unplaceable(shortage=Shortage.NO_DOMAIN_FITS, message=message, level=request.required_level or "")
    best = max(tops, key=solver.units.__getitem__)
    depth = tree.depths[best]
    need, has = solver.task.units(depth), solver.units[best]
    if request.segment and depth <= solver.task.segment_depth:
        unit = f"segments of {solver.task.unit} nodes in one {request.segment.level}"
        shortage, level = Shortage.NO_SEGMENT_FITS, request.segment.level
    else:
        unit, shortage, level = "nodes", Shortage.NO_DOMAIN_FITS, request.required_level or ""
    able = board.counts(Shape.of(request, width)).able
    within = f" in one {request.required_level}; {tree.paths[best]} has most," if request.required_level else ";"
    where = _inventory(board, able, best)
    message = f"needs {need} {unit} with {each} each{within} {has}{where}"
    return Unplaceable(shortage=shortage, message=message, level=level, domain=tree.paths[best], has=has, needs=need)


def _inventory(board: Board, able: list[int], domain: int) -> str:
    """Return what the other nodes of a domain are: ``: 3 in use, 2 drained``."""
    nodes = [node for node in board.nodes.values() if domain == FLEET or _is_in(board, node.name, domain)]
    closed: dict[str, int] = {}
    for node in nodes:
        if node.closed:
            closed[node.closed] = closed.get(node.closed, 0) + 1
    busy = len(nodes) - able[domain] - sum(closed.values())
    parts = [f"{busy} in use"] if busy else []
    parts += [f"{count} {why}" for why, count in sorted(closed.items())]
    return f" (the others: {', '.join(parts)})" if parts else ""


def _is_in(board: Board, name: str, domain: int) -> bool:
    tree = board.tree
    return tree.ancestor(tree.home[name], tree.depths[domain]) == domain


def _kind(request: Request) -> str:
    return f"{request.gres.name}:{request.gres.type}" if request.gres.type else request.gres.name
