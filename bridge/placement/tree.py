"""The domains of a fleet as arrays, numbered depth first, so that a number says where a domain comes in rank order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from bridge.topology.labels import natural_key

FLEET = 0
"""Number of the root, the whole fleet; its depth is 0, the coarsest level has depth 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """``parents``, ``depths``, ``paths`` and ``children`` are by domain number; ``members`` names the nodes of a finest
    domain in rank order, ``home`` is a node's finest domain. ``levels`` are coarse to fine.

    A node without a domain at some level stands alone in one without a name: ``named`` is False for it.
    """

    levels: tuple[str, ...]
    paths: tuple[str, ...]
    depths: tuple[int, ...]
    parents: tuple[int, ...]
    children: tuple[tuple[int, ...], ...]
    members: tuple[tuple[str, ...], ...]
    named: tuple[bool, ...]
    home: Mapping[str, int]

    def at(self, depth: int) -> list[int]:
        """Return the domains of one depth in rank order."""
        return [domain for domain, found in enumerate(self.depths) if found == depth]

    def ancestor(self, domain: int, depth: int) -> int:
        """Return the domain of ``depth`` that ``domain`` lies in."""
        while self.depths[domain] > depth:
            domain = self.parents[domain]
        return domain


def build_tree(levels: Sequence[str], domains: Mapping[str, Sequence[str]]) -> Tree:
    """Return the tree of ``domains``: for every node its domain paths, coarse to fine, ``""`` where it has none."""
    return _build(tuple(levels), tuple((node, tuple(paths)) for node, paths in domains.items()))


@lru_cache(maxsize=16)
def _build(levels: tuple[str, ...], domains: tuple[tuple[str, tuple[str, ...]], ...]) -> Tree:
    """Build the tree. Remembered: a fleet's topology is the same in nearly every cycle."""
    root = _Branch(path="", named=True)
    for node, paths in sorted(domains, key=lambda item: natural_key(item[0])):
        branch = root
        for path in paths[: len(levels)]:
            key = path or f"{branch.path}/~{node}"
            branch = branch.below.setdefault(key, _Branch(path=key, named=bool(path)))
        branch.nodes.append(node)
    rows: list[tuple[_Branch, int, int]] = []
    children: list[list[int]] = []

    def number(branch: _Branch, parent: int, depth: int) -> int:
        own = len(rows)
        rows.append((branch, parent, depth))
        children.append([])
        for key in sorted(branch.below, key=natural_key):
            children[own].append(number(branch.below[key], own, depth + 1))
        return own

    number(root, -1, 0)
    return Tree(
        levels=levels,
        paths=tuple(branch.path for branch, _, _ in rows),
        depths=tuple(depth for _, _, depth in rows),
        parents=tuple(parent for _, parent, _ in rows),
        children=tuple(tuple(below) for below in children),
        members=tuple(tuple(branch.nodes) for branch, _, _ in rows),
        named=tuple(branch.named for branch, _, _ in rows),
        home={node: number for number, (branch, _, _) in enumerate(rows) for node in branch.nodes},
    )


class _Branch:
    """A domain while the tree is built."""

    __slots__ = ("below", "named", "nodes", "path")

    def __init__(self, *, path: str, named: bool) -> None:
        self.path = path
        self.named = named
        self.below: dict[str, _Branch] = {}
        self.nodes: list[str] = []
