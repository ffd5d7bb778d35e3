"""Why a gang fits nowhere: which constraint, where it comes nearest, what it lacks there."""

from __future__ import annotations

from bridge.placement.board import Board, Shape
from bridge.placement.request import NodeCapacity, Request, Shortage, Unplaceable
from bridge.placement.tree import FLEET
from bridge.placement.weights import weights_for
from bridge.placement.width import solver_for, widths


def explain(board: Board, request: Request) -> Unplaceable:
    """Return why ``request`` has no placement on ``board``; the numbers are of the width that comes nearest."""
    possible = widths(request, board.widest(request))
    if not possible:
        return _no_width(board, request)
    width = max(possible, key=lambda width: (board.counts(Shape.of(request, width)).able[FLEET] * width, width))
    if board.counts(Shape.of(request, width)).able[FLEET] * width < request.pods:
        return _too_few_nodes(board, request, width)
    return _no_domain(board, request, width)


def _no_width(board: Board, request: Request) -> Unplaceable:
    most, count = board.largest(request.gres.type), request.gres.count
    if most < count:
        message = f"{_who(request)} {count} {_kind(request)} on one node; the largest node has {most}"
        return Unplaceable(shortage=Shortage.INSUFFICIENT_DEVICES, message=message, has=most, needs=count)
    wishes = [f"{request.pods_per_node} on each node"] if request.pods_per_node else []
    wishes += [f"in segments of {request.segment.size}"] if request.segment else []
    message = f"{_pods(request)}, {', '.join(wishes)}: cannot be divided so over nodes of at most {most // count} pods"
    return Unplaceable(shortage=Shortage.UNEVEN_SPLIT, message=message, has=most // count, needs=request.pods)


def _too_few_nodes(board: Board, request: Request, width: int) -> Unplaceable:
    need, able = request.pods // width, board.counts(Shape.of(request, width)).able
    message = (
        f"{_need(request, width)}; {able[FLEET]} of {len(board.nodes)} have them{_others(board, request, width, FLEET)}"
    )
    room = sum(node.pods(request) for name, node in board.nodes.items() if name not in request.exclude)
    shortage = Shortage.INSUFFICIENT_DEVICES
    if room >= request.pods:
        shortage = Shortage.UNEVEN_SPLIT
        message += f"; there is room for {room} pods, but not for equally many on each node"
    return Unplaceable(shortage=shortage, message=message, has=able[FLEET], needs=need)


def _no_domain(board: Board, request: Request, width: int) -> Unplaceable:
    solver, tree = solver_for(board, request, width, weights_for(request, board)), board.tree
    level = request.required_level or ""
    tops = solver.tops()
    if not tops:
        message = f"no node has a domain of level {level}"
        return Unplaceable(shortage=Shortage.NO_DOMAIN_FITS, message=message, level=level)
    best = max(tops, key=solver.units.__getitem__)
    depth = tree.depths[best]
    need, has = solver.task.units(depth), solver.units[best]
    where = f" in one {level}; {tree.paths[best]} has most: {has}" if level else f"; the fleet has {has}"
    others = _others(board, request, width, best)
    if request.segment and depth <= solver.task.segment_depth:
        parts = f"{need} segment{_s(need)} of {solver.task.unit} nodes in one {request.segment.level}"
        message = f"{_who(request)} {parts} each{where}{others}"
        shortage, level = Shortage.NO_SEGMENT_FITS, request.segment.level
    else:
        message = f"{_need(request, width)}{where}{others}"
        shortage = Shortage.NO_DOMAIN_FITS
    return Unplaceable(shortage=shortage, message=message, level=level, domain=tree.paths[best], has=has, needs=need)


def _others(board: Board, request: Request, width: int, domain: int) -> str:
    """Return what the nodes of a domain lack that are not able: `` (3 in use, 2 drained, 1 short of CPUs)``."""
    shape = Shape.of(request, width)
    lacking: dict[str, int] = {}
    for name, node in board.nodes.items():
        if (domain == FLEET or _is_in(board, name, domain)) and not board.fits(name, shape):
            why = node.closed or _lack(node, shape)
            lacking[why] = lacking.get(why, 0) + 1
    parts = [f"{count} {why}" for why, count in sorted(lacking.items(), key=lambda item: (-item[1], item[0]))]
    return f" ({', '.join(parts)})" if parts else ""


def _lack(node: NodeCapacity, shape: Shape) -> str:
    """Return the first resource that an open node has too little of for the shape."""
    if node.name in shape.without:
        return "excluded"
    if node.free_gpus(shape.gres.type) < shape.gres.count * shape.width:
        return "in use" if node.busy_gpus else "without enough devices"
    return "short of CPUs" if node.cpus < shape.cpus * shape.width else "short of memory"


def _is_in(board: Board, name: str, domain: int) -> bool:
    tree = board.tree
    return tree.ancestor(tree.home[name], tree.depths[domain]) == domain


def _need(request: Request, width: int) -> str:
    nodes, devices = request.pods // width, width * request.gres.count
    return f"{_who(request)} {nodes} node{_s(nodes)} with {devices} free {_kind(request)} each"


def _who(request: Request) -> str:
    return f"{_pods(request)} need{'s' if request.pods == 1 else ''}"


def _pods(request: Request) -> str:
    return f"{request.pods} pod{_s(request.pods)} of {request.gres}"


def _kind(request: Request) -> str:
    return f"{request.gres.name}:{request.gres.type}" if request.gres.type else request.gres.name


def _s(count: int) -> str:
    return "" if count == 1 else "s"
