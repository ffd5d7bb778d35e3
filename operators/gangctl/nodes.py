"""The nodes of the fleet: their condition, whose their GPUs are, and where in the topology they stand. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from bridge.model.kube import Device
from bridge.topology.natural import natural_key
from operators.gangctl.condition import Condition
from operators.gangctl.ledger import Entry, Ledger, World

_WORST_FIRST = (World.QUARANTINED, World.PODS, World.SBATCH, World.OUT, World.UNKNOWN, World.FREE)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRow:
    """One node. ``gpus`` counts every device once, by world; ``jobs`` are the sbatch jobs, by id with their names."""

    name: str
    slurm_node: str
    condition: Condition
    gpus: Mapping[World, int]
    domains: Mapping[str, str]
    gangs: Sequence[str]
    jobs: Mapping[int, str]

    @property
    def total(self) -> int:
        """All GPUs of the node."""
        return sum(self.gpus.values())


def node_rows(ledger: Ledger, names: Sequence[str] = ()) -> list[NodeRow]:
    """Return a row per node: those of ``names`` (Kubernetes names) in that order, or all managed ones."""
    by_node: dict[str, list[Entry]] = {}
    for entry in ledger.entries:
        if not ledger.facts.drivers or entry.device.driver in ledger.facts.drivers:
            by_node.setdefault(entry.node, []).append(entry)
    managed = (name for name, node in ledger.facts.nodes.items() if node.slurm_node)
    return [_row(ledger, name, by_node.get(name, [])) for name in names or sorted(managed, key=natural_key)]


def _row(ledger: Ledger, name: str, entries: Sequence[Entry]) -> NodeRow:
    node = ledger.facts.nodes[name]
    owners = [(entry.world, entry.owner) for entry in entries if entry.owner is not None]
    return NodeRow(
        name=name,
        slurm_node=node.slurm_node,
        condition=ledger.conditions[name],
        gpus=_counts(entries),
        domains={level: node.labels.get(label, "") for level, label in ledger.facts.levels.items()},
        gangs=sorted({owner.label for world, owner in owners if world is not World.SBATCH}),
        jobs={owner.job_id: owner.name for world, owner in owners if world is World.SBATCH},
    )


def _counts(entries: Iterable[Entry]) -> Counter[World]:
    """Return the devices by world; one with several owners counts where it is worst."""
    worst: dict[Device, World] = {}
    for entry in entries:
        known = worst.get(entry.device, entry.world)
        worst[entry.device] = min(known, entry.world, key=_WORST_FIRST.index)
    return Counter(worst.values())
