"""Tree knapsack: the cheapest way to take x units from a set of domains, for every x at once.

A table holds, for each number of units, the least cost of taking exactly so many; costs are integers, so that a
lexicographic order of objectives is one number (see ``weights``). Combining the tables of sibling domains is a (min, +)
convolution; with additive costs the result is optimal. Taking from a finest domain costs ``entry`` once, and then what
its nodes cost, cheapest first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import add

IMPOSSIBLE = 1 << 4096
"""More than any cost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """``costs[x]`` is for x units. ``slope`` is set when ``costs[x] == costs[1] - slope * (x - 1)`` for all x > 0: such
    a table combines in linear time. ``parts`` and ``partial`` lead back from a cost to who gives how much: the tables
    that were combined, and the costs after each of them. ``step``: children's units in one of ours.
    """

    costs: Sequence[int]
    slope: int | None = None
    parts: tuple[Table, ...] = ()
    partial: tuple[Sequence[int], ...] = ()
    step: int = 1

    def split(self, units: int) -> list[int]:
        """Return how many units each part gives in the cheapest way to give ``units``; earlier parts give most."""
        left = units * self.step
        shares = [0] * len(self.parts)
        for number in range(len(self.parts) - 1, -1, -1):
            before = self.partial[number - 1] if number else (0,)
            own, total = self.parts[number].costs, self.partial[number][left]
            for share in range(max(0, left - len(before) + 1), min(left, len(own) - 1) + 1):
                if before[left - share] + own[share] == total:
                    shares[number] = share
                    break
            left -= shares[number]
        return shares


def nodes_table(
    node_costs: Sequence[int], *, entry: int, stranded: int, limit: int, least: int = 0, step: int = 1
) -> Table:
    """Return the table of a finest domain with nodes of ``node_costs``, to be taken in that order: up to ``limit``
    units of ``step`` nodes, no fewer than ``least`` nodes. Every node that stays unused costs ``stranded`` > 0.
    """
    count = min(len(node_costs), limit * step)
    rest = entry + stranded * len(node_costs)
    if step == 1 and count and not least and not node_costs[count - 1]:
        return Table(costs=[0, *range(rest - stranded, rest - stranded * (count + 1), -stranded)], slope=stranded)
    running = list(accumulate(node_costs[:count], initial=rest))
    costs = [0, *(running[used] - stranded * used for used in range(step, count + 1, step))]
    return Table(costs=[IMPOSSIBLE if used * step < least else cost for used, cost in enumerate(costs)])


def combined(parts: Sequence[Table], *, entry: int, limit: int, step: int = 1) -> Table:
    """Return the table of a domain with ``parts`` below it, up to ``limit`` units of ``step`` of theirs."""
    most = limit * step
    partial: list[Sequence[int]] = []
    costs: Sequence[int] = (0,)
    for part in parts:
        costs = _linear(costs, part, most) if part.slope is not None else _general(costs, part.costs, most)
        partial.append(costs)
    own = [costs[0], *(costs[used] + entry for used in range(step, len(costs), step))]
    return Table(costs=own, parts=tuple(parts), partial=tuple(partial), step=step)


def _general(before: Sequence[int], own: Sequence[int], most: int) -> list[int]:
    """Return min over y of ``before[x - y] + own[y]`` for every x up to ``most``."""
    length = min(most, len(before) + len(own) - 2) + 1
    padded = [IMPOSSIBLE] * (len(own) - 1) + list(before) + [IMPOSSIBLE] * max(0, length - len(before))
    backwards = list(reversed(own))
    width = len(own)
    return [min(map(add, padded[x : x + width], backwards)) for x in range(length)]


def _linear(before: Sequence[int], part: Table, most: int) -> list[int]:
    """As ``_general`` for a part whose cost falls by ``slope`` with every unit after the first: a sliding minimum."""
    slope, width = part.slope or 0, len(part.costs) - 1
    length = min(most, len(before) - 1 + width) + 1
    first = part.costs[1] + slope
    result = [IMPOSSIBLE] * length
    window: deque[tuple[int, int]] = deque()
    known = len(before)
    for x in range(length):
        if window and window[0][0] < x - width:
            window.popleft()
        best = before[x] if x < known else IMPOSSIBLE
        if window:
            taken = first - slope * x + window[0][1]
            best = min(best, taken)
        result[x] = best
        if x < known:
            level = before[x] + slope * x
            while window and window[-1][1] >= level:
                window.pop()
            window.append((x, level))
    return result
