"""The search against an oracle that tries every set of nodes."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

import pytest

from bridge.model.gang import Segment
from bridge.model.gres import GresRequest
from bridge.placement.board import Board
from bridge.placement.request import NodeCapacity, Placed, Request
from bridge.placement.search import place, place_on
from tests.placement.oracle import best_objective, is_valid, objective

CASES = 2_600
SEEDS = range(8)
"""8 x 2 600 cases: more than 20 000 in all."""


def random_fleet(rng: random.Random) -> list[NodeCapacity]:
    spines, racks, size = rng.randint(1, 3), rng.randint(1, 3), rng.randint(1, 3)
    total = rng.choice([2, 4, 8])
    nodes = []
    for spine in range(spines):
        for rack in range(racks):
            for number in range(rng.randint(0, size)):
                busy = rng.choice([0, 0, 0, total, rng.randint(0, total)])
                domains = (f"s{spine}", f"s{spine}/r{rack}")
                if rng.random() < 0.05:
                    domains = rng.choice([("", ""), (f"s{spine}", ""), ("", f"/r{rack}")])
                nodes.append(
                    NodeCapacity(
                        name=f"n{spine}{rack}{number}",
                        gpus={"h100": total - busy},
                        busy_gpus=busy,
                        cpus=rng.choice([64, 64, 2, 5]),
                        memory_mib=rng.choice([1 << 20, 3000]),
                        domains=domains,
                    )
                )
    rng.shuffle(nodes)
    return nodes[:8]


def random_request(rng: random.Random, nodes: list[NodeCapacity]) -> Request:
    pods = rng.choice([1, 2, 2, 3, 4, 4, 6, 8])
    segment = None
    if rng.random() < 0.35:
        segment = Segment(size=rng.choice([1, 2, 2, 3, 4]), level=rng.choice(["spine", "rack"]))
    return Request(
        pods=pods,
        pods_per_node=rng.choice([None, None, None, 1, 2]),
        gres=GresRequest(name="gpu", type=rng.choice(["h100", "h100", ""]), count=rng.choice([1, 1, 2, 4, 8])),
        cpus_per_pod=rng.choice([1, 1, 3]),
        memory_mib_per_pod=rng.choice([0, 0, 1000]),
        levels=("spine", "rack"),
        required_level=rng.choice([None, None, None, "spine", "rack"]),
        preferred_level=rng.choice([None, None, "rack", "spine"]),
        segment=segment,
        exclude=frozenset(rng.choice([[], [], ["n000", "n110"]])),
        keep=frozenset(rng.sample([node.name for node in nodes], min(len(nodes), rng.choice([0, 0, 0, 1, 2])))),
    )


def cases(seed: int, count: int) -> Iterator[tuple[list[NodeCapacity], Request]]:
    rng = random.Random(seed)  # noqa: S311
    for _ in range(count):
        nodes = random_fleet(rng)
        yield nodes, random_request(rng, nodes)


@pytest.mark.parametrize("seed", SEEDS)
def test_every_placement_is_as_good_as_the_best_of_all(seed: int) -> None:
    feasible = 0
    for nodes, request in cases(seed, CASES):
        best = best_objective(request, nodes)
        answer = place(request, nodes)
        if best is None:
            assert not isinstance(answer, Placed), (request, nodes)
            continue
        feasible += 1
        assert isinstance(answer, Placed), (request, nodes, best)
        by_name = {node.name: node for node in nodes}
        chosen = [by_name[name] for name in answer.nodes]
        assert is_valid(request, nodes, chosen, answer.pods_per_node), (request, nodes, answer)
        assert objective(request, nodes, chosen, answer.pods_per_node) == best, (request, nodes, answer)
    assert feasible > CASES // 8


def test_a_board_that_lived_through_changes_answers_like_a_new_one() -> None:
    rng = random.Random(7)  # noqa: S311
    for _ in range(60):
        nodes = random_fleet(rng)
        if not nodes:
            continue
        board = Board(nodes, ("spine", "rack"))
        for _ in range(12):
            request = random_request(rng, nodes)
            answer = place_on(board, request)
            assert answer == place(request, board.nodes.values())
            if isinstance(answer, Placed):
                for name in answer.nodes:
                    board.take(name, request.gres.times(answer.pods_per_node), cpus=1)
            else:
                name = rng.choice(list(board.nodes))
                node = board.nodes[name]
                board.put(replace(node, gpus={"h100": node.gpus["h100"] + node.busy_gpus}, busy_gpus=0))
