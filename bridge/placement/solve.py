"""The optimum for one gang of identical pods and one width: which domains give how many nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from bridge.placement.board import Board, Counts
from bridge.placement.knapsack import IMPOSSIBLE, Table, combined, nodes_table
from bridge.placement.tree import FLEET
from bridge.placement.weights import Weights


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """Take ``need`` nodes. Depths are the tree's; 0 stands for no level.

    Down to ``segment_depth`` domains give nodes in units of ``unit`` (a segment), below it one by one; one domain of
    ``required_depth`` must give all of them; the domains of ``preferred_depth`` weigh most. The nodes in ``keep`` are
    taken in any case, and nothing outside the domain ``within``.
    """

    need: int
    unit: int = 1
    segment_depth: int = 0
    required_depth: int = 0
    preferred_depth: int = 0
    keep: frozenset[str] = frozenset()
    within: int = FLEET

    def units(self, depth: int) -> int:
        """Return the need in what domains of ``depth`` give."""
        return self.need // self.unit if depth <= self.segment_depth else self.need


@dataclass(frozen=True, slots=True, kw_only=True)
class Solution:
    """The chosen nodes and what the choice costs."""

    cost: int
    nodes: tuple[str, ...]


class Solver:
    """Solves one task on one board for one shape."""

    def __init__(self, board: Board, counts: Counts, weights: Weights, task: Task) -> None:
        self.units = _units(board, counts, task)
        self._board = board
        self._tree = board.tree
        self._counts = counts
        self._weights = weights
        self.task = task
        self._kept: dict[int, int] = {}
        for name in task.keep:
            domain = board.tree.home[name]
            while domain >= FLEET:
                self._kept[domain] = self._kept.get(domain, 0) + 1
                domain = board.tree.parents[domain]

    def solve(self) -> Solution | None:
        """Return the cheapest way, or None when there is none."""
        if not all(self._counts.is_able(name) for name in self.task.keep):
            return None
        best: tuple[int, int, Table] | None = None
        for domain in self.candidates():
            table = self._table(domain)
            cost = table.costs[self.task.units(self._tree.depths[domain])] + self._above(domain)
            if best is None or cost < best[0]:
                best = (cost, domain, table)
            if self._is_perfect(domain, cost):
                break
        if best is None or best[0] >= IMPOSSIBLE:
            return None
        cost, domain, table = best
        nodes: list[str] = []
        self._pick(domain, table, self.task.units(self._tree.depths[domain]), nodes)
        return Solution(cost=cost, nodes=tuple(nodes))

    def _is_perfect(self, domain: int, cost: int) -> bool:
        """Return whether no later candidate is cheaper: all touch as many domains, and this one pays nothing else."""
        below = self._tree.children[domain]
        return not cost % self._weights.rest and not (below and self._tree.children[below[0]])

    def tops(self) -> list[int]:
        """Return the domains that may hold the whole gang: of the required level, or the fleet; able or not."""
        tree, within = self._tree, self.task.within
        depth = tree.depths[within]
        if self.task.required_depth <= depth:
            return [within] if not self.task.required_depth or tree.named[within] else []
        wanted = tree.at(self.task.required_depth)
        return [domain for domain in wanted if tree.named[domain] and tree.ancestor(domain, depth) == within]

    def candidates(self) -> list[int]:
        """Return domains one of which holds the whole gang in the best solution.

        At the finest level at which one domain is enough, any other choice touches more domains of that level; among
        those domains, the ones that need the fewest domains of the next level come first. That is the order of the
        objective, unless a finer level is preferred: then nothing is known before the knapsack is solved.
        """
        tree, task = self._tree, self.task
        units = self.units
        tops = [domain for domain in self.tops() if units[domain] >= task.units(tree.depths[domain])]
        if task.keep:
            return [domain for domain in tops if self._kept.get(domain, 0) == len(task.keep)]
        found, need = tops, 0
        while found and tree.children[found[0]]:
            need = task.units(tree.depths[found[0]] + 1)
            below = [child for domain in found for child in tree.children[domain] if units[child] >= need]
            if not below:
                break
            found = below
        if not found or tree.depths[found[0]] < task.preferred_depth:
            return tops
        if tree.children[found[0]]:
            return self._tightest(found, need)
        return self._snuggest(found)

    def _snuggest(self, found: list[int]) -> list[int]:
        """Narrow finest domains, each of which is enough, down to the best without building tables, where possible.

        Breaking no whole domain comes first; a broken domain lies in broken ones, so the finest level decides.
        """
        tree, broken = self._tree, self._board.broken
        for depth in range(tree.depths[found[0]], 0, -1):
            kept = [domain for domain in found if broken[tree.ancestor(domain, depth)]]
            if kept:
                found = kept
                break
        if not self._counts.is_clean:
            return found
        # Nodes cost nothing, so what is left over decides; the first of equals is the first in rank order.
        return [min(found, key=self._counts.able.__getitem__)]

    def _tightest(self, found: list[int], need: int) -> list[int]:
        """Return those of ``found`` whose largest children reach ``need`` in the fewest of them."""
        steps: dict[int, int] = {}
        for domain in found:
            sizes = sorted((self.units[child] for child in self._tree.children[domain]), reverse=True)
            steps[domain] = next(count for count, total in enumerate(accumulate(sizes), 1) if total >= need)
        fewest = min(steps.values())
        return [domain for domain in found if steps[domain] == fewest]

    def _table(self, domain: int) -> Table:
        known = self._counts.tables[domain]
        key = (self.task, self._weights.touch)
        if key not in known:
            known[key] = self._build_table(domain)
        return known[key]

    def _build_table(self, domain: int) -> Table:
        tree, task = self._tree, self.task
        depth = tree.depths[domain]
        limit = min(self.units[domain], task.units(depth))
        step = self._step(depth)
        if tree.children[domain]:
            parts = [self._table(child) for child in self._givers(domain)]
            return combined(parts, entry=self._entry(domain), limit=limit, step=step)
        costs = [self._weights.node(cost) for _, cost in self._ranked(domain)[: limit * step]]
        spare = (self._counts.able[domain] - len(costs)) * self._weights.stranded
        return nodes_table(
            costs,
            entry=self._entry(domain) + spare,
            stranded=self._weights.stranded,
            least=self._kept.get(domain, 0),
            limit=limit,
            step=step,
        )

    def _ranked(self, domain: int) -> Sequence[tuple[str, int]]:
        """Return the able nodes of a finest domain with their costs: kept ones first, for nothing, then by cost."""
        ranked, keep = self._counts.ranked(domain), self.task.keep
        if not self._kept.get(domain):
            return ranked
        return [(name, 0) for name, _ in ranked if name in keep] + [item for item in ranked if item[0] not in keep]

    def _givers(self, domain: int) -> list[int]:
        """Return the domains below that can give anything, or must."""
        units, kept = self.units, self._kept
        return [child for child in self._tree.children[domain] if units[child] or child in kept]

    def _step(self, depth: int) -> int:
        """Return how many units of the level below make one unit of a domain of ``depth``."""
        return self.task.unit if depth == self.task.segment_depth else 1

    def _entry(self, domain: int) -> int:
        depth = self._tree.depths[domain]
        return self._weights.touch[depth] + (0 if self._board.broken[domain] else self._weights.breach[depth])

    def _above(self, domain: int) -> int:
        """Return the price of the domains that ``domain`` lies in."""
        total = 0
        while domain != FLEET:
            domain = self._tree.parents[domain]
            total += self._entry(domain)
        return total

    def _pick(self, domain: int, table: Table, units: int, nodes: list[str]) -> None:
        tree = self._tree
        if not tree.children[domain]:
            nodes += [name for name, _ in self._ranked(domain)[: units * self._step(tree.depths[domain])]]
            return
        for child, part, share in zip(self._givers(domain), table.parts, table.split(units), strict=True):
            if share:
                self._pick(child, part, share, nodes)


def _units(board: Board, counts: Counts, task: Task) -> list[int]:
    """Return for every domain how many units it could give at most."""
    if task.unit == 1:
        return counts.able
    tree, units = board.tree, list(counts.able)
    for domain in range(len(units) - 1, -1, -1):
        depth = tree.depths[domain]
        if depth == task.segment_depth:
            units[domain] = counts.able[domain] // task.unit
        elif depth < task.segment_depth:
            units[domain] = sum(units[child] for child in tree.children[domain])
    return units
