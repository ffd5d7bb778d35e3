"""One gang with everything of it that exists outside."""

from __future__ import annotations

from dataclasses import dataclass

from bridge.model.gang import ConditionType, Gang, GangSpec
from bridge.model.kube import ClaimView, PodView
from bridge.model.slurm import SlurmJob
from bridge.model.snapshot import Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """``hold`` is the current attempt's: the oldest live one, else the newest that ended.

    ``strays`` are holds, pods and claims that no longer belong to anything: duplicates and earlier attempts.
    """

    gang: Gang
    hold: SlurmJob | None
    stray_holds: tuple[SlurmJob, ...]
    pods: tuple[PodView, ...]
    stray_pods: tuple[PodView, ...]
    claims: tuple[ClaimView, ...]
    stray_claims: tuple[ClaimView, ...]
    has_service: bool

    @property
    def is_committed(self) -> bool:
        """True once any pod of the attempt was handed to kube-scheduler, also when that pod is no longer there."""
        if self.gang.status.is_true(ConditionType.RUNNING) or any(not pod.gated for pod in self.pods):
            return True
        pods = {pod.uid for pod in self.pods}
        return any(claim.is_allocated and pods.isdisjoint(claim.reserved_for) for claim in self.claims)

    @property
    def is_ending(self) -> bool:
        """True once somebody deleted the gang, or its attempt was found to have ended."""
        status = self.gang.status
        return self.gang.deleting or status.outcome is not None or status.is_true(ConditionType.FINISHED)


def own_holds(snapshot: Snapshot) -> dict[str, list[SlurmJob]]:
    """Return our holds by gang uid, oldest first: marked jobs, but none that a user could have marked by himself.

    ``admin_comment`` is out of a user's reach. A marker in ``comment`` alone (we died before sealing it) counts only
    for a gang that exists and whose queue submits as the job's user.
    """
    users = {
        gang.uid: queue.user
        for gang in snapshot.gangs
        if isinstance(gang.spec, GangSpec) and (queue := snapshot.queues.get(gang.spec.queue)) is not None
    }
    found: dict[str, list[SlurmJob]] = {}
    for job in sorted(snapshot.slurm.jobs.values(), key=_age) if snapshot.slurm else ():
        marker = job.marker
        if marker is None or marker.cluster != snapshot.cluster:
            continue
        if job.is_sealed or users.get(marker.key.uid) == job.user:
            found.setdefault(marker.key.uid, []).append(job)
    return found


def observe_all(snapshot: Snapshot) -> list[Observed]:
    """Return every gang, oldest first, each with what belongs to it. O(objects)."""
    pods: dict[tuple[str, str], list[PodView]] = {}
    for pod in snapshot.pods:
        pods.setdefault((pod.namespace, pod.gang_uid), []).append(pod)
    claims: dict[tuple[str, str], list[ClaimView]] = {}
    for claim in snapshot.claims:
        claims.setdefault((claim.namespace, claim.gang_uid), []).append(claim)
    holds = own_holds(snapshot)
    ordered = sorted(snapshot.gangs, key=lambda gang: (gang.created, gang.namespace, gang.name, gang.uid))
    return [
        _observe(
            gang,
            holds.get(gang.uid, []),
            pods.get((gang.namespace, gang.uid), []),
            claims.get((gang.namespace, gang.uid), []),
            has_service=(gang.namespace, gang.uid) in snapshot.services,
        )
        for gang in ordered
    ]


def _observe(
    gang: Gang, holds: list[SlurmJob], pods: list[PodView], claims: list[ClaimView], *, has_service: bool
) -> Observed:
    current = [job for job in holds if job.marker is not None and job.marker.key == gang.key]
    live = [job for job in current if job.is_live]
    hold = min(live, key=_age) if live else max(current, key=_age, default=None)
    attempt = gang.status.attempt
    pods = sorted(pods, key=lambda pod: (pod.attempt, pod.rank, pod.name))
    claims = sorted(claims, key=lambda claim: (claim.attempt, claim.rank, claim.name))
    return Observed(
        gang=gang,
        hold=hold,
        stray_holds=tuple(job for job in sorted(holds, key=_age) if job.is_live and job is not hold),
        pods=tuple(pod for pod in pods if pod.attempt == attempt),
        stray_pods=tuple(pod for pod in pods if pod.attempt != attempt),
        claims=tuple(claim for claim in claims if claim.attempt == attempt),
        stray_claims=tuple(claim for claim in claims if claim.attempt != attempt),
        has_service=has_service,
    )


def _age(job: SlurmJob) -> int:
    return job.job_id
