"""I3: a running sbatch GPU job has exactly its devices mirrored, within ``LAG_S``.

Devices of nodes that Kubernetes does not know, and indices that no slice has, cannot be mirrored and are not asked for.
"""

from __future__ import annotations

from auditor.evidence import Claim, Evidence, Job, Place
from auditor.telling import name_of, tell_claim, tell_job, tell_places
from auditor.violation import Invariant, Violation

LAG_S = 5


def check(evidence: Evidence) -> list[Violation]:
    """Return jobs whose devices are not all shown as taken, and mirrored claims whose job does not hold them."""
    claims: dict[int, list[Claim]] = {}
    for claim in evidence.claims:
        if claim.job_id:
            claims.setdefault(claim.job_id, []).append(claim)
    found = [
        violation
        for job_id, job in sorted(evidence.jobs.items())
        if job.is_running and job_id not in evidence.hold_ids and evidence.slurm_now - job.started > LAG_S
        for violation in _unshown(evidence, job, claims.get(job_id, []))
    ]
    for _, mirrored in sorted(claims.items()):
        found += [each for claim in mirrored if (each := _stale(evidence, claim)) is not None]
    return found


def _unshown(evidence: Evidence, job: Job, claims: list[Claim]) -> list[Violation]:
    shown = {evidence.places.get(device) for claim in claims for device in claim.devices}
    held = {Place(node, index) for node, indices in job.indices.items() for index in indices}
    missing = [place for place in held if place in evidence.devices and place not in shown]
    return [
        Violation(
            invariant=Invariant.MIRROR,
            subject=f"job {job.job_id} on {node}",
            sentence=f"job {job.job_id} runs with {tell_places(missing, node)}, which its mirror does not show",
            slurm=(tell_job(job, node),),
            kubernetes=tuple(tell_claim(claim) for claim in claims) or (f"no claim of job {job.job_id}",),
        )
        for node in sorted({place.node for place in missing})
    ]


def _stale(evidence: Evidence, claim: Claim) -> Violation | None:
    job = evidence.jobs.get(claim.job_id)
    places = [evidence.places[device] for device in claim.devices if device in evidence.places]
    extra = [place for place in places if job is None or job.holds(place) is False]
    if not extra or (job is not None and not job.is_live and evidence.slurm_now - job.ended <= LAG_S):
        return None
    return Violation(
        invariant=Invariant.MIRROR,
        subject=f"claim {name_of(claim)}",
        sentence=f"claim {name_of(claim)} shows {tell_places(extra)} taken by job {claim.job_id}, which does not",
        slurm=(tell_job(job) if job else f"no job {claim.job_id}",),
        kubernetes=(tell_claim(claim),),
    )
