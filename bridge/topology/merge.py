"""One topology out of several sources: the first that knows wins, the others fill what it leaves open.

Sources are compared by the names of domains. What a later source may fill:

* a node that the ones before put nowhere;
* the coarse levels of a domain, for all of the domain: leaf-1 is in spine-1 because one of its nodes says so;
* the finer levels of a node, unless the source puts the node elsewhere at a coarser level.

Everything else that differs is a conflict: level, what each says, the nodes. The order of the nodes never matters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bridge.model.topology import Topology
from bridge.topology.natural import listed, natural_key
from bridge.topology.paths import names_of, paths_of

_Names = Mapping[str, Sequence[str]]


def merge(sources: Sequence[Topology], *, name: str = "") -> Topology:
    """Return the sources as one; their levels must be the same (``ValueError``), so read each for the same Fleet."""
    if not sources:
        return Topology(name=name)
    levels = sources[0].levels
    if any(source.levels != levels for source in sources):
        raise ValueError(f"levels differ: {sorted({source.levels for source in sources})}")
    titles = [source.name or f"source {number}" for number, source in enumerate(sources, 1)]
    problems = [
        f"{title}: {problem}" for title, source in zip(titles, sources, strict=True) for problem in source.problems
    ]
    merged = _names(sources[0])
    for position, source in enumerate(sources[1:], 1):
        merged, conflicts = _Merge(merged, _names(source), levels, "+".join(titles[:position]), titles[position]).run()
        problems += conflicts
    domains = {node: paths_of(names) for node, names in merged.items()}
    nowhere = [node for node, names in merged.items() if not any(names)]
    if nowhere and len(nowhere) < len(merged):
        problems.append(f"no source has a domain for {listed(nowhere)}")
    return Topology(
        name=name or "+".join(titles),
        levels=levels,
        domains=domains,
        problems=tuple(sorted(set(problems), key=natural_key)),
        is_default=any(source.is_default for source in sources),
    )


def _names(source: Topology) -> dict[str, tuple[str, ...]]:
    return {node: names_of(paths) for node, paths in source.domains.items()}


class _Merge:
    """Two sources on the way to one."""

    def __init__(
        self, first: _Names, second: _Names, levels: Sequence[str], first_title: str, second_title: str
    ) -> None:
        self._first = first
        self._second = second
        self._levels = levels
        self._titles = (first_title, second_title)
        self._conflicts: dict[tuple[int, str, str], list[str]] = {}
        self._paths = {node: paths_of(names) for node, names in first.items()}

    def run(self) -> tuple[dict[str, tuple[str, ...]], list[str]]:
        """Return the names of every node's domains, and the conflicts."""
        for node in self._first.keys() & self._second.keys():
            for depth in self._clashes(node):
                key = (depth, self._first[node][depth], self._second[node][depth])
                self._conflicts.setdefault(key, []).append(node)
        above = self._above()
        merged = {node: tuple(names) for node, names in self._second.items() if node not in self._first}
        for node in self._first:
            merged[node] = self._joined(node, above)
        return merged, [self._told(*key, nodes) for key, nodes in self._conflicts.items()]

    def _clashes(self, node: str) -> list[int]:
        pairs = zip(self._first[node], self._second[node], strict=True)
        return [depth for depth, (mine, theirs) in enumerate(pairs) if mine and theirs and mine != theirs]

    def _above(self) -> dict[tuple[str, int], str]:
        """Return what the second source has above the domains of the first: by domain and level."""
        said: dict[tuple[str, int], dict[str, list[str]]] = {}
        for node in self._first.keys() & self._second.keys():
            clashes = self._clashes(node)
            for depth in range(len(self._levels)):
                anchor = self._anchor(node, depth)
                theirs = self._second[node][depth]
                if anchor is not None and theirs and anchor not in clashes:
                    key = (self._paths[node][anchor], depth)
                    said.setdefault(key, {}).setdefault(theirs, []).append(node)
        chosen = {key: min(names, key=natural_key) for key, names in said.items()}
        for key, names in said.items():
            for other in names.keys() - {chosen[key]}:
                self._conflicts.setdefault((key[1], chosen[key], other), []).extend(names[other])
        return chosen

    def _anchor(self, node: str, depth: int) -> int | None:
        """Return the next finer level that the first source knows, if it knows nothing at ``depth`` itself."""
        names = self._first[node]
        if names[depth]:
            return None
        return next((finer for finer in range(depth + 1, len(names)) if names[finer]), None)

    def _joined(self, node: str, above: Mapping[tuple[str, int], str]) -> tuple[str, ...]:
        names = list(self._first[node])
        may_refine = node in self._second and not self._clashes(node)
        for depth, mine in enumerate(self._first[node]):
            anchor = self._anchor(node, depth)
            if anchor is not None:
                names[depth] = above.get((self._paths[node][anchor], depth), "")
            elif not mine and may_refine:
                names[depth] = self._second[node][depth]
        return tuple(names)

    def _told(self, depth: int, mine: str, theirs: str, nodes: Sequence[str]) -> str:
        first, second = self._titles
        return (
            f"conflict at level {self._levels[depth]}: {first} has {listed(nodes)} in {mine}, "
            f"{second} in {theirs}; {mine} is taken"
        )
