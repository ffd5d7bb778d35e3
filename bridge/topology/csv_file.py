"""A topology as a table: the first column names the node, the others its domains, coarse to fine; levels in the header.

For fleets that exist on paper only, and for published traces. A name has a meaning within the domains left of it only.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Sequence

from bridge.errors import ParseError
from bridge.model.topology import Topology
from bridge.topology.natural import listed
from bridge.topology.tiers import Tiers, align


def read_csv(
    text: str, levels: Sequence[str] | None = None, known: Collection[str] | None = None, *, name: str = ""
) -> Topology:
    """Return the topology; ``ParseError`` without a header. ``levels`` and ``known`` are as for ``read_conf``."""
    rows = [[cell.strip() for cell in row] for row in csv.reader(io.StringIO(text.removeprefix("\ufeff"))) if any(row)]
    if not rows:
        raise ParseError(text[:80], "no header")
    (_, *header), *body = rows
    depth = len(header) if levels is None else min(len(levels), len(header))
    chains: dict[str, tuple[str, ...]] = {}
    problems = []
    twice: list[str] = []
    for node, *cells in sorted(body):
        if not node or len(cells) != len(header):
            problems.append(f"a row has {len(cells) + 1} columns of {len(header) + 1} and is left out: {node!r}")
        elif chains.setdefault(node, tuple(_kept(cells, depth)[::-1])) != tuple(_kept(cells, depth)[::-1]):
            twice.append(node)
    if twice:
        problems.append(f"nodes with several rows, the first in order is taken: {listed(twice)}")
    tiers = Tiers(names=tuple(header[len(header) - depth :][::-1]), chains=chains, problems=tuple(problems))
    return align(tiers, levels, known, name=name)


def _kept(cells: Sequence[str], depth: int) -> list[str]:
    """Return the finest ``depth`` names, the first qualified by what is dropped: P10 of G6 is not P10 of G7."""
    dropped = len(cells) - depth
    kept = list(cells[dropped:])
    if dropped and kept and kept[0]:
        kept[0] = "/".join(cells[: dropped + 1])
    return kept
