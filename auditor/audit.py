"""One audit: read both servers, judge, and with something found read again and keep what is still there."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from auditor import kube
from auditor.evidence import Evidence, Gang
from auditor.kube_objects import read_claim, read_drivers, read_gang, read_node, read_places, read_pod
from auditor.notes import notes
from auditor.report import Report
from auditor.rules import judge
from auditor.slurm import slurm_jobs, slurm_nodes
from auditor.violation import confirm
from bridge import wellknown

PAUSE_S = 2.0
"""Between two readings: longer than the operator needs for one step."""


def audit(read: Callable[[], Evidence], *, pause_s: float = PAUSE_S) -> Report:
    """Return what is wrong now; ``Unreadable`` when a server does not answer. ``read`` is called once or twice."""
    began = time.monotonic()
    evidence = read()
    violations = judge(evidence)
    if violations:
        time.sleep(pause_s)
        evidence = read()
        violations = confirm(violations, judge(evidence))
    return Report(
        violations=violations,
        notes=notes(evidence),
        read=_counts(evidence),
        at=int(time.time()),
        seconds=round(time.monotonic() - began, 3),
    )


def read_servers(kubeconfig: str | None, slurm_prefix: Sequence[str]) -> Evidence:
    """Return a fresh reading of both servers; ``Unreadable`` when one does not answer."""
    with kube.Kubernetes(kubeconfig) as api:
        # Pods and claims first: what they belong to is made before them, and removed after them.
        pods = [read_pod(obj) for obj in api.list(kube.PODS)]
        claims = [read_claim(obj) for obj in api.list(kube.CLAIMS)]
        jobs, slurm_now = slurm_jobs(slurm_prefix)
        gangs = [read_gang(obj) for obj in api.list(kube.GANGJOBS)]
        found = [read_node(obj) for obj in api.list(kube.NODES, label_selector=wellknown.SLURM_NODE)]
        nodes = {node.name: node for node in found if node is not None}
        drivers = read_drivers(api.list(kube.FLEETS)) or frozenset({wellknown.DRIVER})
        return Evidence(
            cluster=api.get(kube.SYSTEM_NAMESPACE)["metadata"]["uid"],
            slurm_now=slurm_now,
            jobs=jobs,
            slurm_nodes=slurm_nodes(slurm_prefix),
            kube_nodes=nodes,
            places=read_places(api.list(kube.SLICES), nodes, drivers),
            claims=claims,
            pods=pods,
            gangs=_by_uid(gangs, mirrors=False),
            mirrors=_by_uid(gangs, mirrors=True),
            kube_now=api.now,
        )


def _by_uid(gangs: Sequence[Gang], *, mirrors: bool) -> dict[str, Gang]:
    return {gang.uid: gang for gang in gangs if (gang.namespace == wellknown.MIRROR_NAMESPACE) is mirrors}


def _counts(evidence: Evidence) -> dict[str, int]:
    return {
        "jobs": len(evidence.jobs),
        "slurmNodes": len(evidence.slurm_nodes),
        "nodes": len(evidence.kube_nodes),
        "devices": len(evidence.places),
        "claims": len(evidence.claims),
        "pods": len(evidence.pods),
        "gangs": len(evidence.gangs),
        "mirrors": len(evidence.mirrors),
    }
