"""What is free on every node, kept while gangs come and go within a cycle; counts per domain follow each change.

Scratch state of one planner: mutable, never shared. Reading a fleet costs O(nodes) once per shape of pod; a change
costs O(levels x shapes) per node.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from operator import itemgetter

from bridge.model.gres import GresRequest
from bridge.placement.knapsack import Table
from bridge.placement.request import NodeCapacity, Request
from bridge.placement.tree import FLEET, Tree, build_tree


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What decides how many pods fit on a node: a pod's demand, and how many of them a node must take."""

    gres: GresRequest
    cpus: int
    memory_mib: int
    width: int
    without: frozenset[str] = frozenset()

    @staticmethod
    def of(request: Request, width: int) -> Shape:
        """Return the shape of ``request`` with ``width`` pods on a node."""
        return Shape(
            gres=request.gres,
            cpus=request.cpus_per_pod,
            memory_mib=request.memory_mib_per_pod,
            width=width,
            without=request.exclude,
        )


class Counts:
    """For one shape: how many nodes of each domain are able, and of each finest domain which, cheapest first.

    A node's cost is what it loses as a whole: 1 if it was whole and would not be used up, else 0; then the devices that
    stay unused beside the pods. Both are small ints in one: ``broken * WASTE_BASE + waste``.
    """

    def __init__(self, board: Board, shape: Shape) -> None:
        self.shape = shape
        self.able = [0] * len(board.tree.paths)
        self.is_clean = shape.gres.count * shape.width >= board.largest(shape.gres.type)
        """True when a pod fills a node, whatever the node: then nodes cost nothing."""
        self._board = board
        self._is_able: dict[str, bool] = {}
        self._ranked: dict[int, tuple[tuple[str, int], ...]] = {}
        self.tables: list[dict[Hashable, Table]] = [{} for _ in self.able]
        """Tables of the knapsack by domain, as long as nothing in the domain changes."""
        for name in board.nodes:
            self.refresh(name)

    def refresh(self, name: str) -> None:
        """Look at a node again that changed."""
        board, tree = self._board, self._board.tree
        is_able = board.fits(name, self.shape)
        self._ranked.pop(tree.home[name], None)
        step = is_able - self._is_able.get(name, False)
        self._is_able[name] = is_able
        domain = tree.home[name]
        while domain >= FLEET:
            self.able[domain] += step
            if self.tables[domain]:
                self.tables[domain].clear()
            domain = tree.parents[domain]

    def is_able(self, name: str) -> bool:
        """Return whether the node takes the shape."""
        return self._is_able[name]

    def ranked(self, domain: int) -> tuple[tuple[str, int], ...]:
        """Return the able nodes of a finest domain with what each costs, cheapest first, then in rank order."""
        found = self._ranked.get(domain)
        if found is None:
            board = self._board
            able = [
                (name, board.node_cost(name, self.shape)) for name in board.tree.members[domain] if self._is_able[name]
            ]
            found = self._ranked[domain] = tuple(sorted(able, key=itemgetter(1)))
        return found


class Board:
    """Free capacity of a fleet. ``broken`` counts, per domain, the nodes that are not whole: 0 means a whole domain."""

    WASTE_BASE = 1 << 16
    """More devices than any node has: a broken node weighs more than any waste."""

    def __init__(self, nodes: Iterable[NodeCapacity], levels: Sequence[str]) -> None:
        self.nodes = {node.name: node for node in nodes}
        self.tree: Tree = build_tree(levels, {name: node.domains for name, node in self.nodes.items()})
        self.broken = [0] * len(self.tree.paths)
        self._counts: dict[Shape, Counts] = {}
        self._largest: dict[str, int] = {}
        for name, node in self.nodes.items():
            for type_, free in (*node.gpus.items(), ("", node.free_gpus(""))):
                self._largest[type_] = max(self._largest.get(type_, 0), free + node.busy_gpus)
            if not node.is_whole:
                self._mark(name, 1)

    def counts(self, shape: Shape) -> Counts:
        """Return the counts of a shape; they stay true until the board goes."""
        if shape not in self._counts:
            self._counts[shape] = Counts(self, shape)
        return self._counts[shape]

    def widest(self, request: Request) -> int:
        """Return an upper bound of the pods of ``request`` that any node could take if it were empty."""
        return self.largest(request.gres.type) // request.gres.count

    def largest(self, type_: str) -> int:
        """Return the most devices of a type that any node has, free or not; of any one type for ``""``."""
        return self._largest.get(type_, 0)

    def fits(self, name: str, shape: Shape) -> bool:
        """Return whether the node takes ``shape.width`` pods."""
        node, width = self.nodes[name], shape.width
        return (
            node.free_gpus(shape.gres.type) >= shape.gres.count * width
            and node.cpus >= shape.cpus * width
            and node.memory_mib >= shape.memory_mib * width
            and name not in shape.without
        )

    def node_cost(self, name: str, shape: Shape) -> int:
        """Return what the node loses by taking ``shape.width`` pods."""
        node = self.nodes[name]
        waste = node.free_gpus(shape.gres.type) - shape.gres.count * shape.width
        return (self.WASTE_BASE if node.is_whole and waste else 0) + waste

    def take(self, name: str, gres: GresRequest, *, cpus: int = 0, memory_mib: int = 0) -> None:
        """Take devices, CPUs and memory (totals) of a node; more than is free is allowed and leaves it below zero."""
        node = self.nodes[name]
        type_ = gres.type or max(sorted(node.gpus), key=node.gpus.__getitem__, default="")
        gpus = {**node.gpus, type_: node.gpus.get(type_, 0) - gres.count}
        # Spelled out: dataclasses.replace takes three times as long, and this is done for every node of every gang.
        self.put(
            NodeCapacity(
                name=name,
                gpus=gpus,
                busy_gpus=node.busy_gpus + gres.count,
                cpus=node.cpus - cpus,
                memory_mib=node.memory_mib - memory_mib,
                closed=node.closed,
                domains=node.domains,
            )
        )

    def put(self, node: NodeCapacity) -> NodeCapacity:
        """Set what a node of the board gives now, and return what it gave before: putting that back undoes it."""
        name = node.name
        before = self.nodes[name]
        self.nodes[name] = node
        if node.is_whole != before.is_whole:
            self._mark(name, before.is_whole - node.is_whole)
        for counts in self._counts.values():
            counts.refresh(name)
        return before

    def _mark(self, name: str, step: int) -> None:
        domain = self.tree.home[name]
        while domain >= FLEET:
            self.broken[domain] += step
            domain = self.tree.parents[domain]
