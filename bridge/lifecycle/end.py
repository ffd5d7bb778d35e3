"""Every end goes pods, then claims, then hold: no device is free before it is proven unused."""

from __future__ import annotations

from dataclasses import replace

from bridge.lifecycle.actions import Action, CancelHold, CompleteHold, Decision, RemoveFinalizer, Stages
from bridge.lifecycle.context import Context
from bridge.lifecycle.evidence import Remains
from bridge.lifecycle.guard import guarded
from bridge.lifecycle.observed import Observed
from bridge.lifecycle.outcome import counts_as_restart, ends_hold_truthfully, wants_retry
from bridge.lifecycle.status import set_condition
from bridge.lifecycle.undo import Undoing, undo
from bridge.model.gang import ConditionType, Gang, GangStatus, Outcome, Phase, Result
from bridge.model.hold import ExitStatus
from bridge.model.slurm import JobState, SlurmJob

MAX_BACKOFF_S = 300
NEAR_S = 900
"""A hold whose time limit is further away than this was given more time while its gang was ending: it would idle."""
OVERDUE_S = 60
"""So long after its time limit a hold is left for slurmctld to end, which looks at limits twice a minute."""


def retry_at(gang: Gang, now: int) -> int:
    """Return the second since the epoch before which the current attempt is not submitted: 1 s, 2 s, 4 s … later.

    An end in the future was stamped by another clock, or before ours was set back: nothing is to be waited for.
    """
    ended = gang.status.condition(ConditionType.ALLOCATED)
    if gang.status.attempt == 1 or ended is None or ended.status or ended.since > now:
        return 0
    return ended.since + int(min(2 ** min(gang.status.attempt - 2, 16), MAX_BACKOFF_S))


def remove(observed: Observed, context: Context) -> Decision:
    """The GangJob is being deleted: undo everything, then let it go."""
    gang = observed.gang
    undoing = undo(observed.pods + observed.stray_pods, observed.claims + observed.stray_claims, context.evidence)
    status = _explained(gang.status, undoing)
    if not undoing.is_over:
        return Decision(gang=gang, stages=undoing.stages, status=status)
    if context.slurm is None or not gang.has_finalizer:
        return Decision(gang=gang, status=status)
    live = _live_holds(observed)
    if live or undoing.left:
        return Decision(gang=gang, stages=_end_holds(observed, live, gang.status.outcome, context), status=status)
    return Decision(gang=gang, stages=([RemoveFinalizer(gang=gang)],))


def begin(gang: Gang, outcome: Outcome, now: int) -> Decision:
    """Record how the attempt ended before anything is undone: the evidence goes with the undoing."""
    return Decision(gang=gang, status=_completing(gang.status, outcome, now))


def finish(observed: Observed, outcome: Outcome, context: Context) -> Decision:
    """The attempt has ended: undo it, then begin the next one or report the end.

    What is left unproven on a fenced node keeps nobody waiting: the claims there stay, and so does the fence.
    """
    gang, now = observed.gang, context.now
    retry = wants_retry(gang, outcome)
    undoing = undo(observed.pods, observed.claims, context.evidence, keep_terminal=not retry)
    status = _explained(_completing(gang.status, outcome, now), undoing)
    if not undoing.is_over:
        return Decision(gang=gang, stages=undoing.stages, status=status)
    if context.slurm is None:
        return Decision(gang=gang, status=status)
    live = _live_holds(observed)
    if live:
        return Decision(gang=gang, stages=_end_holds(observed, live, outcome, context), status=status)
    return Decision(gang=gang, status=_next(gang, outcome, now) if retry else _finished(status, outcome, now))


def tidy(observed: Observed, context: Context) -> Decision:
    """The gang has finished: nothing of it may be left but pods that ended, kept for their logs.

    A hold can turn up late, from a submission that was given up for lost.
    """
    undoing = undo(observed.pods, observed.claims, context.evidence, keep_terminal=True)
    stages = undoing.stages
    if undoing.is_over and context.slurm is not None:
        stages = _end_holds(observed, _live_holds(observed), None, context)
    return Decision(gang=observed.gang, stages=stages)


def sweep(observed: Observed, context: Context) -> Stages | None:
    """Return what removes leftovers of earlier attempts and duplicate holds, or None when there are none."""
    undoing = undo(observed.stray_pods, observed.stray_claims, context.evidence)
    if not undoing.is_over:
        return undoing.stages
    duplicates: list[Action] = [
        CancelHold(job_id=job.job_id) for job in observed.stray_holds if not job.completing and may_end(job, context)
    ]
    return (duplicates,) if duplicates else None


def may_end(job: SlurmJob, context: Context) -> bool:
    """Return whether a hold may end: no node of it is guarded any more, or what is unproven there is fenced."""
    if context.slurm is None:
        return False
    if not job.holds_devices:
        return True
    quarantined = context.remains.get(job.marker.key, Remains()).quarantined if job.marker else set()
    for name in job.nodes:
        node = context.slurm.nodes.get(name)
        if node is None:
            continue
        if name in quarantined:
            if not node.is_closed:
                return False
        elif job.job_id in guarded(node):
            return False
    return True


def _live_holds(observed: Observed) -> list[SlurmJob]:
    own = [observed.hold] if observed.hold is not None and observed.hold.is_live else []
    return [*own, *observed.stray_holds]


def _end_holds(observed: Observed, live: list[SlurmJob], outcome: Outcome | None, context: Context) -> Stages:
    """Complete the attempt's running hold with its true status; cancel what is pending; leave epilogs alone."""
    actions: list[Action] = []
    for job in live:
        if job.state not in {JobState.PENDING, JobState.RUNNING, JobState.SUSPENDED} or not may_end(job, context):
            continue
        is_own = job.state is JobState.RUNNING and _is_the_hold(job, observed)
        if outcome is not None and is_own and ends_hold_truthfully(outcome):
            status = ExitStatus(code=outcome.exit_code)
            actions.append(CompleteHold(gang=observed.gang, job_id=job.job_id, status=status))
        elif not (outcome is not None and is_own and _is_left_to_slurm(job, outcome, context)):
            actions.append(CancelHold(job_id=job.job_id))
    return (actions,) if actions else ()


def _is_the_hold(job: SlurmJob, observed: Observed) -> bool:
    """Return whether the pods ran on this hold: a duplicate may turn up late, when that one has ended already."""
    known = observed.gang.status.hold
    return job is observed.hold and (known is None or known.job_id == job.job_id)


def _is_left_to_slurm(job: SlurmJob, outcome: Outcome, context: Context) -> bool:
    """Return whether slurmctld itself is about to end the hold: nobody else can write TIMEOUT into the accounting."""
    if outcome.result is not Result.TIME_LIMIT or job.end_time is None or context.slurm is None:
        return False
    return -NEAR_S <= context.slurm.taken_at - job.end_time < OVERDUE_S


def _explained(status: GangStatus, undoing: Undoing) -> GangStatus:
    """Say for which nodes the devices cannot be freed, and what would help."""
    if not undoing.is_over or not undoing.left:
        return status
    nodes = ", ".join(undoing.unproven)
    message = f"not proven gone on {nodes}: waiting for its kubelet, or for an admin's kubectl gang fence"
    return replace(status, message=message)


def _completing(status: GangStatus, outcome: Outcome, now: int) -> GangStatus:
    shown = replace(status, outcome=outcome, exit_code=outcome.exit_code)
    if shown.is_true(ConditionType.RUNNING) or shown.condition(ConditionType.RUNNING) is None:
        return set_condition(shown, ConditionType.RUNNING, False, outcome.result, outcome.message, now=now)
    return replace(shown, reason=outcome.result, message=outcome.message)


def _finished(status: GangStatus, outcome: Outcome, now: int) -> GangStatus:
    reason = Phase.SUCCEEDED if outcome.result is Result.SUCCEEDED else outcome.result
    done = set_condition(status, ConditionType.FINISHED, True, reason, outcome.message, now=now)
    return replace(done, completion_time=now)


def _next(gang: Gang, outcome: Outcome, now: int) -> GangStatus:
    """Return the status of a new attempt."""
    status = gang.status
    message = f"attempt {status.attempt} ended ({outcome.result}): {outcome.message}"
    for type_ in (ConditionType.ALLOCATED, ConditionType.RUNNING):
        status = set_condition(status, type_, False, "Restarting", message, now=now)
    return replace(
        status,
        attempt=status.attempt + 1,
        restarts=status.restarts + counts_as_restart(outcome),
        outcome=None,
        exit_code=None,
        hold=None,
        start_time=None,
    )
