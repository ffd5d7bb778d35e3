"""The fewest domains for a gang of whole nodes, level by level from coarse to fine, by a program of its own.

It knows nothing of the search in ``bridge.placement`` and judges both Slurm and us. ``tests/bench`` compares it with
trying every set of nodes.

A leaf with c free nodes gives up to c // segment units. A domain's table says, for each number of units, the least cost
of taking exactly so many from it; the cost is the number of touched domains of each level, coarsest first, as digits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

BASE = 1 << 16
"""More domains than any level has."""

Counts = tuple[int, ...]


class Optimum:
    """Answers for one state of a fleet and one size of segment, for gangs of up to ``limit`` nodes."""

    def __init__(
        self, homes: Mapping[str, tuple[str, ...]], free: Iterable[str], *, limit: int, segment: int = 1
    ) -> None:
        self._segment = segment
        self._levels = len(next(iter(homes.values())))
        self._limit = limit // segment
        tables = {leaf: self._leaf(count) for leaf, count in Counter(homes[name] for name in free).items()}
        for depth in range(self._levels - 1, -1, -1):
            above: dict[tuple[str, ...], list[int]] = {}
            for path in sorted(tables):
                parent = path[:-1]
                above[parent] = self._joined(above.get(parent, [0]), tables[path])
            tables = {path: self._entered(costs, depth) for path, costs in above.items()}
        self._costs = tables.get((), [0])

    def counts(self, nodes: int) -> Counts | None:
        """Return the least number of domains of each level for ``nodes`` nodes; None when they do not fit."""
        units = nodes // self._segment
        if units >= len(self._costs):
            return None
        cost, digits = self._costs[units], []
        for _ in range(self._levels):
            cost, digit = divmod(cost, BASE)
            digits.append(digit)
        return tuple(reversed(digits))

    def _price(self, depth: int) -> int:
        return int(BASE ** (self._levels - depth))

    def _leaf(self, free: int) -> list[int]:
        return [0] + [self._price(self._levels)] * min(free // self._segment, self._limit)

    def _entered(self, costs: list[int], depth: int) -> list[int]:
        return [0, *(cost + self._price(depth) for cost in costs[1:])] if depth else costs

    def _joined(self, left: list[int], right: list[int]) -> list[int]:
        length = min(self._limit, len(left) + len(right) - 2) + 1
        joined = []
        for units in range(length):
            first, last = max(0, units - len(left) + 1), min(units, len(right) - 1)
            joined.append(min(left[units - own] + right[own] for own in range(first, last + 1)))
        return joined


def touched(homes: Mapping[str, tuple[str, ...]], nodes: Iterable[str]) -> Counts:
    """Return how many domains of each level the nodes are in."""
    paths = [homes[name] for name in nodes]
    return tuple(len({path[depth] for path in paths}) for depth in range(len(paths[0])))
