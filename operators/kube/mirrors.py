"""The GangJob that shows an sbatch job in Kubernetes. Pure."""

from __future__ import annotations

from typing import Any

from bridge import wellknown
from bridge.lifecycle.names import mirror_name
from bridge.model.slurm import SlurmJob

Object = dict[str, Any]


def build_mirror_job(job: SlurmJob, digest: str) -> Object:
    """Return the mirror of ``job``: who asked for what is status, because Slurm may change it at any time.

    The annotations say which incarnation of the job id it is and what it was written from.
    """
    return {
        "apiVersion": wellknown.API_VERSION,
        "kind": "GangJob",
        "metadata": {
            "name": mirror_name(job),
            "namespace": wellknown.MIRROR_NAMESPACE,
            "labels": {wellknown.MANAGED_BY: wellknown.FIELD_MANAGER, wellknown.JOB_ID: str(job.job_id)},
            "annotations": {wellknown.DIGEST: digest, wellknown.SUBMIT_TIME: str(job.submit_time or 0)},
        },
        # NB: partition names may be longer than, or unlike, queue names; the schema allows both here.
        "spec": {"origin": "Slurm", "queue": job.partition},
    }
