"""The guard: the ids of holds whose pods may run on a node, in its ``Extra``, which only admins can write.

A job's record cannot be changed once the job is COMPLETING, a node's can. The epilog of a hold waits while its job id
is listed, so what Slurm ends first keeps its node until the pods there are proven gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from bridge.lifecycle.actions import SetGuard
from bridge.lifecycle.evidence import Remains
from bridge.lifecycle.observed import Observed, own_holds
from bridge.lifecycle.together import by_text
from bridge.model.hold import GangKey
from bridge.model.slurm import JobState, SlurmJob, SlurmNode
from bridge.model.snapshot import Snapshot
from bridge.wellknown import GUARD

_RUNS = frozenset({JobState.RUNNING, JobState.SUSPENDED})
WORK_DIR = "/"
"""Working directory of every hold. The epilog looks no further at jobs with another one, so they cost it nothing."""


def guarded(node: SlurmNode) -> frozenset[int]:
    """Return the holds that the node is guarded for."""
    if not node.extra.startswith(GUARD):
        return frozenset()
    return frozenset(int(word) for word in node.extra.removeprefix(GUARD).split(",") if word.isdecimal())


def is_foreign(node: SlurmNode) -> bool:
    """Return whether somebody else uses the node's ``Extra``: it cannot be guarded, and takes no gangs."""
    return bool(node.extra) and not node.extra.startswith(GUARD)


def unguarded(hold: SlurmJob, nodes: Mapping[str, SlurmNode]) -> list[str]:
    """Return the nodes on which no epilog would wait for the hold yet. EXTERNAL nodes run none."""
    return [
        name
        for name in hold.nodes
        if name in nodes and not nodes[name].is_external and hold.job_id not in guarded(nodes[name])
    ]


def guards(snapshot: Snapshot, gangs: Iterable[Observed], remains: Mapping[GangKey, Remains]) -> list[SetGuard]:
    """Return what makes the guards what they should be, nodes with the same text together."""
    if snapshot.slurm is None:
        return []
    current = {
        each.hold.job_id for each in gangs if each.hold is not None and each.hold.state in _RUNS and not each.is_ending
    }
    # An epilog that waits for what nobody will report only delays the gang's next attempt: the node is closed anyway.
    closed = {name for name, node in snapshot.slurm.nodes.items() if node.is_closed}
    wanted: dict[str, set[int]] = {}
    for jobs in own_holds(snapshot).values():
        served: set[GangKey] = set()
        for job in jobs:
            if not job.holds_devices or job.marker is None or job.marker.key in served:
                continue
            # Oldest first: a duplicate has no pods.
            served.add(job.marker.key)
            left = remains.get(job.marker.key, Remains())
            for name in job.nodes:
                # Also where nothing is wanted any more, and where the Node object is gone: its guard keeps the hold.
                ids = wanted.setdefault(name, set())
                is_fenced = name in left.quarantined and name in closed
                if job.job_id in current or (name in left.bound and not is_fenced):
                    ids.add(job.job_id)
    texts: dict[str, str] = {}
    for name in {node.slurm_node for node in snapshot.nodes} | wanted.keys():
        node = snapshot.slurm.nodes.get(name)
        if node is None or node.is_external or is_foreign(node):
            continue
        text = _text(wanted.get(name, set()))
        if node.extra != text:
            texts[name] = text
    return [SetGuard(nodes=names, text=text) for text, names in by_text(texts)]


def _text(ids: Iterable[int]) -> str:
    listed = ",".join(str(job_id) for job_id in sorted(ids))
    return f"{GUARD}{listed}" if listed else ""
