"""The domains of a fleet as arrays, numbered depth first, so that a number says where a domain comes in rank order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from bridge.topology.natural import natural_key

FLEET = 0
"""Number of the root, the whole fleet; its depth is 0, the coarsest level has depth 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """``parents``, ``depths``, ``paths`` and ``children`` are by domain number; ``members`` names the nodes of a finest
    domain in rank order, ``home`` is a node's finest domain, ``order`` its place in the rank order of the whole fleet.
    ``levels`` are coarse to fine.

    ``named`` is False for a domain that has no name of its own (see ``domain_keys``).
    """

    levels: tuple[str, ...]
    paths: tuple[str, ...]
    depths: tuple[int, ...]
    parents: tuple[int, ...]
    children: tuple[tuple[int, ...], ...]
    members: tuple[tuple[str, ...], ...]
    named: tuple[bool, ...]
    home: Mapping[str, int]
    order: Mapping[str, int]

    def at(self, depth: int) -> list[int]:
        """Return the domains of one depth in rank order."""
        return [domain for domain, found in enumerate(self.depths) if found == depth]

    def ancestor(self, domain: int, depth: int) -> int:
        """Return the domain of ``depth`` that ``domain`` lies in."""
        while self.depths[domain] > depth:
            domain = self.parents[domain]
        return domain

    def count(self, nodes: Iterable[str]) -> Mapping[str, int]:
        """Return how many domains of each level the nodes touch, coarse to fine."""
        touched = {self.home[name] for name in nodes}
        counts: list[int] = []
        for _ in self.levels:
            counts.append(len(touched))
            touched = {self.parents[domain] for domain in touched}
        return dict(zip(self.levels, reversed(counts), strict=True))


def build_tree(levels: Sequence[str], domains: Mapping[str, Sequence[str]]) -> Tree:
    """Return the tree of ``domains``: for every node its domain paths, coarse to fine, ``""`` where it has none."""
    return _build(tuple(levels), tuple((node, tuple(paths)) for node, paths in domains.items()))


@lru_cache(maxsize=16)
def _build(levels: tuple[str, ...], domains: tuple[tuple[str, tuple[str, ...]], ...]) -> Tree:
    """Build the tree. Remembered: a fleet's topology is the same in nearly every cycle."""
    root = _Branch(path="", named=True)
    # In rank order a domain's nodes are neighbours, so branches come in rank order too.
    ranked = sorted(domains, key=lambda item: rank_key(item[1], item[0]))
    for node, paths in ranked:
        branch = root
        for path, key in zip(paths[: len(levels)], domain_keys(paths[: len(levels)], node), strict=True):
            branch = branch.below.setdefault(key, _Branch(path=key, named=bool(path)))
        branch.nodes.append(node)
    rows: list[tuple[_Branch, int, int]] = []
    children: list[list[int]] = []

    def number(branch: _Branch, parent: int, depth: int) -> int:
        own = len(rows)
        rows.append((branch, parent, depth))
        children.append([])
        children[own] = [number(below, own, depth + 1) for below in branch.below.values()]
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
        order={node: place for place, (node, _) in enumerate(ranked)},
    )


def domain_keys(paths: Sequence[str], node: str) -> tuple[str, ...]:
    """Return what tells a node's domains apart at every level.

    A domain without a name is as large as the first named one within it, at least the node: nothing says more.
    """
    keys: list[str] = []
    inner = node
    for path in reversed(paths):
        inner = path or inner
        keys.append(inner)
    return tuple(reversed(keys))


def rank_key(domains: Sequence[str], name: str) -> tuple[object, ...]:
    """Return the sort key of a node in rank order: depth first through the levels, then by name."""
    return (*(natural_key(domain) for domain in domains), natural_key(name))


def count_domains(levels: Sequence[str], nodes: Mapping[str, Sequence[str]]) -> Mapping[str, int]:
    """Return how many domains of each level the nodes (with their paths) touch."""
    keys = [domain_keys(paths, name) for name, paths in nodes.items()]
    return {level: len({found[depth] for found in keys}) for depth, level in enumerate(levels)}


class _Branch:
    """A domain while the tree is built."""

    __slots__ = ("below", "named", "nodes", "path")

    def __init__(self, *, path: str, named: bool) -> None:
        self.path = path
        self.named = named
        self.below: dict[str, _Branch] = {}
        self.nodes: list[str] = []
