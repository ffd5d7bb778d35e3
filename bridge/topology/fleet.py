"""The fleet's topology: the sources that its Fleet names, merged in their order."""

from __future__ import annotations

from collections.abc import Iterable

from bridge.errors import ParseError
from bridge.model.fleet import FleetSpec, LabelSource, SlurmSource
from bridge.model.kube import KubeNode
from bridge.model.topology import Topology
from bridge.topology.labels import read_labels
from bridge.topology.merge import merge
from bridge.topology.slurm_yaml import read_slurm


def fleet_topology(fleet: FleetSpec, nodes: Iterable[KubeNode], slurm_text: str) -> Topology:
    """Return the domains of every managed node, by its Slurm name, at the Fleet's levels.

    ``slurm_text`` is what ``SlurmPort.topology`` returned. A source that cannot be read becomes a problem, and the
    others count.
    """
    labels = {node.slurm_node: node.labels for node in nodes}
    found: list[Topology] = []
    for source in fleet.sources:
        if isinstance(source, LabelSource):
            found.append(read_labels(labels, fleet.levels, source.labels))
        else:
            found.append(_from_slurm(source, fleet, labels, slurm_text))
    return merge(found or [Topology(levels=fleet.levels, domains=dict.fromkeys(labels, ("",) * len(fleet.levels)))])


def _from_slurm(source: SlurmSource, fleet: FleetSpec, known: Iterable[str], text: str) -> Topology:
    nowhere = dict.fromkeys(known, ("",) * len(fleet.levels))
    title = f"Slurm topology {source.topology}" if source.topology else "Slurm"
    try:
        read = read_slurm(text, fleet.levels, nowhere)
    except ParseError as error:
        return Topology(name=title, levels=fleet.levels, domains=nowhere, problems=(str(error),))
    for topology in read:
        if topology.name == source.topology if source.topology else topology.is_default:
            return Topology(
                name=title, levels=fleet.levels, domains=topology.domains, problems=topology.problems, is_default=True
            )
    names = ", ".join(sorted(topology.name for topology in read)) or "none"
    problem = f"there is no topology {source.topology or 'that is the default'} (there are: {names})"
    return Topology(name=title, levels=fleet.levels, domains=nowhere, problems=(problem,))
