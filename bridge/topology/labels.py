"""Domains of nodes from their Kubernetes labels: topograph's, the GPU operator's clique, or a site's own.

Which label names the domain at a level is the Fleet's word; values are compared whole, within the domain above them,
and never with names of nodes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bridge.model.topology import Topology
from bridge.topology.natural import listed, natural_key
from bridge.topology.paths import names_of, paths_of


def domains_of(labels: Mapping[str, str], levels: Sequence[str], level_labels: Mapping[str, str]) -> tuple[str, ...]:
    """Return the node's domain at every level, coarse to fine, as paths: equal names in two spines stay apart.

    A node without the label of a level is near no other node there (``""``), unless a finer label is shared:
    ``bridge.topology.paths``.
    """
    return paths_of([labels.get(level_labels.get(level, ""), "") for level in levels])


def read_labels(
    nodes: Mapping[str, Mapping[str, str]],
    levels: Sequence[str],
    level_labels: Mapping[str, str],
    *,
    name: str = "labels",
) -> Topology:
    """Return the topology that the labels of ``nodes`` (node name to labels) tell."""
    domains = {node: domains_of(labels, levels, level_labels) for node, labels in nodes.items()}
    problems = [
        *_unused(nodes, levels, level_labels),
        *_repeated(domains, levels, level_labels),
    ]
    return Topology(name=name, levels=tuple(levels), domains=domains, problems=tuple(problems))


def _unused(
    nodes: Mapping[str, Mapping[str, str]], levels: Sequence[str], level_labels: Mapping[str, str]
) -> list[str]:
    problems = []
    for level in levels:
        label = level_labels.get(level, "")
        if not label:
            problems.append(f"level {level} has no label key: no node has a domain there")
        elif nodes and not any(labels.get(label) for labels in nodes.values()):
            problems.append(f"no node has the label {label} of level {level}")
    return problems


def _repeated(
    domains: Mapping[str, tuple[str, ...]], levels: Sequence[str], level_labels: Mapping[str, str]
) -> list[str]:
    """Return a line per level whose values occur in several coarser domains: an NVLink domain cut in two looks so."""
    problems = []
    for depth, level in enumerate(levels):
        places: dict[str, set[str]] = {}
        for paths in domains.values():
            name = names_of(paths)[depth]
            if name:
                places.setdefault(name, set()).add(paths[depth])
        repeated = {name: paths for name, paths in places.items() if len(paths) > 1}
        if repeated:
            first = min(repeated, key=natural_key)
            problems.append(
                f"{len(repeated)} values of label {level_labels[level]} occur in several coarser domains "
                f"and are taken for different domains of level {level}: {first} is {listed(repeated[first])}"
            )
    return problems
