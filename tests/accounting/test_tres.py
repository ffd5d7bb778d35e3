"""TRES texts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.accounting.tres import gres_requests, parse_tres
from bridge.model.gres import GresRequest


def test_counts_and_memory() -> None:
    found = parse_tres("cpu=1,mem=62.50G,node=1,billing=1,gres/gpu=3,gres/gpu:h100=3")
    assert found == {"cpu": 1, "mem": 64000, "node": 1, "billing": 1, "gres/gpu": 3, "gres/gpu:h100": 3}


@pytest.mark.parametrize(
    ("text", "mebibytes"), [("mem=100M", 100), ("mem=2048K", 2), ("mem=7", 7), ("mem=1T", 1 << 20)]
)
def test_memory_is_in_mebibytes(text: str, mebibytes: int) -> None:
    assert parse_tres(text) == {"mem": mebibytes}


def test_what_has_no_number_is_left_out() -> None:
    assert parse_tres("cpu=,mem,=3x,node=2") == {"node": 2}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("gres/gpu:h100:2", [("gpu", "h100", 2)]),
        ("gres/gpu=2", [("gpu", "", 2)]),
        ("gres/gpu", [("gpu", "", 1)]),
        ("cpu=2,gres/gpu=1", [("gpu", "", 1)]),
        ("gres/gpu:2,gres/fpga:x1:1", [("gpu", "", 2), ("fpga", "x1", 1)]),
        ("gres/tmpdisk:1K", [("tmpdisk", "", 1024)]),
        ("", []),
        ("cpu=4", []),
    ],
)
def test_requests_as_slurmctld_repeats_them(text: str, expected: list[tuple[str, str, int]]) -> None:
    assert gres_requests(text) == tuple(GresRequest(name=n, type=t, count=c) for n, t, c in expected)


@given(st.text(max_size=60))
def test_both_are_total(text: str) -> None:
    parse_tres(text)
    gres_requests(text)
