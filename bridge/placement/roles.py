"""Gangs of several roles: a heuristic over the exact search for each of them.

Domains are tried from the finest level to the whole fleet, the tightest first; in each, the roles are placed one after
the other, the largest first. The first domain that takes all of them is the answer: roles end up together in as small a
domain as one can find without trying every split.
"""

from __future__ import annotations

from collections.abc import Sequence

from bridge.placement.board import Board, Shape
from bridge.placement.request import NodeCapacity, Placed, Request, Unplaceable
from bridge.placement.search import place_on
from bridge.placement.tree import FLEET


def place_roles(board: Board, requests: Sequence[Request]) -> tuple[Placed, ...] | Unplaceable:
    """Return a placement for every role, in the order of ``requests``, or why the first that is left out has none.

    The roles' own constraints hold; nothing is taken from ``board``.
    """
    answer: tuple[Placed, ...] | Unplaceable | None = None
    for domain in _domains(board, requests):
        answer = _place_in(board, requests, domain)
        if not isinstance(answer, Unplaceable):
            return answer
    if answer is None:
        raise AssertionError("the whole fleet is always tried")
    return answer


def _domains(board: Board, requests: Sequence[Request]) -> list[int]:
    """Return the domains that may take all roles, finest and tightest first, and the fleet at last."""
    tree = board.tree
    largest = max(requests, key=_size)
    able = board.counts(Shape.of(largest, 1)).able
    found: list[int] = []
    for depth in range(len(tree.levels), 0, -1):
        rooms = [domain for domain in tree.at(depth) if tree.named[domain] and able[domain]]
        found += sorted(rooms, key=able.__getitem__)
    return [*found, FLEET]


def _place_in(board: Board, requests: Sequence[Request], domain: int) -> tuple[Placed, ...] | Unplaceable:
    placed: dict[int, Placed] = {}
    undo: list[NodeCapacity] = []
    failure: Unplaceable | None = None
    for number in sorted(range(len(requests)), key=lambda number: (-_size(requests[number]), number)):
        request = requests[number]
        answer = place_on(board, request, within=domain)
        if isinstance(answer, Unplaceable):
            failure = answer
            break
        placed[number] = answer
        undo += [_take(board, name, request, answer.pods_per_node) for name in answer.nodes]
    for node in reversed(undo):
        board.put(node)
    return failure or tuple(placed[number] for number in range(len(requests)))


def _take(board: Board, name: str, request: Request, pods: int) -> NodeCapacity:
    before = board.nodes[name]
    cpus, memory_mib = pods * request.cpus_per_pod, pods * request.memory_mib_per_pod
    board.take(name, request.gres.times(pods), cpus=cpus, memory_mib=memory_mib)
    return before


def _size(request: Request) -> int:
    return request.pods * request.gres.count
