"""Trackable resources as slurmctld writes them: ``cpu=4,mem=62.50G,node=1,gres/gpu=3,gres/gpu:h100=3``."""

from __future__ import annotations

import re

from bridge.accounting.gres import parse_gres_items
from bridge.model.gres import GresRequest

_VALUE = re.compile(r"([0-9]+(?:\.[0-9]+)?)([KMGTP]?)", re.IGNORECASE)
_MEMORY = "MGTP"


def parse_tres(text: str) -> dict[str, int]:
    """Return count by TRES name; ``mem`` in MiB. Items without a readable number are left out.

    A typed GRES appears under both its names (``gres/gpu`` and ``gres/gpu:h100``); never add the two.
    """
    found: dict[str, int] = {}
    for item in text.split(","):
        name, _, value = item.partition("=")
        match = _VALUE.fullmatch(value)
        if match:
            found[name] = _mebibytes(match) if name == "mem" else int(_scaled(match))
    return found


def gres_requests(text: str) -> tuple[GresRequest, ...]:
    """Return the GRES in a request as slurmctld repeats it (``gres/gpu:h100:2``, ``cpu=2,gres/gpu=1``); total."""
    wanted = ",".join(item for item in text.split(",") if item.startswith(("gres/", "gres:")))
    items = parse_gres_items(wanted)
    return tuple(GresRequest(name=item.name, type=item.type, count=item.count) for item in items)


def _scaled(match: re.Match[str]) -> float:
    return float(match[1]) * 1024.0 ** " KMGTP".index(match[2].upper() or " ")


def _mebibytes(match: re.Match[str]) -> int:
    suffix = match[2].upper()
    if suffix == "K":
        return int(float(match[1]) / 1024)
    return int(float(match[1]) * 1024.0 ** _MEMORY.index(suffix or "M"))
