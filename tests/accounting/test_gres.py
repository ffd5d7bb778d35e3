"""The GRES grammar: texts seen on real controllers, mistakes that people make, and round trips."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.accounting.gres import (
    MAX_INDEXED,
    configured_gres,
    format_gres,
    format_ranges,
    parse_gres,
    parse_gres_items,
    parse_gres_request,
    parse_ranges,
)
from bridge.errors import ParseError
from bridge.model.gres import Gres, GresRequest


def gres(name: str, kind: str, count: int, indices: tuple[int, ...] | None = None) -> Gres:
    return Gres(name=name, type=kind, count=count, indices=indices)


MIG = "gpu:a100:1(IDX:0),gpu:nvidia_a100_3g.20gb:1(IDX:2),gpu:nvidia_a100_1g.5gb:0(IDX:),fpga:x1(CNT:1)"

SEEN = [
    ("gpu:h100:8(S:0-1)", [gres("gpu", "h100", 8)]),
    ("gpu:8", [gres("gpu", "", 8)]),
    ("gpu:h100:3(IDX:1-2,5)", [gres("gpu", "h100", 3, (1, 2, 5))]),
    ("gpu:h100:0(IDX:N/A)", [gres("gpu", "h100", 0, ())]),
    ("gpu(CNT:3)", [gres("gpu", "", 3)]),
    ("gpu:h100(CNT:4)", [gres("gpu", "h100", 4)]),
    ("tmpdisk:2K", [gres("tmpdisk", "", 2048)]),
    ("bandwidth:lustre:no_consume:4G", [gres("bandwidth", "lustre", 4 * 1024**3)]),
    ("shard:h100:7(3/4,-/4,-/4,0/4,4/4,-/4,0/4,0/4),fpga:2", [gres("shard", "h100", 7), gres("fpga", "", 2)]),
    (
        MIG,
        [
            gres("gpu", "a100", 1, (0,)),
            gres("gpu", "nvidia_a100_3g.20gb", 1, (2,)),
            gres("gpu", "nvidia_a100_1g.5gb", 0, ()),
            gres("fpga", "x1", 1),
        ],
    ),
    ("gres/gpu:h100:2", [gres("gpu", "h100", 2)]),
    ("gres/gpu=1", [gres("gpu", "", 1)]),
    ("gres:gpu:2", [gres("gpu", "", 2)]),
    ("gres/gpu", [gres("gpu", "", 1)]),
    ("gpu:1g.5gb", [gres("gpu", "1g.5gb", 1)]),
    ("", []),
    ("(null)", []),
    ("N/A", []),
]


@pytest.mark.parametrize(("text", "expected"), SEEN)
def test_texts_of_real_controllers(text: str, expected: list[Gres]) -> None:
    assert parse_gres(text) == tuple(expected)


@pytest.mark.parametrize(
    "text",
    [
        "gpu:h100:3(IDX:1-2,",  # cut by a fixed buffer
        "gpu:h100:3(IDX:2-1)",
        "gpu:h100:3(IDX:0-999999)",
        "gpu:h100:3(IDX:a-b)",
        "gpu:h100:3(NEW:thing)",
    ],
)
def test_what_nobody_foresaw_is_kept_untracked(text: str) -> None:
    (item,) = parse_gres(text)
    assert (item.name, item.type, item.count, item.indices) == ("gpu", "h100", 3, None)
    assert not item.is_tracked


def test_a_list_cut_between_two_indices_is_not_tracked() -> None:
    (item,) = parse_gres("gpu:h100:6(IDX:0,2,4,6)")
    assert item.indices == (0, 2, 4, 6)
    assert not item.is_tracked


def test_commas_in_parentheses_belong_to_the_item() -> None:
    items = parse_gres_items("gpu:h100:3(IDX:0,2,4),shard:h100:3(3/4,0/4)")
    assert [item.name for item in items] == ["gpu", "shard"]
    assert items[1].slots == ("3/4", "0/4")


@given(st.text(max_size=60) | st.text(alphabet="gpu:h10(IDX,-)/=SCNT K", max_size=60))
def test_the_controllers_text_never_raises(text: str) -> None:
    for item in parse_gres(text):
        assert item.count >= 0


def allocations() -> st.SearchStrategy[Gres]:
    names = st.from_regex(r"[a-z]{2,8}", fullmatch=True)
    types = st.just("") | st.from_regex(r"[a-z][a-z0-9_.]{1,12}", fullmatch=True)
    indices = st.lists(st.integers(0, MAX_INDEXED - 1), unique=True, max_size=20).map(
        lambda found: tuple(sorted(found))
    )
    tracked = st.builds(lambda n, t, i: gres(n, t, len(i), i), names, types, indices)
    counted = st.builds(gres, names, types, st.integers(0, 1 << 40))
    return tracked | counted


@given(st.lists(allocations(), max_size=6))
def test_what_is_formatted_is_read_back(items: list[Gres]) -> None:
    assert parse_gres(format_gres(items)) == tuple(items)


@given(st.sets(st.integers(0, MAX_INDEXED - 1), min_size=1, max_size=40))
def test_ranges_are_read_back(numbers: set[int]) -> None:
    assert parse_ranges(format_ranges(numbers)) == tuple(sorted(numbers))


@pytest.mark.parametrize("text", ["gpu", "gpu:8", "gpu:h100", "gpu:h100:8", "gpu:nvidia_a100_1g.5gb:2", "gpu:1g.5gb:2"])
def test_requests_that_people_write(text: str) -> None:
    assert str(parse_gres_request(text)) in {text, f"{text}:1"}


@given(
    st.builds(
        GresRequest,
        name=st.from_regex(r"[a-z]{2,8}", fullmatch=True),
        type=st.just("") | st.from_regex(r"[a-z][a-z0-9_.]{1,12}", fullmatch=True),
        count=st.integers(1, MAX_INDEXED),
    )
)
def test_a_request_is_read_back(request: GresRequest) -> None:
    assert parse_gres_request(str(request)) == request


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "is written name"),
        ("gpu:h100:0", "0 is outside 1..1024"),
        ("gpu:h100:-1", "-1 is outside 1..1024"),
        ("gpu:-1", "-1 is outside 1..1024"),
        ("gpu:1000000000", "1000000000 is outside"),
        ("gpu:h100:99999999999999999999999999", "99999999999999999999 is outside"),
        ("gpu:h100:eight", "'eight' is not a whole number"),
        ("gpu:h100:2.5", "'2.5' is not a whole number"),
        ("gpu:h100:1K", "'1K' is not a whole number"),
        ("gpu:h100:", "'' is not a whole number"),
        ("gpu:h100:٣", "is not a whole number"),
        ("gpu:1g.5gb", "'1g.5gb' is not a whole number"),
        ("gpu:h100:8,gpu:h100:8", "several are given"),
        ("gpu:h100:8:9", "is written name"),
        ("gres/gpu:8", "is written name"),
        ("gpu=8", "is written name"),
        ("gpu::8", "is written name"),
        ("gpu h100", "is written name"),
        ("gpu:h100:8(IDX:0-7)", "is written name"),
        (":8", "is written name"),
        ("gpu:h100:8\n", "is not a whole number"),
    ],
)
def test_mistakes_are_named(text: str, problem: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse_gres_request(text)
    assert problem in str(caught.value)


@given(st.text(max_size=40))
def test_a_request_is_read_or_refused(text: str) -> None:
    try:
        request = parse_gres_request(text)
    except ParseError:
        return
    assert 1 <= request.count <= MAX_INDEXED


class TestConfigured:
    def test_a_node_that_reports_indices_is_tracked(self) -> None:
        found, _ = configured_gres("gpu:h100:8(S:0-1)", "gpu:h100:3(IDX:1-2,5)")
        assert found == (gres("gpu", "h100", 8, tuple(range(8))),)
        assert found[0].is_tracked

    def test_an_idle_tracked_node_says_not_available(self) -> None:
        found, _ = configured_gres("gpu:h100:8(S:0-1)", "gpu:h100:0(IDX:N/A)")
        assert found[0].is_tracked

    @pytest.mark.parametrize("used", ["gpu:h100:0", "gpu:h100:3", "", "gpu:h100:3(IDX:1-2,"])
    def test_a_node_that_only_counts_is_untracked(self, used: str) -> None:
        found, _ = configured_gres("gpu:h100:8", used)
        assert found == (gres("gpu", "h100", 8),)

    def test_positions_run_over_all_types_of_a_name(self) -> None:
        found, _ = configured_gres(
            "gpu:a100:1,gpu:3g.20gb:2,gpu:1g.5gb:5,fpga:x1:2",
            "gpu:a100:1(IDX:0),gpu:3g.20gb:2(IDX:1-2),gpu:1g.5gb:3(IDX:3-5),fpga:x1:1",
        )
        assert [item.indices for item in found] == [(0,), (1, 2), (3, 4, 5, 6, 7), None]

    def test_an_index_out_of_place_makes_the_name_untracked(self) -> None:
        found, _ = configured_gres("gpu:a:2,gpu:b:2", "gpu:a:1(IDX:3),gpu:b:0(IDX:N/A)")
        assert [item.indices for item in found] == [None, None]

    def test_a_shared_gres_is_untracked_and_leaves_the_gpus_alone(self) -> None:
        found, _ = configured_gres("gpu:h100:2(S:0),shard:h100:8(S:0)", "gpu:h100:0(IDX:N/A),shard:h100:1(1/4,0/4)")
        assert [item.indices for item in found] == [(0, 1), None]

    def test_a_socket_is_known_only_when_it_is_the_only_one(self) -> None:
        used = "gpu:a:0(IDX:N/A),gpu:b:0(IDX:N/A)"
        assert configured_gres("gpu:a:2(S:0),gpu:b:2(S:1)", used)[1] == {0: 0, 1: 0, 2: 1, 3: 1}
        assert configured_gres("gpu:a:2(S:0-1),gpu:b:2", used)[1] == {}
