"""What a person should know although no invariant is broken. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from auditor.evidence import Evidence, Place
from auditor.telling import name_of, ranges, tell_places
from bridge import wellknown

_OURS = frozenset({"root", "slurm", "gangbridge"})
"""Who sets owned drain reasons: the bridge and the epilog."""


def notes(evidence: Evidence) -> tuple[str, ...]:
    """Return the notes of one reading."""
    return (*_empty(evidence), *_unmapped(evidence), *_strays(evidence), *_nodes(evidence), *_quarantine(evidence))


def _empty(evidence: Evidence) -> Iterator[str]:
    """A server that lost its state, or a credential that sees nothing, looks like an empty one."""
    allocated = sum(claim.is_allocated and claim.is_ours for claim in evidence.claims)
    live = sum(job.is_live for job in evidence.jobs.values())
    if allocated and not live:
        yield (
            f"suspicious: slurmctld shows no live job, but Kubernetes has {allocated} allocated claims of gangbridge;"
            " did it lose its state, or may this user see jobs of others?"
        )
    if evidence.hold_ids and not (evidence.gangs or evidence.claims or evidence.pods):
        yield (
            f"suspicious: Kubernetes shows no GangJob, pod or claim, but Slurm has {len(evidence.hold_ids)} live holds;"
            " is this the right cluster?"
        )
    if not evidence.kube_nodes:
        yield f"suspicious: no Node of Kubernetes is one of Slurm's {len(evidence.slurm_nodes)} nodes"


def _unmapped(evidence: Evidence) -> Iterator[str]:
    """Devices that cannot be compared: rules say nothing about them, in either direction."""
    managed = {node.slurm_name for node in evidence.kube_nodes.values()}
    for _, job in sorted(evidence.jobs.items()):
        for node, indices in sorted(job.indices.items()):
            lost = [index for index in indices if node in managed and Place(node, index) not in evidence.devices]
            if lost:
                yield f"job {job.job_id} holds {node} index {ranges(lost)}, which no ResourceSlice has"
    lost_devices = Counter(
        name_of(claim)
        for claim in evidence.claims
        if claim.is_ours
        for device in claim.devices
        if device not in evidence.places
    )
    for name, count in sorted(lost_devices.items()):
        yield f"claim {name} has {count} devices that are in no ResourceSlice of a managed node"


def _strays(evidence: Evidence) -> Iterator[str]:
    held = {
        Place(node, index)
        for job in evidence.jobs.values()
        for node, indices in job.indices.items()
        for index in indices
    }
    for claim in sorted(evidence.claims, key=name_of):
        places = [evidence.places[device] for device in claim.devices if device in evidence.places]
        free = [place for place in places if place not in held]
        if free and not claim.is_ours:
            yield f"claim {name_of(claim)} is not gangbridge's and has {tell_places(free)}, unknown to Slurm"


def _nodes(evidence: Evidence) -> Iterator[str]:
    managed = {node.slurm_name for node in evidence.kube_nodes.values()}
    for name, node in sorted(evidence.slurm_nodes.items()):
        if node.is_ours_to_resume and node.reason_by not in _OURS:
            yield f'node {name}: the reason "{node.reason}" looks like ours, but {node.reason_by or "?"} set it'
        if name in managed and node.has_slurmd and node.extra and not node.extra.startswith(wellknown.GUARD):
            yield f'node {name} has somebody else\'s Extra "{node.extra}": it is closed for gangs'


def _quarantine(evidence: Evidence) -> Iterator[str]:
    """Pods that may run where a drain alone keeps Slurm from giving their devices to somebody else."""
    for pod in sorted(filter(evidence.may_run, evidence.pods), key=name_of):
        kube_node = evidence.kube_nodes.get(pod.node)
        node = evidence.slurm_nodes.get(kube_node.slurm_name) if kube_node and pod.key else None
        holds = evidence.holds.get(pod.key, ()) if pod.key else ()
        if node and node.is_fenced and all(node.name not in job.nodes for job in holds):
            whose = "" if node.is_ours_to_resume else "; the drain is not gangbridge's: who ends it must know"
            yield f"pod {name_of(pod)} may still run on {node.name}, and only a drain keeps its devices{whose}"
