"""Several sources: the first that knows wins, and what differs is told."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.model.topology import Topology
from bridge.topology.merge import merge
from bridge.topology.paths import names_of, paths_of

LEVELS = ("spine", "rack")


def source(title: str, **nodes: str) -> Topology:
    """Return a topology of nodes that are written ``spine/rack``."""
    return Topology(name=title, levels=LEVELS, domains={node: paths_of(at.split("/")) for node, at in nodes.items()})


def merged(*sources: Topology) -> dict[str, str]:
    return {node: "/".join(names_of(paths)) for node, paths in merge(sources).domains.items()}


def test_one_source_stays_what_it_is():
    only = source("slurm", n1="s1/r1", n2="/r2", n3="s1/", n4="/")
    assert merge([only]).domains == only.domains
    assert merge([only, only]).domains == only.domains
    assert merge([]) == Topology()


def test_the_first_source_wins_and_the_conflict_is_told():
    slurm = source("slurm", n1="s1/r1", n2="s1/r1", n3="s1/r2")
    labels = source("labels", n1="s1/r1", n2="s1/r2", n3="s2/r2")
    both = merge([slurm, labels])
    assert both.domains == slurm.domains
    assert both.problems == (
        "conflict at level rack: slurm has n2 in r1, labels in r2; r1 is taken",
        "conflict at level spine: slurm has n3 in s1, labels in s2; s1 is taken",
    )


def test_a_conflict_of_many_nodes_is_one_line():
    slurm = source("slurm", **{f"n{i}": "s/a" for i in range(100)})
    labels = source("labels", **{f"n{i}": "s/b" for i in range(100)})
    assert merge([slurm, labels]).problems == (
        "conflict at level rack: slurm has n0, n1, n2 and 97 more in a, labels in b; a is taken",
    )


def test_nodes_of_one_source_alone_are_taken_as_they_are():
    assert merged(source("slurm", n1="s1/r1"), source("labels", n2="s1/r2")) == {"n1": "s1/r1", "n2": "s1/r2"}
    assert merged(source("slurm", n1="/"), source("labels", n1="s1/r2")) == {"n1": "s1/r2"}


def test_what_is_above_a_domain_holds_for_all_of_it():
    slurm = source("slurm", n1="/r1", n2="/r1", n3="/r2")
    assert merged(slurm, source("labels", n1="s1/r1")) == {"n1": "s1/r1", "n2": "s1/r1", "n3": "/r2"}


def test_what_is_above_a_domain_does_not_tear_it_apart():
    slurm = source("slurm", **{f"n{i}": "/r1" for i in range(1, 10)})
    both = merge([slurm, source("labels", **{f"n{i}": f"s{10 - i}/r1" for i in range(1, 10)})])
    assert set(both.domains.values()) == {("s1", "s1/r1")}
    assert len(both.problems) == 8
    assert "conflict at level spine: slurm has n1 in s1, labels in s9; s1 is taken" in both.problems


def test_a_source_that_means_another_rack_says_nothing_of_this_one():
    assert merged(source("slurm", n1="/r1"), source("labels", n1="s9/r9")) == {"n1": "/r1"}


def test_a_finer_level_is_filled_in():
    assert merged(source("slurm", n1="s1/"), source("labels", n1="s1/r1")) == {"n1": "s1/r1"}
    assert merged(source("slurm", n1="s1/"), source("labels", n1="/r1")) == {"n1": "s1/r1"}


def test_a_rack_of_another_spine_is_not_filled_in():
    """T21: r1 of s9 is not r1 of s1."""
    slurm, labels = source("slurm", n1="s1/", n2="s1/"), source("labels", n1="s9/r1", n2="s1/r1")
    assert merged(slurm, labels) == {"n1": "s1/", "n2": "s1/r1"}


def test_nodes_without_any_domain_are_told():
    both = merge([source("slurm", n1="s1/r1", n2="/"), source("labels", n3="/")])
    assert both.problems == ("no source has a domain for n2, n3",)
    assert merge([source("flat", n1="/"), source("labels", n2="/")]).problems == ()


def test_problems_name_their_source():
    broken = Topology(name="slurm", levels=LEVELS, problems=("line 1 is not understood",))
    assert merge([broken, Topology(levels=LEVELS, problems=("oh",))]).problems == (
        "slurm: line 1 is not understood",
        "source 2: oh",
    )


def test_sources_of_different_levels_cannot_be_merged():
    with pytest.raises(ValueError, match="levels differ"):
        merge([Topology(levels=("a",)), Topology(levels=("b",))])


NAMES = st.tuples(st.sampled_from(["", "s1", "s2"]), st.sampled_from(["", "r1", "r2"]))
SOURCES = st.lists(st.dictionaries(st.sampled_from([f"n{i}" for i in range(6)]), NAMES), min_size=1, max_size=3)


@given(SOURCES)
def test_whatever_the_first_source_knows_is_kept(sources):
    topologies = [
        source(f"t{i}", **{node: "/".join(at) for node, at in each.items()}) for i, each in enumerate(sources)
    ]
    result = merge(topologies)
    assert result.domains.keys() == {node for each in sources for node in each}
    for node, names in sources[0].items():
        kept = names_of(result.domains[node])
        assert all(not mine or mine == got for mine, got in zip(names, kept, strict=True))
    for node, names in sources[0].items():
        for other, others in sources[0].items():
            if names == others and names[1]:  # a domain of the first source is never torn apart
                assert result.domains[node] == result.domains[other]


@given(SOURCES, st.randoms(use_true_random=False))
def test_the_order_of_nodes_changes_nothing(sources, chance: random.Random):
    def build(order) -> list[Topology]:
        return [
            source(f"t{i}", **{node: "/".join(each[node]) for node in order(sorted(each))})
            for i, each in enumerate(sources)
        ]

    plain = merge(build(list))
    assert merge(build(lambda nodes: chance.sample(nodes, len(nodes)))) == plain
    again = merge([plain, *build(list)])
    assert again.domains == plain.domains  # the same sources once more change nothing


@given(SOURCES)
def test_every_difference_is_a_conflict(sources):
    first, *others = sources
    topologies = [
        source(f"t{i}", **{node: "/".join(at) for node, at in each.items()}) for i, each in enumerate(sources)
    ]
    problems = merge(topologies[:2]).problems
    differs = any(
        mine and theirs and mine != theirs
        for other in others[:1]
        for node in first.keys() & other.keys()
        for mine, theirs in zip(first[node], other[node], strict=True)
    )
    assert not differs or any(problem.startswith("conflict") for problem in problems)
