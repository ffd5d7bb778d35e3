"""I8: what is not ours is never changed, as far as it can be seen from outside.

Kubernetes remembers who wrote each object; Slurm does not. A job that the bridge changed, or a drain reason of somebody
else that it replaced, can be seen only in slurmctld's log.
"""

from __future__ import annotations

from auditor.evidence import Evidence
from auditor.telling import name_of, tell_claim, tell_job, tell_pod
from auditor.violation import Invariant, Violation
from bridge import wellknown


def check(evidence: Evidence) -> list[Violation]:
    """Return foreign objects that gangbridge wrote to, and holds that it mirrors as if they were somebody's job."""
    return _written(evidence) + _mirrored_holds(evidence)


def _written(evidence: Evidence) -> list[Violation]:
    foreign = [
        (f"claim {name_of(each)}", each.managers, tell_claim(each)) for each in evidence.claims if not each.is_ours
    ]
    foreign += [(f"pod {name_of(each)}", each.managers, tell_pod(each)) for each in evidence.pods if each.key is None]
    return [
        Violation(
            invariant=Invariant.FOREIGN,
            subject=subject,
            sentence=f"{subject} has none of gangbridge's labels, but gangbridge wrote to it",
            kubernetes=(told, f"its metadata.managedFields names {wellknown.FIELD_MANAGER}"),
        )
        for subject, managers, told in sorted(foreign)
        if wellknown.FIELD_MANAGER in managers
    ]


def _mirrored_holds(evidence: Evidence) -> list[Violation]:
    """Return live jobs that carry our sealed marker and have a mirror too: one of both was written by mistake."""
    mirrored: dict[int, list[str]] = {}
    for mirror in evidence.mirrors.values():
        mirrored.setdefault(mirror.job_id, []).append(f"mirror {mirror.namespace}/{mirror.name}")
    for claim in evidence.claims:
        if claim.job_id:
            mirrored.setdefault(claim.job_id, []).append(tell_claim(claim))
    return [
        Violation(
            invariant=Invariant.FOREIGN,
            subject=f"job {job_id}",
            sentence=f"job {job_id} is mirrored like somebody else's job, but carries the marker of {job.marker.gang}",
            slurm=(tell_job(job),),
            kubernetes=tuple(sorted(mirrored[job_id])),
        )
        for job_id, job in sorted(evidence.jobs.items())
        if job_id in mirrored and job.is_live and job.marker is not None and job.marker.cluster == evidence.cluster
    ]
