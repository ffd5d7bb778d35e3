"""Holds, claims and pods of a gang that no longer exists (somebody stripped its finalizer)."""

from __future__ import annotations

from bridge.lifecycle.actions import Action, CancelHold, Stages
from bridge.lifecycle.context import Context
from bridge.lifecycle.end import may_end
from bridge.lifecycle.observed import own_holds
from bridge.lifecycle.undo import undo
from bridge.model.fleet import Mode
from bridge.model.kube import ClaimView, PodView
from bridge.model.snapshot import Snapshot

GRACE_S = 30
"""Age at which a hold without a gang is an orphan: its GangJob was known before it was submitted."""


def orphans(snapshot: Snapshot, context: Context) -> dict[str, Stages]:
    """Return what removes leftovers, by gang uid: pods and claims, then holds. Call only with complete lists.

    A Fleet in mode Observe writes nothing to Slurm, not even this.
    """
    known = {gang.uid for gang in snapshot.gangs}
    pods: dict[str, list[PodView]] = {}
    for pod in sorted(snapshot.pods, key=lambda pod: (pod.namespace, pod.name)):
        if pod.gang_uid not in known:
            pods.setdefault(pod.gang_uid, []).append(pod)
    claims: dict[str, list[ClaimView]] = {}
    for claim in sorted(snapshot.claims, key=lambda claim: (claim.namespace, claim.name)):
        if claim.gang_uid and claim.gang_uid not in known:
            claims.setdefault(claim.gang_uid, []).append(claim)
    holds: dict[str, list[Action]] = {}
    may_cancel = snapshot.fleet is not None and snapshot.fleet.mode is Mode.SHARE
    for uid, jobs in own_holds(snapshot).items() if may_cancel else ():
        for job in jobs:
            old = snapshot.now - (job.submit_time or snapshot.now) >= GRACE_S
            if uid not in known and job.is_live and not job.completing and old and may_end(job, context):
                holds.setdefault(uid, []).append(CancelHold(job_id=job.job_id))
    work: dict[str, Stages] = {}
    for uid in sorted(pods.keys() | claims.keys() | holds.keys()):
        undoing = undo(pods.get(uid, ()), claims.get(uid, ()), context.evidence)
        stages = undoing.stages if not undoing.is_over else (holds.get(uid, []),)
        if any(stages):
            work[uid] = stages
    return work
