from __future__ import annotations

import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.model.hold import ExitStatus, GangKey, Marker

NAMES = st.text(st.characters(codec="utf-8", exclude_characters="/"), max_size=63)


@given(uid=st.text(max_size=40), attempt=st.integers(1, 10**6), namespace=NAMES, name=NAMES)
def test_a_marker_is_read_back_whatever_the_names_are(uid, attempt, namespace, name):
    marker = Marker(key=GangKey(uid=uid, attempt=attempt), namespace=namespace, name=name)
    assert Marker.loads(marker.dumps()) == marker


def test_a_marker_is_one_short_line():
    marker = Marker(key=GangKey(uid="3f2a", attempt=2), namespace="research", name="llm")
    assert marker.dumps() == '{"gangbridge":1,"uid":"3f2a","attempt":2,"gang":"research/llm","cluster":""}'


@pytest.mark.parametrize(
    "text",
    [
        "",
        "please keep",
        "{}",
        '{"gangbridge":',
        '{"gangbridge":1}',
        '{"gangbridge":1,"uid":"u","attempt":"x","gang":"a/b"}',
        '{"gangbridge":1,"uid":"u","attempt":null,"gang":"a/b"}',
        '{"gangbridge":1,"uid":"u","attempt":Infinity,"gang":"a/b"}',
        '{"gangbridge":1,"uid":"u","attempt":NaN,"gang":"a/b"}',
        '{"gangbridge":1,"uid":"u","attempt":1,"gang":7}',
        '{"gangbridge":2,"uid":"u","attempt":1,"gang":"a/b"}',
        '{"gangbridge":[],"uid":"u","attempt":1,"gang":"a/b"}',
        '{"gangbridge":1,"uid":"u","attempt":1,"gang":"a/b"} and more',
        ' {"gangbridge":1,"uid":"u","attempt":1,"gang":"a/b"}',
        '{"gangbridge":' + "[" * 100_000,
        '{"gangbridge":1,"attempt":' + "9" * 5000 + ',"uid":"u","gang":"a/b"}',
    ],
    ids=lambda text: text[:40] or "empty",
)
def test_anything_else_is_no_marker_and_no_crash(text):
    assert Marker.loads(text) is None


@given(st.recursive(st.none() | st.booleans() | st.floats() | st.text(), st.lists, max_leaves=5))
def test_a_marker_with_any_json_in_its_fields_is_read_or_refused(value):
    for field in ("uid", "attempt", "gang", "gangbridge"):
        good = {"gangbridge": 1, "uid": "u", "attempt": 1, "gang": "a/b"}
        Marker.loads(json.dumps(good | {field: value}, separators=(",", ":")))


@pytest.mark.parametrize("status", [ExitStatus(), ExitStatus(code=3), ExitStatus(code=255), ExitStatus(signal=9)])
def test_the_wait_status_is_what_wait_returns(status):
    wait = status.wait_status
    if status.signal:
        assert os.WIFSIGNALED(wait)
        assert os.WTERMSIG(wait) == status.signal
    else:
        assert os.WIFEXITED(wait)
        assert os.WEXITSTATUS(wait) == status.code


def test_a_code_that_does_not_fit_a_byte_is_not_taken_for_a_signal():
    assert ExitStatus(code=256 + 3).wait_status == ExitStatus(code=3).wait_status
