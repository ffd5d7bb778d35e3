"""Host lists: Slurm's own examples, its limits, and agreement with ClusterShell."""

from __future__ import annotations

import pytest
from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet
from hypothesis import given
from hypothesis import strategies as st

from bridge.errors import ParseError
from bridge.model.hostlist import expand, fold


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("n1", ["n1"]),
        ("n[1,4]", ["n1", "n4"]),
        ("n[001-003],n[1-3]", ["n001", "n002", "n003", "n1", "n2", "n3"]),
        ("n[08-11]", ["n08", "n09", "n10", "n11"]),
        ("n[99-101]", ["n99", "n100", "n101"]),
        ("n[00-100]", [f"n{number:02d}" for number in range(101)]),
        ("r[1-2]n[01-02]", ["r1n01", "r1n02", "r2n01", "r2n02"]),
        ("n[1-2][3-4]", ["n13", "n14", "n23", "n24"]),
        ("n[1-3,5]x", ["n1x", "n2x", "n3x", "n5x"]),
        ("n[1-2]-ib,login", ["n1-ib", "n2-ib", "login"]),
        ("n[5,1-2],n10,n2", ["n5", "n1", "n2", "n10", "n2"]),  # order and repetition kept
        ("", []),
        ("(null)", []),
    ],
)
def test_lists_are_expanded_in_their_own_order(text: str, names: list[str]) -> None:
    assert list(expand(text)) == names


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("n[0-6:2]", "is no range"),
        ("n[0-6/2]", "is no range"),
        ("gpu-[a-b]", "is no range"),
        ("n[3-1]", "runs backwards"),
        ("n[]", "is no range"),
        ("n[1-70000]", "more than 65536 hosts"),
        ("n[1-999999999999999999]", "more than 65536 hosts"),
        ("n[1-300][1-300]", "more than 65536 hosts"),
        ("n[1-60000],m[1-60000]", "more than 65536 hosts"),
        ("n[1-2", "unexpected '['"),
        ("n1]", "unexpected ']'"),
        ("n1,,n2", "no host name"),
        ("n1,", "no host name"),
    ],
)
def test_what_slurm_refuses_is_refused(text: str, problem: str) -> None:
    with pytest.raises(ParseError) as caught:
        expand(text)
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    ("names", "folded"),
    [
        (["n1", "n2", "n03", "n04", "n10"], "n[1-2,03-04,10]"),
        (["n10", "n2"], "n[2,10]"),
        (["login"], "login"),
        ([], ""),
    ],
)
def test_folding(names: list[str], folded: str) -> None:
    assert fold(names) == folded


@pytest.mark.parametrize("name", ["", "n[1-2]", "a,b", "@group", "a b", "a&b", "a!b"])
def test_only_plain_names_are_folded(name: str) -> None:
    with pytest.raises(ParseError):
        fold(["n1", name])


def node_names() -> st.SearchStrategy[str]:
    prefix = st.sampled_from(["n", "gpu", "r1n", "a-b", "rack-07-"])
    number = st.builds("{:0{}d}".format, st.integers(0, 120), st.integers(1, 4))
    return st.builds("{}{}".format, prefix, number)


@given(st.lists(node_names(), max_size=30))
def test_what_is_folded_expands_to_the_same_names(names: list[str]) -> None:
    expanded = expand(fold(names))
    assert sorted(expanded) == sorted(set(names))


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 5), st.integers(1, 3)), min_size=1, max_size=5))
def test_expansion_agrees_with_clustershell(ranges: list[tuple[int, int, int]]) -> None:
    text = f"n[{','.join(f'{low:0{width}d}-{low + more:0{width}d}' for low, more, width in ranges)}]"
    assert set(expand(text)) == set(NodeSet(text, resolver=RESOLVER_NOGROUP))


@given(st.text(alphabet="n[]12-,0x", max_size=20))
def test_any_text_is_expanded_or_refused(text: str) -> None:
    try:
        names = expand(text)
    except ParseError:
        return
    assert all(names)
