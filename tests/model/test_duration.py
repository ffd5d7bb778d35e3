from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.errors import ParseError
from bridge.model.duration import MAX_MINUTES, format_time_limit, parse_time_limit


@pytest.mark.parametrize(
    ("text", "minutes"),
    [
        pytest.param("4h", 240, id="go hours"),
        pytest.param("1h30m", 90, id="go hours and minutes"),
        pytest.param("2d", 2880, id="go days"),
        pytest.param("1d2h3m4s", 1564, id="go everything, rounded up"),
        pytest.param("90s", 2, id="go seconds round up"),
        pytest.param("60s", 1, id="go whole minute does not round"),
        pytest.param("30", 30, id="slurm minutes"),
        pytest.param("30:00", 30, id="slurm minutes and seconds"),
        pytest.param("0:30", 1, id="slurm seconds round up"),
        pytest.param("1:30:00", 90, id="slurm hours minutes seconds"),
        pytest.param("1-12", 2160, id="slurm days and hours"),
        pytest.param("1-12:30", 2190, id="slurm days hours minutes"),
        pytest.param("1-12:30:01", 2191, id="slurm full form, rounded up"),
        pytest.param("366-0", MAX_MINUTES, id="the longest"),
    ],
)
def test_both_notations_are_whole_minutes(text, minutes):
    assert parse_time_limit(text) == minutes


@pytest.mark.parametrize(
    "text",
    ["", "4 h", "h", "4x", "-1h", "1.5h", "1:2:3:4", "1-", "-1", "m30", "infinite", "UNLIMITED", "4h\n", "٣h", "1-1-1"],
)
def test_a_text_of_neither_notation_is_refused_with_the_text(text):
    with pytest.raises(ParseError, match="no time limit") as caught:
        parse_time_limit(text)
    assert repr(text) in str(caught.value)


@pytest.mark.parametrize(
    ("text", "minutes"), [("0", 0), ("0s", 0), ("367d", 367 * 1440), ("366-0:01", MAX_MINUTES + 1)]
)
def test_a_time_outside_a_year_is_refused_with_its_number(text, minutes):
    with pytest.raises(ParseError, match=f"is {minutes} minutes"):
        parse_time_limit(text)


def test_a_number_of_many_digits_is_refused_and_does_not_crash():
    with pytest.raises(ParseError):
        parse_time_limit("9" * 5000)


@given(st.integers(1, MAX_MINUTES))
def test_what_is_formatted_is_read_back(minutes):
    assert parse_time_limit(format_time_limit(minutes)) == minutes


@given(st.text(max_size=20))
def test_any_text_is_minutes_or_a_parse_error(text):
    with contextlib.suppress(ParseError):
        assert 1 <= parse_time_limit(text) <= MAX_MINUTES
