"""In what condition a node is: usable, or in a word why no new gang is placed there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from operators.gangctl.facts import Facts, Node

USABLE = "usable"
UNMANAGED = "unmanaged"
FENCED = "fenced"
CORDONED = "cordoned"
NOT_READY = "not ready in Kubernetes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """``state`` is for a column, ``reason`` what somebody wrote about it; ``takes_work`` whether free devices are."""

    state: str
    reason: str = ""
    takes_work: bool = False


def condition_of(node: Node, facts: Facts, twins: Mapping[str, str]) -> Condition:
    """Return the node's condition. ``twins`` is the one Kubernetes node that counts for each Slurm name."""
    if node.fence is not None:
        by = f" ({node.fence.by})" if node.fence.by else ""
        return Condition(state=FENCED, reason=node.fence.reason + by)
    if not node.slurm_node:
        return Condition(state=UNMANAGED, takes_work=node.ready and not node.unschedulable)
    if twins[node.slurm_node] != node.name:
        return Condition(state="duplicate", reason=f"{node.slurm_node} is already the Slurm name of another node")
    reason, message = facts.closed.get(node.slurm_node, ("", ""))
    # These two the Node says itself, and earlier than the Fleet.
    if reason and reason not in {CORDONED, NOT_READY}:
        return Condition(state=reason, reason=message)
    if node.unschedulable:
        return Condition(state=CORDONED)
    return Condition(state=USABLE, takes_work=True) if node.ready else Condition(state=NOT_READY)


def twins_of(nodes: Mapping[str, Node]) -> dict[str, str]:
    """Return the Kubernetes node that counts for each Slurm name: the first by name, as for the operator."""
    found: dict[str, str] = {}
    for name in sorted(nodes):
        found.setdefault(nodes[name].slurm_node, name)
    return found
