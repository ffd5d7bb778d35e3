"""Names of everything created for a gang or a mirror. A claim's name never recurs: uid, attempt and rank are in it."""

from __future__ import annotations

import hashlib

from bridge.model.gang import Gang
from bridge.model.slurm import SlurmJob

_STEM = 40
"""Characters of the gang's name that are kept: with the rest a name stays under the 63 of a DNS label."""


def pod_name(gang: Gang, rank: int) -> str:
    """Return the pod's name, which is also its hostname: ``llm-64-1-3f2a9c-0`` (attempt 1, uid, rank 0)."""
    return f"{gang.name[:_STEM].rstrip('-.')}-{gang.status.attempt}-{_digest(gang.uid)}-{rank}"


def claim_name(gang: Gang, rank: int) -> str:
    """Return the name of the claim of one pod."""
    return f"{pod_name(gang, rank)}-gpu"


def service_name(gang: Gang) -> str:
    """Return the name of the headless service that gives the pods their host names."""
    return f"{gang.name[:_STEM].rstrip('-.')}-{_digest(gang.uid)}"


def mirror_name(job: SlurmJob) -> str:
    """Return the mirror's name: ``slurm-4711``."""
    return f"slurm-{job.job_id}"


def mirror_claim_name(job: SlurmJob, node: str, ordinal: int) -> str:
    """Return the name of the ``ordinal``-th mirror claim of one incarnation of a job on a Slurm node."""
    return f"{mirror_claim_stem(job, node)}-{ordinal}"


def mirror_claim_stem(job: SlurmJob, node: str) -> str:
    """Return what the names of all mirror claims of one incarnation of a job on a Slurm node begin with."""
    incarnation = _digest(f"{job.job_id}/{job.submit_time}/{job.restart_count}/{job.start_time}/{node}")
    return f"slurm-{job.job_id}-{incarnation}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]
