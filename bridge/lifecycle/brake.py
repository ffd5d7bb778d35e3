"""When too much looks lost at once, it is rather what we see that is wrong: stop, and say so (never gone, but unknown).

slurmctld restarted without its state, a restored etcd or a list that came back empty would otherwise end every gang.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bridge.lifecycle.context import Context
from bridge.lifecycle.observed import Observed, own_holds
from bridge.lifecycle.outcome import detect
from bridge.model.fleet import BrakeSpec
from bridge.model.gang import GangSpec, Result
from bridge.model.snapshot import Snapshot
from bridge.wellknown import MIRROR_NAMESPACE

_LOST = frozenset({Result.HOLD_LOST, Result.NODE_FAILED, Result.POD_LOST})
"""Ends that nobody may have ordered. A scancel, a time limit, a preemption is an order, however many gangs it ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Brake:
    """Why the brake is on: ``lost`` of ``total`` of one kind of thing, of which ``example`` is one."""

    kind: str
    lost: int
    total: int
    example: str

    @property
    def message(self) -> str:
        """Return the sentence for people."""
        return f"{self.lost} of {self.total} {self.kind} look lost at once, {self.example} for one"


def brake(snapshot: Snapshot, gangs: Sequence[Observed], context: Context) -> Brake | None:
    """Return why nothing may be ended in this cycle, or None."""
    if snapshot.fleet is None or snapshot.slurm is None or snapshot.fleet.brake.released_until > context.now:
        return None
    limits = snapshot.fleet.brake
    for kind, lost, total in (_gangs(gangs, context), _holds(snapshot), _mirrors(snapshot)):
        if _is_too_much(limits, len(lost), total):
            return Brake(kind=kind, lost=len(lost), total=total, example=min(lost))
    return None


def _is_too_much(limits: BrakeSpec, lost: int, total: int) -> bool:
    return lost >= limits.min_lost and lost * 100 > limits.max_lost_percent * total


def _gangs(gangs: Sequence[Observed], context: Context) -> tuple[str, list[str], int]:
    """Return the gangs with a hold that seem to have ended without an order, of those that nobody is ending."""
    alive = [each for each in gangs if each.gang.status.hold is not None and not each.is_ending]
    lost = [each for each in alive if _looks_lost(each, context)]
    return "gangs", [f"{each.gang.namespace}/{each.gang.name}" for each in lost], len(alive)


def _looks_lost(observed: Observed, context: Context) -> bool:
    found = detect(observed, context)
    if found is None or found.result not in _LOST:
        return False
    return found.result is not Result.POD_LOST or not _are_deleted(observed, context)


def _are_deleted(observed: Observed, context: Context) -> bool:
    """Return whether all pods are there, and those that go were deleted where their end can be told: an order too."""
    spec, evidence = observed.gang.spec, context.evidence
    is_whole = isinstance(spec, GangSpec) and len(observed.pods) == spec.role.replicas
    return is_whole and all(
        evidence.is_awaited(pod) or evidence.is_stopped(pod) for pod in observed.pods if pod.deleting
    )


def _holds(snapshot: Snapshot) -> tuple[str, list[str], int]:
    """Return the live holds whose GangJob is unknown: the API server may have lost more than they have."""
    known = {gang.uid for gang in snapshot.gangs}
    live = [(uid, job) for uid, jobs in own_holds(snapshot).items() for job in jobs if job.is_live]
    return "holds", [f"job {job.job_id}" for uid, job in live if uid not in known], len(live)


def _mirrors(snapshot: Snapshot) -> tuple[str, list[str], int]:
    """Return the mirrors whose job slurmctld has forgotten without ever giving a higher id since.

    Ids only grow while slurmctld keeps its state; jobs that ended while we were away are gone, and younger ones there.
    """
    jobs = snapshot.slurm.jobs if snapshot.slurm is not None else {}
    newest = max(jobs, default=0)
    shown = [mirror for mirror in snapshot.mirrors if mirror.namespace == MIRROR_NAMESPACE]
    lost = [mirror.name for mirror in shown if mirror.job_id not in jobs and mirror.job_id > newest]
    return "mirrors", lost, len(shown)
