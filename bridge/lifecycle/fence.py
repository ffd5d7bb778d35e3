"""Drained nodes: where pods may still run on devices that Slurm would give to somebody else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from bridge.lifecycle.actions import Action, DrainNodes, ResumeNodes
from bridge.lifecycle.evidence import Remains
from bridge.lifecycle.observed import Observed, own_holds
from bridge.lifecycle.together import by_text
from bridge.model.hold import GangKey
from bridge.model.slurm import JobState, SlurmJob, SlurmNode
from bridge.model.snapshot import Snapshot
from bridge.wellknown import DRAIN_REASON

_RUNS = frozenset({JobState.RUNNING, JobState.SUSPENDED})


def is_ours(node: SlurmNode) -> bool:
    """Return whether the node was drained by us, or by the epilog for us."""
    return node.is_drained and node.reason.startswith(DRAIN_REASON)


def fences(snapshot: Snapshot, gangs: Iterable[Observed], remains: Mapping[GangKey, Remains]) -> list[Action]:
    """Return which nodes to drain and which to resume. A node that is drained already keeps its reason.

    A node is fenced while something unproven is on it that no running hold covers, or whose end nobody will report and
    whose hold is about to end; then it is resumed.
    """
    if snapshot.slurm is None:
        return []
    known = {each.gang.key: each for each in gangs}
    covering = _covering(snapshot)
    drained: dict[str, str] = {}
    fenced: set[str] = set()
    for key in sorted(remains):
        left, observed = remains[key], known.get(key)
        is_ending = observed is None or observed.is_ending
        for name in sorted(left.unproven | left.claimed):
            node = snapshot.slurm.nodes.get(name)
            if node is None:
                continue
            is_covered = any(name in job.nodes for job in covering.get(key, ()))
            if is_covered and not (is_ending and name in left.quarantined):
                continue
            fenced.add(name)
            if not node.is_closed:
                drained.setdefault(name, _reason(key, observed))
    managed = {node.slurm_node for node in snapshot.nodes}
    resumed = {
        name: node.reason
        for name in managed - fenced
        if (node := snapshot.slurm.nodes.get(name)) is not None and is_ours(node)
    }
    drains = [DrainNodes(nodes=names, reason=reason) for reason, names in by_text(drained)]
    resumes = [ResumeNodes(nodes=names, reason=reason) for reason, names in by_text(resumed)]
    return [*drains, *resumes]


def _covering(snapshot: Snapshot) -> dict[GangKey, list[SlurmJob]]:
    """Return the holds that keep their nodes. A completing one only does while slurmctld is not restarted."""
    found: dict[GangKey, list[SlurmJob]] = {}
    for jobs in own_holds(snapshot).values():
        for job in jobs:
            if job.state in _RUNS and not job.completing and job.marker is not None:
                found.setdefault(job.marker.key, []).append(job)
    return found


def _reason(key: GangKey, observed: Observed | None) -> str:
    whose = f"{observed.gang.namespace}/{observed.gang.name}" if observed is not None else f"gang {key.uid}"
    return f"{DRAIN_REASON}pods of {whose}, attempt {key.attempt}, are not proven gone"
