"""What other schedulers got wrong, by the numbers of the project's survey (T7 to T29)."""

from __future__ import annotations

import random

import pytest

from bridge.accounting.gres import parse_gres_request
from bridge.errors import ParseError
from bridge.model.gang import Segment
from bridge.placement.request import NodeCapacity, Placed, Request, Unplaceable
from bridge.placement.search import place

LEVELS = ("spine", "rack")


def node(name: str, rack: str, *, free: int = 8, total: int = 8, **changes) -> NodeCapacity:
    values = {"cpus": 64, "memory_mib": 500_000} | changes
    domains = ("s1", f"s1/{rack}")
    return NodeCapacity(name=name, gpus={"h100": free}, busy_gpus=total - free, domains=domains, **values)


def rack(name: str, size: int, *, free: int = 8) -> list[NodeCapacity]:
    return [node(f"{name}n{number}", name, free=free) for number in range(size)]


def request(pods: int, gres: str = "gpu:h100:8", **changes) -> Request:
    return Request(pods=pods, gres=parse_gres_request(gres), levels=LEVELS, **changes)


def racks_of(answer: Placed | Unplaceable) -> list[int]:
    """Return how many nodes of each rack are used, most first."""
    assert isinstance(answer, Placed), answer
    used = [name.partition("n")[0] for name in answer.nodes]
    return sorted((used.count(name) for name in set(used)), reverse=True)


def test_t7_two_devices_take_two_pods_and_not_three():
    assert isinstance(place(request(2, "gpu:h100:1"), [node("r1n1", "r1", free=2, total=2)]), Placed)
    assert isinstance(place(request(3, "gpu:h100:1"), [node("r1n1", "r1", free=2, total=2)]), Unplaceable)


def test_t8_devices_of_two_nodes_are_not_one_big_device():
    answer = place(request(1, "gpu:h100:2"), [node(f"r1n{n}", "r1", free=1, total=1) for n in range(2)])
    assert "1 pod of gpu:h100:2 needs 2 gpu:h100 on one node; the largest node has 1" in answer.message


def test_t9_the_last_pod_is_not_blocked_by_where_the_first_ones_went():
    """Packing two pods onto the first node leaves one that fits nowhere; one on each node is the only way."""
    nodes = [node("r1n1", "r1", cpus=2), node("r1n2", "r1", cpus=1), node("r1n3", "r1", cpus=1)]
    answer = place(request(3, "gpu:h100:1"), nodes)
    assert (answer.nodes, answer.pods_per_node) == (("r1n1", "r1n2", "r1n3"), 1)


def test_t11_a_free_tight_rack_is_used_when_near_is_only_preferred():
    nodes = rack("r1", 8) + rack("r2", 4) + rack("r3", 2)
    assert racks_of(place(request(4, preferred_level="rack"), nodes)) == [4]
    assert {name[:2] for name in place(request(4, preferred_level="rack"), nodes).nodes} == {"r2"}


def test_t12_small_gangs_leave_free_racks_whole():
    nodes = [node(f"r{r}n{n}", f"r{r}", free=8 if n < 4 else 0) for r in range(3) for n in range(8)]
    nodes += rack("r7", 8) + rack("r8", 8)
    for pods in (1, 2, 4):
        assert not {name[:2] for name in place(request(pods), nodes).nodes} & {"r7", "r8"}
    one = place(request(1, "gpu:h100:1"), [*nodes, node("r5n0", "r5", free=3)])
    assert one.nodes == ("r5n0",), "nor is a whole node broken"


@pytest.mark.parametrize(
    ("pods", "segment", "split"),
    [(24, 12, [12, 12]), (32, 16, [16, 16]), (48, 16, [16] * 3), (128, 16, [16] * 8)],
)
def test_t13_segments_divide_evenly_over_racks_of_eighteen(pods, segment, split):
    nodes = [each for number in range(10) for each in rack(f"r{number}", 18)]
    answer = place(request(pods, segment=Segment(size=segment, level="rack")), nodes)
    assert racks_of(answer) == split
    blocks = [answer.nodes[start : start + segment] for start in range(0, pods, segment)]
    assert all(len({name.partition("n")[0] for name in block}) == 1 for block in blocks)


def test_t14_consecutive_ranks_are_neighbours_and_ten_comes_after_nine():
    nodes = rack("r2", 12) + rack("r10", 12) + rack("r9", 12)
    random.Random(3).shuffle(nodes)  # noqa: S311
    names = place(request(36), nodes).nodes
    assert list(names) == [f"r{r}n{n}" for r in (2, 9, 10) for n in range(12)]


def test_t21_names_that_begin_alike_are_different_racks():
    nodes = [node("r1n0", "r1"), node("r10n0", "r10"), node("r10n1", "r10")]
    assert place(request(2, required_level="rack"), nodes).nodes == ("r10n0", "r10n1")
    assert isinstance(place(request(3, required_level="rack"), nodes), Unplaceable)


@pytest.mark.parametrize(
    ("changes", "asked", "words"),
    [
        ({"cpus": 3}, {"cpus_per_pod": 4}, "2 short of CPUs"),
        ({"memory_mib": 10}, {"memory_mib_per_pod": 11}, "2 short of memory"),
        ({"free": 7}, {}, "2 in use"),
        ({"free": 0, "closed": "drained"}, {}, "2 drained"),
    ],
)
def test_t22_the_resource_that_runs_out_is_named(changes, asked, words):
    nodes = [node(f"r1n{n}", "r1", **changes) for n in range(2)] + [node("r1n9", "r1")]
    answer = place(request(2, **asked), nodes)
    assert f"1 of 3 have them ({words})" in answer.message


@pytest.mark.parametrize("text", ["gpu:h100:0", "gpu:h100:-1", "gpu:h100:4294967297", "gpu:h100:1e3", "gpu:h100:"])
def test_t24_counts_that_are_none_are_refused(text):
    with pytest.raises(ParseError):
        parse_gres_request(text)


def test_t29_the_order_of_the_input_does_not_matter():
    rng = random.Random(29)  # noqa: S311
    nodes = [node(f"r{r}n{n}", f"r{r}", free=rng.choice([0, 4, 8])) for r in range(6) for n in range(6)]
    wanted = [request(4), request(8, "gpu:h100:4"), request(6, segment=Segment(size=2, level="rack"))]
    first = [place(each, nodes) for each in wanted]
    for _ in range(20):
        rng.shuffle(nodes)
        assert [place(each, nodes) for each in wanted] == first


def test_more_free_devices_never_turn_a_fit_into_a_misfit():
    rng = random.Random(5)  # noqa: S311
    for _ in range(300):
        nodes = [node(f"r{r}n{n}", f"r{r}", free=rng.choice([0, 2, 5, 8])) for r in range(3) for n in range(3)]
        level, size = rng.choice([None, "rack"]), rng.choice([1, 2])
        asked = request(rng.choice([2, 4, 6]), rng.choice(["gpu:h100:2", "gpu:h100:8"]), required_level=level)
        asked = request(asked.pods, str(asked.gres), required_level=level, segment=Segment(size=size, level="rack"))
        if isinstance(place(asked, nodes), Placed):
            lucky = rng.randrange(len(nodes))
            more = node(nodes[lucky].name, nodes[lucky].name[:2])
            assert isinstance(place(asked, [*nodes[:lucky], more, *nodes[lucky + 1 :]]), Placed)
