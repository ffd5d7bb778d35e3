from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.model.fence import Fence

words = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=200)


@given(words, st.integers(0, 4_000_000_000), words)
def test_a_fence_is_read_back_as_it_was_written(by, at, reason):
    fence = Fence(by=by, at=at, reason=reason)
    assert Fence.loads(fence.dumps()) == fence


def test_the_annotation_is_small_json_that_people_can_read():
    fence = Fence(by="admin", at=1_767_323_045, reason="powered off, Jörg")
    assert fence.dumps() == '{"by": "admin", "at": "2026-01-02T03:04:05Z", "reason": "powered off, Jörg"}'
    assert len(Fence(reason="x" * 10_000).dumps()) < 400


@pytest.mark.parametrize("text", [None, "", "  ", "false", "False", "no", "null"])
def test_what_says_nothing_or_no_is_no_fence(text):
    assert Fence.loads(text) is None


@pytest.mark.parametrize(
    ("text", "fence"),
    [
        pytest.param("psu dead", Fence(reason="psu dead"), id="plain text"),
        pytest.param(" true ", Fence(reason="true"), id="a word"),
        pytest.param("1", Fence(reason="1"), id="a number"),
        pytest.param('{"reason": "psu', Fence(reason='{"reason": "psu'), id="cut JSON"),
        pytest.param("[" * 10_000, Fence(reason="[" * 256), id="deep"),
        pytest.param("{}", Fence(), id="an empty object"),
        pytest.param('{"by": 7, "at": 8, "reason": null}', Fence(by="7"), id="other types"),
        pytest.param('{"at": "yesterday", "reason": "psu"}', Fence(reason="psu"), id="no time"),
        pytest.param('{"at": "2026-01-02T03:04:05"}', Fence(), id="a time of no zone"),
        pytest.param('{"at": "2026-01-02T04:04:05+01:00"}', Fence(at=1_767_323_045), id="another zone"),
        pytest.param(json.dumps({"reason": "x" * 999}), Fence(reason="x" * 256), id="long"),
    ],
)
def test_what_people_write_by_hand_counts(text, fence):
    assert Fence.loads(text) == fence
