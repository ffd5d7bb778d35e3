"""The search against brute force on small fleets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from bridge.model.gres import GresRequest
from bridge.placement.request import NodeCapacity, Placed, Request
from bridge.placement.search import place
from bridge.placement.tree import count_domains, rank_key

LEVELS = ("spine", "rack")
MANY = settings(max_examples=300, deadline=None)


@st.composite
def capacities(draw) -> list[NodeCapacity]:
    found = []
    for number in range(draw(st.integers(0, 6))):
        spine, rack = draw(st.sampled_from(["s1", "s2", ""])), draw(st.sampled_from(["r1", "r2", ""]))
        found.append(
            NodeCapacity(
                name=f"n{number + 1}",
                gpus={"h100": draw(st.integers(-1, 4))},
                cpus=draw(st.integers(0, 8)),
                memory_mib=draw(st.sampled_from([0, 100, 1000])),
                domains=(spine, f"{spine}/{rack}" if rack else ""),
            )
        )
    return found


@st.composite
def requests(draw) -> Request:
    return Request(
        pods=draw(st.integers(1, 7)),
        pods_per_node=draw(st.none() | st.integers(1, 4)),
        gres=GresRequest(name="gpu", type="h100", count=draw(st.integers(1, 2))),
        cpus_per_pod=draw(st.integers(1, 2)),
        memory_mib_per_pod=draw(st.sampled_from([0, 50])),
        levels=LEVELS,
        required_level=draw(st.sampled_from([None, *LEVELS])),
        preferred_level=draw(st.sampled_from([None, *LEVELS])),
    )


def gives(node: NodeCapacity, request: Request, pods: int) -> bool:
    """Return whether a node has room for ``pods`` pods, by plain arithmetic."""
    return (
        node.gpus["h100"] >= pods * request.gres.count
        and node.cpus >= pods * request.cpus_per_pod
        and (not request.memory_mib_per_pod or node.memory_mib >= pods * request.memory_mib_per_pod)
    )


def shares_one(nodes: Sequence[NodeCapacity], level: str) -> bool:
    names = {node.domains[LEVELS.index(level)] for node in nodes}
    return len(names) == 1 and "" not in names


def all_placements(request: Request, fleet: Sequence[NodeCapacity]) -> Iterator[tuple[tuple[NodeCapacity, ...], int]]:
    """Yield every set of nodes and pods per node that would do."""
    for width in range(1, request.pods + 1):
        if request.pods % width or request.pods_per_node not in (None, width):
            continue
        for chosen in combinations(fleet, request.pods // width):
            fits = all(gives(node, request, width) for node in chosen)
            if fits and (request.required_level is None or shares_one(chosen, request.required_level)):
                yield chosen, width


@MANY
@given(requests(), capacities())
def test_a_gang_is_placed_exactly_when_brute_force_finds_a_way(request, fleet):
    feasible = any(True for _ in all_placements(request, fleet))
    assert isinstance(place(request, fleet), Placed) == feasible


@MANY
@given(requests(), capacities())
def test_a_placement_is_one_that_brute_force_allows_in_rank_order(request, fleet):
    answer = place(request, fleet)
    if not isinstance(answer, Placed):
        return
    chosen = tuple(node for node in fleet if node.name in answer.nodes)
    assert len(set(answer.nodes)) == len(answer.nodes) == len(chosen)
    assert (chosen, answer.pods_per_node) in list(all_placements(request, fleet))
    assert list(answer.nodes) == [
        node.name for node in sorted(chosen, key=lambda node: rank_key(node.domains, node.name))
    ]
    assert answer.domains == count_domains(LEVELS, {node.name: node.domains for node in chosen})


@MANY
@given(requests(), capacities())
def test_a_gang_that_one_domain_can_hold_touches_one_domain(request, fleet):
    answer = place(request, fleet)
    if not isinstance(answer, Placed):
        return
    ways = list(all_placements(request, fleet))
    finest = LEVELS.index(request.preferred_level) if request.preferred_level else len(LEVELS) - 1
    for level in reversed(LEVELS[: finest + 1]):
        if any(shares_one(chosen, level) for chosen, _ in ways):
            assert answer.domains[level] == 1
            return


@MANY
@given(requests(), capacities())
def test_within_its_width_a_placement_touches_the_fewest_racks(request, fleet):
    """Holds where one spine is enough; over several spines the search takes the fewest spines first."""
    answer = place(request, fleet)
    if not isinstance(answer, Placed) or answer.domains["spine"] > 1 or any(not all(node.domains) for node in fleet):
        return
    spine = next(node.domains[0] for node in fleet if node.name == answer.nodes[0])
    racks = [
        len({node.domains[1] for node in chosen})
        for chosen, width in all_placements(request, fleet)
        if width == answer.pods_per_node and {node.domains[0] for node in chosen} == {spine}
    ]
    assert answer.domains["rack"] == min(racks)


@MANY
@given(requests(), capacities(), st.randoms(use_true_random=False))
def test_the_order_of_the_nodes_makes_no_difference(request, fleet, random):
    shuffled = list(fleet)
    random.shuffle(shuffled)
    assert place(request, shuffled) == place(request, fleet)


@MANY
@given(requests(), capacities(), st.data())
def test_more_free_devices_never_turn_a_fit_into_a_refusal(request, fleet, data):
    if not isinstance(place(request, fleet), Placed):
        return
    position = data.draw(st.integers(0, len(fleet) - 1))
    more = {"h100": fleet[position].gpus["h100"] + data.draw(st.integers(0, 3))}
    richer = [*fleet[:position], replace(fleet[position], gpus=more), *fleet[position + 1 :]]
    assert isinstance(place(request, richer), Placed)
    extra = NodeCapacity(name="n99", gpus={"h100": 4}, cpus=8, memory_mib=1000, domains=("s1", "s1/r1"))
    assert isinstance(place(request, [*fleet, extra]), Placed)
