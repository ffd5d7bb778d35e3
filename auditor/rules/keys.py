"""I6: every hold carries (uid, attempt) sealed, no two live holds share one, and nothing outlives its gang for long.

Ages are counted by the clock of the server that has the object. How long an object has been an orphan cannot be seen,
only how old it is; that a second reading must agree leaves room for the step that removes it.
"""

from __future__ import annotations

from auditor.evidence import Evidence, Job, Key, Pod
from auditor.telling import name_of, tell_claim, tell_holds, tell_job, tell_pod
from auditor.violation import Invariant, Violation

SEAL_S = 10
"""A hold is sealed, and a second one with its key cancelled, in this time."""
GRACE_S = 60
"""What belongs to no attempt under way is removed in this time."""


def check(evidence: Evidence) -> list[Violation]:
    """Return holds that are not sealed, holds with one key, and what is left of attempts that are over."""
    keys = sorted({*evidence.holds, *evidence.claims_of, *evidence.pods_of})
    leftovers = [violation for key in keys if (why := _over(evidence, key)) for violation in _left(evidence, key, why)]
    return _unsealed(evidence) + _doubled(evidence) + leftovers


def _is_old(evidence: Evidence, job: Job, seconds: int) -> bool:
    return evidence.slurm_now - job.submitted > seconds


def _unsealed(evidence: Evidence) -> list[Violation]:
    return [
        Violation(
            invariant=Invariant.KEY,
            subject=f"job {job_id}",
            sentence=f"job {job_id} says it is the hold of {job.unsealed.gang}, but only in its comment, which its user"
            " can write: it is forged, or was never sealed in admin_comment",
            slurm=(tell_job(job),),
            kubernetes=(_tell_gang(evidence, job.unsealed.key),),
        )
        for job_id, job in sorted(evidence.jobs.items())
        if job.unsealed is not None
        and job.unsealed.cluster == evidence.cluster
        and job.is_live
        and _is_old(evidence, job, SEAL_S)
    ]


def _doubled(evidence: Evidence) -> list[Violation]:
    found: list[Violation] = []
    for key, jobs in sorted(evidence.holds.items()):
        # One that is completing has ended already; the parts of a heterogeneous hold are one.
        live = [job for job in jobs if not job.is_completing and _is_old(evidence, job, SEAL_S)]
        if len({job.group for job in live}) > 1:
            names = " and ".join(str(job.job_id) for job in live)
            found.append(
                Violation(
                    invariant=Invariant.KEY,
                    subject=f"gang {key.uid} attempt {key.attempt}",
                    sentence=f"jobs {names} are live holds of one attempt",
                    slurm=tuple(tell_job(job) for job in live),
                    kubernetes=(_tell_gang(evidence, key),),
                )
            )
    return found


def _over(evidence: Evidence, key: Key) -> str:
    """Return why nothing of ``key`` should be left, or "" while it is under way."""
    gang = evidence.gangs.get(key.uid)
    if gang is None:
        return "its GangJob is gone"
    if gang.attempt != key.attempt:
        return f"its gang is at attempt {gang.attempt}"
    is_over = gang.finished is not None and evidence.kube_now - gang.finished > GRACE_S
    return "its gang has finished" if is_over else ""


def _left(evidence: Evidence, key: Key, why: str) -> list[Violation]:
    """Return what should be removed next: pods, then claims, then holds; each waits for those before it."""
    has_finished = key.uid in evidence.gangs and evidence.gangs[key.uid].attempt == key.attempt
    # Pods of a gang that has finished are kept for their logs.
    pods = [pod for pod in evidence.pods_of.get(key, ()) if not (has_finished and pod.is_stopped)]
    if pods:
        return [
            _leftover(evidence, key, f"pod {name_of(pod)}", why, (tell_pod(pod),))
            for pod in pods
            if _stays(evidence, pod)
        ]
    claims = evidence.claims_of.get(key, ())
    if claims:
        return [
            _leftover(evidence, key, f"claim {name_of(claim)}", why, (tell_claim(claim),))
            for claim in claims
            if evidence.kube_now - claim.created > GRACE_S and not _is_quarantined(evidence, claim.node)
        ]
    return [
        _leftover(evidence, key, f"job {job.job_id}", why, ())
        for job in evidence.holds.get(key, ())
        if not job.is_completing and _is_old(evidence, job, GRACE_S)
    ]


def _stays(evidence: Evidence, pod: Pod) -> bool:
    if _is_quarantined(evidence, pod.node) and not pod.is_stopped:
        return False
    return evidence.kube_now - max(pod.created, pod.delete_by or 0) > GRACE_S


def _is_quarantined(evidence: Evidence, kube_node: str) -> bool:
    node = evidence.kube_nodes.get(kube_node)
    return node is not None and evidence.is_fenced(node.slurm_name)


def _leftover(evidence: Evidence, key: Key, subject: str, why: str, kubernetes: tuple[str, ...]) -> Violation:
    return Violation(
        invariant=Invariant.KEY,
        subject=subject,
        sentence=f"{subject} of attempt {key.attempt} is left over: {why}",
        slurm=tell_holds(evidence, key),
        kubernetes=(_tell_gang(evidence, key), *kubernetes),
    )


def _tell_gang(evidence: Evidence, key: Key) -> str:
    gang = evidence.gangs.get(key.uid)
    if gang is None:
        return f"no GangJob with uid {key.uid}"
    state = ", being deleted" if gang.is_deleting else ", finished" if gang.finished is not None else ""
    return f"GangJob {gang.namespace}/{gang.name} at attempt {gang.attempt}{state}"
