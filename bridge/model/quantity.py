"""Kubernetes resource quantities as ints in base units."""

from __future__ import annotations

import re
from decimal import Decimal

from bridge.errors import ParseError

_DIGITS = "[0-9]{1,30}"  # more digits, or a longer exponent, is no amount of anything and would take for ever to expand
_QUANTITY = re.compile(
    rf"(?P<number>[+-]?(?:{_DIGITS}(?:\.[0-9]{{0,30}})?|\.{_DIGITS})(?:[eE][+-]?[0-9]{{1,2}})?)"
    r"(?P<suffix>[KMGTPE]i|[numkMGTPE]?)"
)
_SUFFIXES = {
    "": Decimal(1),
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "k": Decimal(10**3),
    **{letter: Decimal(1000 ** (power + 2)) for power, letter in enumerate("MGTPE")},
    **{f"{letter}i": Decimal(1024 ** (power + 1)) for power, letter in enumerate("KMGTPE")},
}
MIB = 1024 * 1024


def parse_quantity(text: str) -> Decimal:
    """Return the value of ``500m``, ``1.5``, ``4Gi``, ``1e3``; ParseError when it is no quantity or negative."""
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise ParseError(text, "is no quantity")
    value = Decimal(match["number"]) * _SUFFIXES[match["suffix"]]
    if value < 0:
        raise ParseError(text, "is a negative quantity")
    return value


def parse_milli_cpu(text: str) -> int:
    """Return CPUs in thousandths, rounded up."""
    return _ceil(parse_quantity(text) * 1000)


def parse_mib(text: str) -> int:
    """Return memory in MiB, rounded up."""
    return _ceil(parse_quantity(text) / MIB)


def _ceil(value: Decimal) -> int:
    whole = int(value)
    return whole + (value > whole)
