"""The lab's fleet between scenarios: empty, and all of its nodes open."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager

from e2e.scenario import audit, batch
from e2e.scenario.commands import NAMESPACE, conditions, found, kubectl, listed
from e2e.scenario.eventually import eventually

REAL = ("k8s-gpu-0", "k8s-gpu-1")
KWOK = ("k8s-gpu-2", "k8s-gpu-3")
SLURM_NAMES = {"k8s-gpu-0": "gpu0", "k8s-gpu-1": "gpu1", "k8s-gpu-2": "gpu2", "k8s-gpu-3": "gpu3"}


def sweep() -> None:
    """End everything, whoever left it, and wait until nothing is left. Needs a running operator."""
    if not audit.leftovers():
        return
    _end_work()

    def probe() -> bool:
        gangs = {obj["metadata"]["uid"] for obj in listed("gangjobs")}
        orphans = [job for job in batch.live_jobs() if not any(uid in job["admin_comment"] for uid in gangs)]
        batch.cancel(*(job["job_id"] for job in orphans))
        left = audit.leftovers()
        assert left == [], left[:20]
        return True

    eventually(probe, "the fleet is empty", within_s=45)


def settle() -> None:
    """End what a scenario left running; what then stays is a leak of the operator's and fails the assertion."""
    _end_work()
    audit.assert_nothing_left()


def _end_work() -> None:
    kubectl("uncordon", *REAL, *KWOK)
    kubectl("delete", "gangjobs", "--all", "-n", NAMESPACE, "--wait=false")
    kubectl("delete", "pods", "-n", NAMESPACE, "-l", "!gangbridge.dev/gang-uid", "--wait=false", "--grace-period=1")
    # The hold of a gang is for the operator to end.
    batch.cancel(*(job["job_id"] for job in batch.live_jobs() if not job["admin_comment"]))


@contextmanager
def only(*nodes: str) -> Iterator[None]:
    """Leave only ``nodes`` of the four GPU nodes open to gangs, by cordoning the others."""
    closed = [name for name in (*REAL, *KWOK) if name not in nodes]
    kubectl("cordon", *closed)
    try:
        yield
    finally:
        kubectl("uncordon", *closed)


@contextmanager
def lost(name: str) -> Iterator[None]:
    """Take a KWOK node's kubelet away while the block runs: its pods stay as they are, and nobody reports of them."""
    kubectl("label", "node", name, "lab.gangbridge.dev/kubelet=gone", "--overwrite")
    unknown = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown", "message": "for a scenario"}
    patch = json.dumps({"status": {"conditions": [unknown]}})
    # What the node controller would write after 50 s without a lease; the taint is its own.
    kubectl("patch", "node", name, "--subresource=status", "--type=strategic", "-p", patch)
    try:
        yield
    finally:
        kubectl("label", "node", name, "lab.gangbridge.dev/kubelet=kwok", "--overwrite")
        kubectl("wait", "node", name, "--for=condition=Ready", "--timeout=60s")
        # A kubelet looks at all of its pods when it is back, KWOK only at those that change.
        for pod in listed("pods", "--field-selector", f"spec.nodeName={name}", namespace=None):
            meta = pod["metadata"]
            kubectl("annotate", "pod", meta["name"], "-n", meta["namespace"], f"lab.gangbridge.dev/back={time.time()}")


def fill(gpus_left: int = 0, nodes: tuple[str, ...] = (*REAL, *KWOK)) -> dict[str, int]:
    """Give the GPUs of ``nodes`` to one sbatch job each, all but ``gpus_left``; return the job ids by node."""
    jobs = {name: batch.sbatch(8 - gpus_left, node=SLURM_NAMES[name]) for name in nodes}
    for job_id in jobs.values():
        batch.wait_running(job_id)
    return jobs


def slurm_reachable() -> str:
    """Return the status of the Fleet's condition SlurmReachable."""
    fleet = found("fleet", "main", namespace=None)
    assert fleet is not None
    return str(conditions(fleet).get("SlurmReachable", {}).get("status", "Unknown"))
