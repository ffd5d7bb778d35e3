"""Both servers' evidence in words: who, in which state, where."""

from __future__ import annotations

from collections.abc import Iterable

from auditor.evidence import Claim, Evidence, Job, Key, Place, Pod, SlurmNode

_MOST = 4


def tell_job(job: Job, *nodes: str) -> str:
    """Return ``job 7 of alice, RUNNING, on gpu0 (IDX 0-3)``; with ``nodes``, only what it has there."""
    shown = [name for name in job.nodes if not nodes or name in nodes]
    where = [f"{name} ({_indices(job, name)})" for name in shown[:_MOST]]
    more = f" and {len(shown) - _MOST} nodes" if len(shown) > _MOST else ""
    marker = job.marker or job.unsealed
    what = f", hold of {marker.gang} attempt {marker.key.attempt}" if marker else ""
    there = f", on {', '.join(where)}{more}" if where else f", not on {', '.join(nodes)}" if nodes else ""
    return f"job {job.job_id} of {job.user}, {'+'.join(sorted(job.states))}{what}{there}"


def tell_holds(evidence: Evidence, key: Key, *nodes: str) -> tuple[str, ...]:
    """Return a line for each job, live or ended, that says it is the hold of ``key``."""
    found = [
        tell_job(job, *nodes)
        for _, job in sorted(evidence.jobs.items())
        if (marker := job.marker or job.unsealed) and marker.key == key and marker.cluster == evidence.cluster
    ]
    return tuple(found) or (f"no job of gang {key.uid} attempt {key.attempt}",)


def tell_node(node: SlurmNode | None, name: str) -> str:
    """Return ``node gpu0, IDLE+DRAIN, reason "…", Extra "…"``."""
    if node is None:
        return f"no node {name}"
    reason = f', reason "{node.reason}"' if node.reason else ""
    extra = f', Extra "{node.extra}"' if node.extra else ""
    return f"node {name}, {'+'.join(sorted(node.states))}{reason}{extra}"


def tell_claim(claim: Claim) -> str:
    """Return ``claim research/llm-0-gpu: gpu-0, gpu-1 of k8s-gpu-0, reserved for pods/llm-0``."""
    by_pool: dict[str, list[str]] = {}
    for device in claim.devices:
        by_pool.setdefault(device.pool, []).append(device.name)
    held = "; ".join(f"{', '.join(names)} of {pool}" for pool, names in by_pool.items()) or "not allocated"
    users = ", ".join(f"{each.resource}/{each.name}" for each in claim.reserved_for)
    tail = f", reserved for {users}" if users else ", reserved for nobody" if claim.is_allocated else ""
    return f"claim {name_of(claim)}: {held}{tail}{', being deleted' if claim.is_deleting else ''}"


def tell_pod(pod: Pod) -> str:
    """Return ``pod research/llm-0, Running on k8s-gpu-0``."""
    where = f" on {pod.node}" if pod.node else ", gated" if pod.is_gated else ", on no node"
    ending = ", being deleted" if pod.delete_by is not None else ""
    return f"pod {name_of(pod)}, {pod.phase}{where}{ending}"


def name_of(obj: Claim | Pod) -> str:
    """Return ``namespace/name``."""
    return f"{obj.namespace}/{obj.name}"


def tell_places(places: Iterable[Place], only: str = "") -> str:
    """Return ``gpu0 index 0-3 and gpu1 index 5``; with ``only``, what is on that node."""
    indices: dict[str, list[int]] = {}
    for place in sorted(places):
        if only in {"", place.node}:
            indices.setdefault(place.node, []).append(place.index)
    return " and ".join(f"{node} index {ranges(numbers)}" for node, numbers in indices.items())


def ranges(numbers: Iterable[int]) -> str:
    """Return ``0-2,5``."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1] = [runs[-1][0], number]
        else:
            runs.append([number])
    return ",".join("-".join(map(str, run)) for run in runs)


def _indices(job: Job, node: str) -> str:
    return f"IDX {ranges(job.indices[node]) or 'none'}" if node in job.indices else "indices not shown"
