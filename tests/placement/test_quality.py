"""Quality against the numbers of the model that it was taken from: H100, NVLink 360 GB/s, NIC 45 GB/s, TP=8, DP=8."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.model.links import LinkModel
from bridge.placement.quality import Quality, assess
from bridge.placement.request import Placed
from bridge.placement.tree import count_domains

LEVELS = ("spine", "rack")
MODELS = {
    "7B": LinkModel(parameters=7e9, layers=32, hidden=4096, tokens=65536, microbatches=16),
    "13B": LinkModel(),
    "70B": LinkModel(parameters=70e9, layers=80, hidden=8192),
}
ONE_RACK = ("a", "a/1")
TWO_SPINES = [("a", "a/1")] * 4 + [("b", "b/1")] * 4


def quality(domains: Sequence[Sequence[str]], *, width: int = 8, model: LinkModel | None = None) -> Quality:
    """Return the quality of a gang of one-GPU pods, ``width`` on each node."""
    levels = LEVELS[-len(domains[0]) :] if domains[0] else ()
    nodes = tuple(f"n{number}" for number in range(len(domains)))
    placed = Placed(
        nodes=nodes, pods_per_node=width, domains=count_domains(levels, dict(zip(nodes, domains, strict=True)))
    )
    return assess(placed, domains, gpus_per_pod=1, gpus_per_node=8, model=model)


@pytest.mark.parametrize(
    ("what", "domains", "width", "spine", "expected"),
    [
        ("data parallel across spines 2:1", TWO_SPINES, 8, 2, (1.03, 1.06, 1.06)),
        ("data parallel across spines 4:1", TWO_SPINES, 8, 4, (1.08, 1.17, 1.19)),
        ("tensor parallel 4 + 4 over two nodes", [ONE_RACK] * 16, 4, 2, (1.82, 1.70, 1.46)),
        ("tensor parallel scattered", [ONE_RACK] * 64, 1, 2, (2.90, 2.63, 2.07)),
        ("scattered, and over spines 2:1", [("a", "a/1"), ("b", "b/1")] * 32, 1, 2, (5.11, 4.54, 3.35)),
        ("ideal", [ONE_RACK] * 8, 8, 2, (1.0, 1.0, 1.0)),
    ],
)
def test_the_model_gives_the_numbers_that_it_was_published_with(what, domains, width, spine, expected):
    for model, ratio in zip(MODELS.values(), expected, strict=True):
        found = quality(domains, width=width, model=replace(model, oversubscription={"spine": spine}))
        assert found.step_time == pytest.approx(ratio, abs=0.006), what


def test_a_level_without_oversubscription_costs_twice_the_one_below_it():
    model, levels = LinkModel(oversubscription={"spine": 3.0}), ("datacenter", "spine", "rack")
    assert [model.slowdown(levels, depth) for depth in range(3)] == [4.0, 3.0, 1.0]
    assert LinkModel(oversubscription={"rack": 0.1}).slowdown(levels, 2) == 1.0


def test_a_rack_that_is_an_nvlink_domain_takes_a_tensor_parallel_group_without_loss():
    nvl72 = LinkModel(bandwidth={"rack": 360.0})
    assert quality([ONE_RACK] * 16, width=4, model=nvl72).step_time == pytest.approx(1.0, abs=0.001)
    split = [("a", "a/1")] * 7 + [("a", "a/2")] * 9
    assert quality(split, width=4, model=nvl72).step_time > 1.4


def test_a_coarse_level_never_counts_as_faster_than_a_finer_one():
    model = LinkModel(bandwidth={"spine": 900.0, "rack": 90.0})
    assert (model.inside(LEVELS, 1), model.inside(LEVELS, 0), model.inside(LEVELS, -1)) == (90.0, 90.0, 45.0)


def test_one_node_is_as_good_as_it_gets():
    assert quality([ONE_RACK], width=8).step_time == 1.0
    assert quality([()], width=3).step_time == 1.0


def test_pipeline_stages_need_not_be_near_each_other():
    stages = LinkModel(pipeline_parallel=2)
    near = [("a", "a/1")] * 4 + [("b", "b/1")] * 4
    mixed = [("a", "a/1"), ("b", "b/1")] * 4
    assert quality(near, model=stages).step_time == pytest.approx(1.0, abs=0.001)
    assert quality(mixed, model=stages).step_time > 1.03


@pytest.mark.parametrize(
    ("domains", "spine", "rack"),
    [
        ([ONE_RACK] * 4, 0, 0),
        ([("a", "a/1"), ("a", "a/2")], 0, 2),
        ([("a", "a/1"), ("a", "a/2"), ("b", "b/1")], 2, 3),
        ([("a", "a/1"), ("b", "b/1"), ("a", "a/1"), ("b", "b/1")], 4, 4),
        ([("", ""), ("", "")], 2, 2),
        ([ONE_RACK], 0, 0),
    ],
)
def test_boundaries_are_counted_around_the_ring(domains, spine, rack):
    assert quality(domains).boundaries == {"spine": spine, "rack": rack}


def test_the_line_for_people_has_the_optimum_beside_the_counts():
    domains = [("a", "a/1")] * 4 + [("a", "a/2")] * 4
    counts = count_domains(LEVELS, dict(zip("abcdefgh", domains, strict=True)))
    placed = Placed(nodes=tuple("abcdefgh"), pods_per_node=1, domains=counts)
    own = assess(placed, domains, gpus_per_pod=8, gpus_per_node=8, model=LinkModel(oversubscription={"rack": 1.5}))
    assert own.describe() == "1 spine, 2 racks (optimum 1, 2), step time x1.03"
    assert own.is_optimal
    other = assess(placed, domains, gpus_per_pod=8, gpus_per_node=8, optimum={"spine": 1, "rack": 1})
    assert other.describe().startswith("1 spine, 2 racks (optimum 1, 1), ")
    assert not other.is_optimal
    assert quality([()] * 2).describe() == "step time x1.00"


spread = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), min_size=1, max_size=16)


@given(spread=spread, width=st.sampled_from([1, 2, 3, 4, 8]), pipeline=st.sampled_from([1, 2, 4]))
def test_the_ratio_never_falls_when_a_domain_splits(spread, width, pipeline):
    model = LinkModel(pipeline_parallel=pipeline)
    split = [(f"s{spine}", f"s{spine}/r{rack}") for spine, rack in sorted(spread)]
    one_spine = [("s", f"s/{rack}") for _, rack in split]
    one_rack = [("s", "s/r")] * len(split)
    ratios = [quality(domains, width=width, model=model).step_time for domains in (one_rack, one_spine, split)]
    assert 1.0 <= ratios[0] <= ratios[1] <= ratios[2]


@given(count=st.integers(2, 8))
def test_every_further_spine_costs_something(count):
    def ratio(spines: int) -> float:
        return quality([(f"s{n * spines // 16}", f"s{n * spines // 16}/r") for n in range(16)]).step_time

    assert ratio(count) > ratio(count - 1)
