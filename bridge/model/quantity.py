"""Kubernetes resource quantities as ints in base units."""

from __future__ import annotations

import re
from decimal import Decimal

from bridge.errors import ParseError

_QUANTITY = re.compile(r"(?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)(?P<suffix>[KMGTPE]i|[numkMGTPE]?)")
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
    """Return the value of ``500m``, ``1.5``, ``4Gi``, ``1e3``; ParseError when it is no quantity."""
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise ParseError(text, "is no quantity")
    return Decimal(match["number"]) * _SUFFIXES[match["suffix"]]


def parse_milli_cpu(text: str) -> int:
    """Return CPUs in thousandths, rounded up."""
    return _ceil(parse_quantity(text) * 1000)


def parse_mib(text: str) -> int:
    """Return memory in MiB, rounded up."""
    return _ceil(parse_quantity(text) / MIB)


def _ceil(value: Decimal) -> int:
    whole = int(value)
    return whole + (value > whole)
