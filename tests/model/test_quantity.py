from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.errors import ParseError
from bridge.model.quantity import parse_mib, parse_milli_cpu


@pytest.mark.parametrize(
    ("text", "milli"),
    [
        pytest.param("500m", 500, id="thousandths"),
        pytest.param("1.5", 1500, id="decimal"),
        pytest.param(".5", 500, id="no leading digit"),
        pytest.param("2", 2000, id="whole"),
        pytest.param("1e1", 10_000, id="exponent"),
        pytest.param("100u", 1, id="rounds up"),
        pytest.param("0", 0, id="nothing"),
    ],
)
def test_cpus_are_thousandths(text, milli):
    assert parse_milli_cpu(text) == milli


@pytest.mark.parametrize(
    ("text", "mib"),
    [
        pytest.param("4Gi", 4096, id="binary"),
        pytest.param("1Mi", 1, id="one"),
        pytest.param("1G", 954, id="decimal rounds up"),
        pytest.param("1", 1, id="one byte rounds up"),
        pytest.param("1048577", 2, id="one byte over rounds up"),
        pytest.param("1Ti", 1024 * 1024, id="tebi"),
        pytest.param("1024Ki", 1, id="kibi"),
    ],
)
def test_memory_is_mebibytes(text, mib):
    assert parse_mib(text) == mib


@pytest.mark.parametrize("text", ["", "lots", "1 Gi", "1GiB", "1K", "--1", "1e", "NaN", "Infinity", "٣"])
def test_a_text_that_is_no_quantity_is_refused_with_the_text(text):
    with pytest.raises(ParseError, match="quantity") as caught:
        parse_mib(text)
    assert repr(text) in str(caught.value)


@pytest.mark.parametrize("text", ["-1", "-500m"])
def test_a_negative_request_is_refused(text):
    with pytest.raises(ParseError):
        parse_milli_cpu(text)


@pytest.mark.parametrize("text", ["1e999999999", "1e99999", "9" * 5000, "1e-999999999"])
def test_a_number_that_no_machine_has_is_refused_at_once(text):
    with pytest.raises(ParseError):
        parse_milli_cpu(text)


@given(st.integers(0, 10**6))
def test_gibibytes_are_exact(count):
    assert parse_mib(f"{count}Gi") == count * 1024


@given(st.text(alphabet="0123456789.eE+-mkKMGTi", max_size=12))
def test_any_text_is_a_number_or_a_parse_error(text):
    with contextlib.suppress(ParseError):
        assert parse_mib(text) >= 0
