"""Gangs that cannot run: how long until the answer, and what it says."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field

from bench.fleets import GPU, Fleet
from bridge.model.gres import GresRequest
from bridge.placement.board import Board
from bridge.placement.request import NodeCapacity, Placed, Request, Segment, Unplaceable
from bridge.placement.search import place_on

COLD, WARM = 5, 20


@dataclass(slots=True, kw_only=True)
class No:
    """``cold`` begins with a list of nodes, ``warm`` with a board that just changed; seconds."""

    fleet: str
    what: str
    message: str
    cold: list[float]
    warm: list[float] = field(default_factory=list)


def run(fleet: Fleet, seed: int) -> list[No]:
    """Return the answers for a fleet of which half is drained."""
    out = fleet.drained(0.5, random.Random(f"{seed}/impossible"))
    nodes = fleet.capacities(out)
    found = []
    for what, request in _requests(fleet, out):
        board, answer, cold = _cold(fleet, nodes, request)
        if not isinstance(answer, Unplaceable):
            raise AssertionError(f"placed although impossible: {what}")  # noqa: TRY004 (not a type, an answer)
        no = No(fleet=fleet.title, what=what, message=answer.message, cold=cold)
        free = [name for name in fleet.homes if name not in out]
        for name in free[:WARM]:
            was = board.nodes[name]
            board.take(name, request.gres)
            began = time.perf_counter()
            place_on(board, request)
            no.warm.append(time.perf_counter() - began)
            board.put(was)
        found.append(no)
    return found


def _cold(fleet: Fleet, nodes: list[NodeCapacity], request: Request) -> tuple[Board, Placed | Unplaceable, list[float]]:
    board, seconds = Board(nodes, fleet.levels), []
    answer = place_on(board, request)
    for _ in range(COLD):
        began = time.perf_counter()
        board = Board(nodes, fleet.levels)
        answer = place_on(board, request)
        seconds.append(time.perf_counter() - began)
    return board, answer, seconds


def _requests(fleet: Fleet, out: frozenset[str]) -> list[tuple[str, Request]]:
    free = len(fleet.homes) - len(out)
    coarse, fine = fleet.levels[0], fleet.levels[-1]
    return [
        ("one node too many", _request(fleet, free + 1)),
        (f"no {coarse} is enough", _request(fleet, free // 2, required=coarse)),
        (f"no {fine} is enough", _request(fleet, 18, required=fine)),
        ("no segment fits", _request(fleet, 36, segment=18)),
    ]


def _request(fleet: Fleet, nodes: int, *, required: str | None = None, segment: int = 0) -> Request:
    return Request(
        pods=nodes,
        pods_per_node=1,
        gres=GresRequest(name="gpu", type=GPU, count=fleet.gpus),
        levels=fleet.levels,
        required_level=required,
        segment=Segment(size=segment, level=fleet.levels[-1]) if segment else None,
    )
