from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.topology.natural import listed
from bridge.topology.paths import names_of, paths_of

NAMES = st.lists(st.text("ab~/%0", max_size=4), max_size=4)


@pytest.mark.parametrize(
    ("names", "paths"),
    [
        (["s1", "r1"], ("s1", "s1/r1")),
        (["", "r1"], ("~r1", "~r1/r1")),
        (["d", "", "r1"], ("d", "d/~r1", "d/~r1/r1")),
        (["", "", "r1"], ("~r1", "~r1/~r1", "~r1/~r1/r1")),
        (["s1", ""], ("s1", "")),
        (["", ""], ("", "")),
        ([], ()),
        (["MF0;A09/U1", "r"], ("MF0;A09%2FU1", "MF0;A09%2FU1/r")),
    ],
)
def test_a_path_names_every_level(names, paths):
    assert paths_of(names) == paths


@given(NAMES)
def test_names_come_back_out_of_paths(names):
    assert names_of(paths_of(names)) == tuple(names)


@given(NAMES, NAMES)
def test_different_domains_have_different_paths(first, second):
    depth = min(len(first), len(second))
    for level in range(depth):
        mine, other = paths_of(first[: level + 1])[level], paths_of(second[: level + 1])[level]
        if mine and other and first[level] and second[level]:
            assert (mine == other) == (first[: level + 1] == second[: level + 1])


def test_lists_of_names_stay_short():
    assert listed(["n10", "n9"]) == "n9, n10"
    assert listed(f"n{i}" for i in range(32)) == "n0, n1, n2 and 29 more"
