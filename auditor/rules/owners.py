"""I1: a device has at most one owner over all live Slurm jobs and allocated claims; a job and its claims are one.

Not seen from outside: devices of a job that is completing, because slurmctld shows their indices no longer. Its claims
stand for it.
"""

from __future__ import annotations

from collections.abc import Mapping

from auditor.evidence import Claim, Device, Evidence, Job, Place
from auditor.telling import name_of, tell_claim, tell_job
from auditor.violation import Invariant, Violation


def check(evidence: Evidence) -> list[Violation]:
    """Return every device with two owners, by its index on the Slurm node where it has one."""
    jobs = _jobs_on(evidence)
    devices: dict[Place | Device, tuple[list[Job], tuple[Claim, ...]]] = {
        place: (holders, ()) for place, holders in jobs.items()
    }
    for device, claims in evidence.claims_on.items():
        place = evidence.places.get(device)
        devices[place or device] = (jobs.get(place, []) if place else [], claims)
    found = [
        _violation(which, holders, claims)
        for which, (holders, claims) in devices.items()
        if len(holders) > 1 or len(claims) > 1 or not all(_belongs(claim, job) for job in holders for claim in claims)
    ]
    return sorted(found, key=lambda violation: violation.subject)


def _jobs_on(evidence: Evidence) -> Mapping[Place, list[Job]]:
    found: dict[Place, list[Job]] = {}
    for _, job in sorted(evidence.jobs.items()):
        for node, indices in job.indices.items():
            for index in indices:
                found.setdefault(Place(node, index), []).append(job)
    return found


def _belongs(claim: Claim, job: Job) -> bool:
    marker = job.marker or job.unsealed
    return claim.job_id == job.job_id or (marker is not None and marker.key == claim.key)


def _violation(which: Place | Device, jobs: list[Job], claims: tuple[Claim, ...]) -> Violation:
    subject = f"{which.node} index {which.index}" if isinstance(which, Place) else f"{which.pool}/{which.name}"
    owners = [f"job {job.job_id}" for job in jobs] + [f"claim {name_of(claim)}" for claim in claims]
    return Violation(
        invariant=Invariant.ONE_OWNER,
        subject=subject,
        sentence=f"{subject} has more than one owner: {', '.join(owners)}",
        slurm=tuple(tell_job(job, which.node) if isinstance(which, Place) else tell_job(job) for job in jobs),
        kubernetes=tuple(tell_claim(claim) for claim in claims),
    )
