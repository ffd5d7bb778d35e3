from __future__ import annotations

import pytest

from bridge.accounting.gres import parse_gres_request
from bridge.placement.request import NodeCapacity, Placed, Request, Shortage, Unplaceable
from bridge.placement.search import place
from bridge.placement.tree import count_domains

LEVELS = ("spine", "rack")


def room(name: str, free: int, *, spine: str = "s1", rack: str = "r1", cpus: int = 64, memory: int = 1000):
    domains = (spine, f"{spine}/{rack}" if rack else "")
    return NodeCapacity(name=name, gpus={"h100": free}, cpus=cpus, memory_mib=memory, domains=domains)


def request(pods: int, gres: str = "gpu:h100:1", **changes) -> Request:
    return Request(pods=pods, gres=parse_gres_request(gres), levels=LEVELS, **changes)


def nodes_of(answer) -> tuple[str, ...]:
    assert isinstance(answer, Placed), answer
    return answer.nodes


def test_a_gang_gets_all_of_its_pods_or_nothing():
    fleet = [room("n1", 8), room("n2", 7)]
    assert nodes_of(place(request(2, "gpu:h100:7"), fleet)) == ("n1", "n2")
    assert isinstance(place(request(2, "gpu:h100:8"), fleet), Unplaceable)


def test_pods_stand_equally_many_on_every_node_on_the_fewest_nodes():
    answer = place(request(6), [room("n1", 4), room("n2", 3), room("n3", 3)])
    assert (answer.nodes, answer.pods_per_node) == (("n2", "n3"), 3)


def test_pods_per_node_is_kept_even_when_fewer_nodes_would_do():
    answer = place(request(4, pods_per_node=1), [room(f"n{number}", 8) for number in range(1, 6)])
    assert (len(answer.nodes), answer.pods_per_node) == (4, 1)


@pytest.mark.parametrize(("pods", "per_node"), [(3, 2), (2, 4)])
def test_pods_per_node_that_does_not_divide_the_gang_is_refused_with_both_numbers(pods, per_node):
    answer = place(request(pods, pods_per_node=per_node), [room("n1", 8), room("n2", 8)])
    assert answer.shortage is Shortage.UNEVEN_SPLIT
    assert f"{pods} pods" in answer.message
    assert f"{per_node} on each node" in answer.message


def test_a_gang_that_fits_in_one_rack_stays_in_it():
    fleet = [room("n1", 1), room("n2", 1, rack="r2"), room("n3", 1, rack="r2"), room("n4", 1, rack="r3")]
    answer = place(request(2), fleet)
    assert answer.nodes == ("n2", "n3")
    assert answer.domains == {"spine": 1, "rack": 1}


def test_the_fullest_domain_that_can_hold_the_gang_is_taken():
    fleet = [room(f"a{number}", 1, rack="big") for number in range(4)]
    fleet += [room(f"b{number}", 1, rack="snug") for number in range(2)]
    assert nodes_of(place(request(2), fleet)) == ("b0", "b1")


def test_a_required_level_is_kept_even_when_the_fleet_has_room():
    fleet = [room("n1", 1), room("n2", 1, rack="r2"), room("n3", 1, spine="s2", rack="r1")]
    assert isinstance(place(request(2, required_level="rack"), fleet), Unplaceable)
    assert nodes_of(place(request(2, required_level="spine"), fleet)) == ("n1", "n2")


def test_a_node_outside_the_topology_never_counts_as_near_another():
    fleet = [room("n1", 1, rack=""), room("n2", 1, rack="")]
    assert isinstance(place(request(2, required_level="rack"), fleet), Unplaceable)
    assert place(request(2), fleet).domains == {"spine": 1, "rack": 2}


def test_a_preferred_level_weighs_more_than_a_coarser_one():
    near = [room("n1", 1, rack="r1"), room("n2", 1, rack="r2"), room("n3", 1, rack="r3")]
    apart = [room("n4", 1, spine="s2", rack="r4"), room("n5", 1, spine="s2", rack="r4")]
    assert place(request(3), near + apart).domains == {"spine": 1, "rack": 3}
    assert place(request(3, preferred_level="rack"), near + apart).domains == {"spine": 2, "rack": 2}


def test_a_preference_that_cannot_be_met_does_not_stop_the_gang():
    fleet = [room("n1", 1), room("n2", 1, spine="s2", rack="r9")]
    assert place(request(2, preferred_level="rack"), fleet).domains == {"spine": 2, "rack": 2}


def test_ranks_go_depth_first_through_the_levels_in_natural_order():
    fleet = [room("n10", 1, rack="r10"), room("n9", 1, rack="r2"), room("n2", 1, rack="r10"), room("n1", 1, spine="s2")]
    assert nodes_of(place(request(4), fleet)) == ("n9", "n2", "n10", "n1")


@pytest.mark.parametrize(
    ("changes", "node"),
    [
        pytest.param({"cpus_per_pod": 33}, room("n1", 8, cpus=64), id="cpus"),
        pytest.param({"memory_mib_per_pod": 501}, room("n1", 8, memory=1000), id="memory"),
    ],
)
def test_cpus_and_memory_limit_the_pods_of_a_node(changes, node):
    assert isinstance(place(request(2, **changes), [node]), Unplaceable)
    assert isinstance(place(request(1, **changes), [node]), Placed)


def test_a_request_without_type_takes_one_type_for_a_pod():
    mixed = NodeCapacity(name="n1", gpus={"h100": 1, "a100": 2}, cpus=8, memory_mib=10, domains=("s1", "s1/r1"))
    assert isinstance(place(request(1, "gpu:2"), [mixed]), Placed)
    assert isinstance(place(request(1, "gpu:3"), [mixed]), Unplaceable)


@pytest.mark.parametrize(
    ("asked", "fleet", "shortage", "words"),
    [
        pytest.param(
            request(4, "gpu:h100:2"),
            [room("n1", 5)],
            Shortage.INSUFFICIENT_DEVICES,
            ["4 pods of gpu:h100:2 need 2 nodes with 4 free gpu:h100 each", "1 of 1 have them"],
            id="too few devices",
        ),
        pytest.param(
            request(4, required_level="rack"),
            [room("n1", 3), room("n2", 3, rack="r2")],
            Shortage.NO_DOMAIN_FITS,
            ["4 pods", "in one rack", "has most: 1"],
            id="no domain",
        ),
        pytest.param(
            request(5),
            [room("n1", 4), room("n2", 4)],
            Shortage.UNEVEN_SPLIT,
            ["5 pods", "room for 8 pods"],
            id="uneven",
        ),
        pytest.param(
            request(1),
            [],
            Shortage.INSUFFICIENT_DEVICES,
            ["1 pod of gpu:h100:1", "the largest node has 0"],
            id="no nodes",
        ),
    ],
)
def test_the_explanation_names_the_numbers(asked, fleet, shortage, words):
    answer = place(asked, fleet)
    assert answer.shortage is shortage
    for word in words:
        assert word in answer.message


@pytest.mark.parametrize(
    ("nodes", "domains", "text"),
    [
        (("n1",), {"rack": 1}, "1 rack, 1 node"),
        (("n1", "n2"), {"spine": 1, "rack": 2}, "1 spine, 2 racks, 2 nodes"),
        (("n1",), {}, "1 node"),
    ],
)
def test_a_placement_describes_itself_in_counts(nodes, domains, text):
    assert Placed(nodes=nodes, pods_per_node=1, domains=domains).describe() == text


def test_every_node_without_a_domain_counts_as_one_of_its_own():
    nodes = {"n1": ("s1", "s1/r1"), "n2": ("s1", ""), "n3": ("s1", "")}
    assert count_domains(LEVELS, nodes) == {"spine": 1, "rack": 3}


def test_a_domain_without_a_name_is_as_large_as_the_named_one_in_it():
    nodes = {"n1": ("", "/r1"), "n2": ("", "/r1"), "n3": ("", "/r2")}
    assert count_domains(LEVELS, nodes) == {"spine": 2, "rack": 2}
