from __future__ import annotations

import signal

import pytest

from operators import failpoints


@pytest.fixture
def signals(monkeypatch):
    """Signals that the process would have sent to itself."""
    sent: list[int] = []
    monkeypatch.setattr(failpoints.os, "kill", lambda _, number: sent.append(number))
    failpoints._passed.clear()
    return sent


def test_nobody_dies_where_nobody_asked(signals, monkeypatch):
    monkeypatch.delenv(failpoints.DIE_AT, raising=False)
    failpoints.reach("before:SubmitHold")
    assert signals == []


@pytest.mark.parametrize(
    ("chosen", "places", "expected"),
    [
        ("before:SubmitHold", ["before:SubmitHold"], 1),
        ("before:SubmitHold", ["after:SubmitHold", "before:CreatePod"], 0),
        ("after:CreatePod:2", ["after:CreatePod"] * 2, 0),
        ("after:CreatePod:2", ["after:CreatePod"] * 3, 1),
        ("before:StatusRunning", ["before:StatusRunning"], 1),
    ],
)
def test_the_process_dies_at_the_chosen_place_after_so_many_passes(signals, monkeypatch, chosen, places, expected):
    monkeypatch.setenv(failpoints.DIE_AT, chosen)
    for place in places:
        failpoints.reach(place)
    assert signals == [signal.SIGKILL] * expected


def test_the_process_freezes_at_the_chosen_place_and_only_once(signals, monkeypatch):
    monkeypatch.setenv(failpoints.FREEZE_AT, "checked:create pods:1")
    for _ in range(4):
        failpoints.reach("checked:create pods")
    assert signals == [signal.SIGSTOP]
