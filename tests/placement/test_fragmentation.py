from __future__ import annotations

from collections.abc import Iterable

import pytest

from bridge.placement.fragmentation import measure
from bridge.placement.request import NodeCapacity

LEVELS = ("spine", "rack")


def node(name: str, rack: str = "s1/r1", *, free: int = 8, busy: int = 0, closed: str = "") -> NodeCapacity:
    domains = (rack.partition("/")[0], rack)
    gpus = {} if closed else {"h100": free}
    return NodeCapacity(name=name, gpus=gpus, busy_gpus=busy, cpus=64, memory_mib=1000, closed=closed, domains=domains)


def racks(**sizes: int) -> Iterable[NodeCapacity]:
    """Return whole nodes: so many in each rack of one spine."""
    return [node(f"{rack}-{number}", f"s1/{rack}") for rack, count in sizes.items() for number in range(count)]


def test_only_open_nodes_that_nobody_uses_are_whole():
    found = measure(
        [node("a"), node("b", free=3, busy=5), node("c", free=0, busy=8), node("d", closed="drained")], LEVELS
    )
    assert (found.nodes, found.whole_nodes, found.partial_nodes) == (4, 1, 1)
    assert found.partial_ratio == 0.25


def test_a_domain_is_whole_when_all_of_its_nodes_are():
    fleet = [*racks(r1=2, r2=2), node("x", "s1/r3"), node("y", "s1/r3", closed="down"), node("z", "s2/r4")]
    found = measure(fleet, LEVELS)
    assert found.whole_domains == {"spine": 1, "rack": 3}


def test_the_largest_gang_at_each_locality():
    found = measure([*racks(r1=2, r2=3), node("z", "s2/r4")], LEVELS)
    assert found.largest == {"spine": 5, "rack": 3}
    assert found.locality == 0.5
    assert found.describe() == "6 of 6 nodes whole, 0 partly used; most in one: spine 5, rack 3"


@pytest.mark.parametrize(
    ("sizes", "lost"),
    [
        # 18 in a rack: one dead node leaves 17 for segments of 1, 16 for 16, and so on.
        ({"r1": 17}, {1: 0, 2: 0, 4: 0, 8: 0, 16: 0}),
        ({"r1": 17, "r2": 17}, {1: 0, 2: 1, 4: 0, 8: 0, 16: 0}),
        ({"r1": 15, "r2": 15}, {1: 0, 2: 1, 4: 1, 8: 1, 16: 1}),
        ({"r1": 1, "r2": 1, "r3": 1, "r4": 1}, {1: 0, 2: 2, 4: 1, 8: 0, 16: 0}),
    ],
)
def test_segments_are_lost_to_remainders_of_racks(sizes, lost):
    assert measure(racks(**sizes), LEVELS).segments_lost == lost


def test_a_node_without_a_domain_is_near_nobody():
    nowhere = [NodeCapacity(name=name, gpus={"": 8}, cpus=1, memory_mib=1, domains=("", "")) for name in "ab"]
    found = measure(nowhere, LEVELS)
    assert (found.largest, found.segments_lost[2]) == ({"spine": 1, "rack": 1}, 1)


def test_a_fleet_without_levels_is_one_domain():
    flat = [NodeCapacity(name=name, gpus={"": 8}, cpus=1, memory_mib=1) for name in "abc"]
    found = measure(flat, ())
    assert (found.whole_nodes, found.locality, found.segments_lost[2]) == (3, 1.0, 0)
    assert found.describe() == "3 of 3 nodes whole, 0 partly used"


def test_an_empty_fleet_has_nothing():
    found = measure([], LEVELS)
    assert (found.partial_ratio, found.locality, found.largest) == (0.0, 0.0, {"spine": 0, "rack": 0})
