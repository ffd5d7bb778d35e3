"""Who holds which device: the facts of the API server joined into one entry per device and holder. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from bridge.model.kube import Device
from bridge.topology.natural import natural_key
from operators.gangctl.condition import Condition, condition_of, twins_of
from operators.gangctl.facts import Facts, Holding, Node, Published, Work
from operators.kube.resources import NODES, PODS, RESOURCECLAIMS

_LOST = "cannot be proven stopped"
_NEEDED = {
    NODES.plural: "nodes are not yours to read",
    RESOURCECLAIMS.plural: "claims of other namespaces are not yours to read",
}
"""Without these nobody can say that a device is free."""


class World(StrEnum):
    """On whose side a device is."""

    PODS = "pods"
    SBATCH = "sbatch"
    FREE = "free"
    QUARANTINED = "quarantined"
    """Its pod is gone, or its node lost, without evidence that the containers ended: nobody else gets the device."""
    OUT = "out-of-service"
    UNKNOWN = "unknown"
    """Nobody that could be read holds it, but not everything could be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """Who holds a device. ``name`` is the gang's, the Slurm job's, or the pod's of somebody else's claim."""

    name: str
    namespace: str = ""
    rank: int | None = None
    job_id: int = 0
    user: str = ""
    account: str = ""
    partition: str = ""
    pod: str = ""
    claim: str = ""

    @property
    def label(self) -> str:
        """``research/llm`` for what lives in Kubernetes, the name alone for a Slurm job."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One device with one holder, or with none. A device with two entries has two owners: a violation, both shown.

    ``since`` and ``until`` are seconds since the epoch; ``until`` is the end of the job's time limit.
    """

    device: Device
    node: str
    slurm_node: str = ""
    index: int | None = None
    uuid: str = ""
    ids: frozenset[str] = frozenset()
    world: World
    owner: Owner | None = None
    since: int | None = None
    until: int | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """``entries`` in the order of nodes and indices, the ``conditions`` of all nodes, and what they come from."""

    entries: tuple[Entry, ...]
    conditions: Mapping[str, Condition]
    facts: Facts


def build_ledger(facts: Facts) -> Ledger:
    """Join the facts. O(devices + holdings)."""
    twins = twins_of(facts.nodes)
    conditions = {name: condition_of(node, facts, twins) for name, node in facts.nodes.items()}
    published = {found.device: found for found in facts.devices}
    held: dict[Device, list[Holding]] = {}
    for holding in facts.holdings:
        held.setdefault(holding.device, []).append(holding)
    entries = [
        _held(published.get(device) or Published(device=device, node=holding.node), holding, facts)
        for device, holdings in held.items()
        for holding in holdings
    ]
    entries += [_unheld(found, facts, conditions) for device, found in published.items() if device not in held]
    return Ledger(entries=tuple(sorted(entries, key=_order)), conditions=conditions, facts=facts)


def _order(entry: Entry) -> tuple[object, ...]:
    # NB: a node may have several drivers, and drivers without an index.
    index = entry.index if entry.index is not None else -1
    owner = entry.owner.claim if entry.owner else ""
    return natural_key(entry.node), entry.device.driver, index, natural_key(entry.device.device), entry.device, owner


def _held(found: Published, holding: Holding, facts: Facts) -> Entry:
    work = facts.work.get(holding.owner_uid)
    if work is not None and holding.gang and work.attempt != holding.attempt:
        work = None
    name = found.node or holding.node
    node = facts.nodes.get(name)
    lost = _lost(holding, node, facts)
    return Entry(
        device=found.device,
        node=name,
        slurm_node=node.slurm_node if node else "",
        index=found.index,
        uuid=found.uuid,
        ids=found.ids,
        world=World.QUARANTINED if lost else World.SBATCH if holding.job_id else World.PODS,
        owner=_owner(holding, work),
        since=(work.start if work else None) or holding.since,
        until=work.end if work else None,
        reason=lost,
    )


def _owner(holding: Holding, work: Work | None) -> Owner:
    claim = f"{holding.namespace}/{holding.claim}"
    if holding.job_id:
        name, namespace = (work.job_name if work else "") or f"job {holding.job_id}", ""
    else:
        # NB: a label holds less than every name that a gang may have.
        name, namespace = work.name if work else holding.gang or holding.pod or holding.claim, holding.namespace
    if work is None:
        return Owner(
            name=name, namespace=namespace, rank=holding.rank, job_id=holding.job_id, pod=holding.pod, claim=claim
        )
    return Owner(
        name=name,
        namespace=namespace,
        rank=holding.rank,
        job_id=work.job_id or holding.job_id,
        user=work.user,
        account=work.account,
        partition=work.partition,
        pod=holding.pod,
        claim=claim,
    )


def _lost(holding: Holding, node: Node | None, facts: Facts) -> str:
    """Return why nobody can tell that the containers of a gang's pod have ended; empty while the pod is well."""
    if not holding.gang or not holding.pod or not facts.sees(PODS.plural, holding.namespace):
        return ""
    deleting = facts.pods.get(holding.pod_uid)
    if deleting is None:
        return f"pod {holding.pod} is gone and {_LOST}"
    if not deleting or NODES.plural in facts.seen or (node is not None and node.ready):
        return ""
    return f"pod {holding.pod} {_LOST}: its node is {'not ready' if node is not None else 'gone'}"


def _unheld(found: Published, facts: Facts, conditions: Mapping[str, Condition]) -> Entry:
    node, condition = facts.nodes.get(found.node), conditions.get(found.node)
    world, reason = World.FREE, ""
    if condition is not None and not condition.takes_work:
        world, reason = World.OUT, f"{condition.state}: {condition.reason}".removesuffix(": ")
    for plural, what in _NEEDED.items():
        if plural in facts.seen:
            world, reason = World.UNKNOWN, what
    return Entry(
        device=found.device,
        node=found.node,
        slurm_node=node.slurm_node if node else "",
        index=found.index,
        uuid=found.uuid,
        ids=found.ids,
        world=world,
        reason=reason,
    )
