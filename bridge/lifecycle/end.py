"""Every end goes pods, then claims, then hold: no device is free before it is proven unused."""

from __future__ import annotations

from dataclasses import replace

from bridge.lifecycle.actions import (
    Action,
    CancelHold,
    CompleteHold,
    Decision,
    DeletePod,
    FreeClaim,
    RemoveFinalizer,
    Stages,
)
from bridge.lifecycle.observed import Observed
from bridge.lifecycle.outcome import counts_as_restart, ends_hold_truthfully, wants_retry
from bridge.lifecycle.status import set_condition
from bridge.model.gang import ConditionType, Gang, GangStatus, Outcome, Phase, Result
from bridge.model.hold import ExitStatus
from bridge.model.kube import ClaimView, PodView
from bridge.model.slurm import JobState, SlurmJob

MAX_BACKOFF_S = 300


def retry_at(gang: Gang) -> int:
    """Return the second since the epoch before which the current attempt is not submitted: 1 s, 2 s, 4 s … later."""
    ended = gang.status.condition(ConditionType.ALLOCATED)
    if gang.status.attempt == 1 or ended is None or ended.status:
        return 0
    return ended.since + int(min(2 ** min(gang.status.attempt - 2, 16), MAX_BACKOFF_S))


def remove(observed: Observed, *, slurm_known: bool) -> Decision:
    """The GangJob is being deleted: undo everything, then let it go."""
    gang = observed.gang
    pods = observed.pods + observed.stray_pods
    claims = observed.claims + observed.stray_claims
    stages = _unbind(pods, claims, keep_terminal=False)
    if stages is not None:
        return Decision(gang=gang, stages=stages)
    if not slurm_known or not gang.has_finalizer:
        return Decision(gang=gang)
    live = _live_holds(observed)
    if live:
        return Decision(gang=gang, stages=_end_holds(observed, live, gang.status.outcome))
    return Decision(gang=gang, stages=([RemoveFinalizer(gang=gang)],))


def begin(gang: Gang, outcome: Outcome, now: int) -> Decision:
    """Record how the attempt ended before anything is undone: the evidence goes with the undoing."""
    return Decision(gang=gang, status=_completing(gang.status, outcome, now))


def finish(observed: Observed, outcome: Outcome, *, slurm_known: bool, now: int) -> Decision:
    """The attempt has ended: undo it, then begin the next one or report the end."""
    gang = observed.gang
    retry = wants_retry(gang, outcome)
    status = _completing(gang.status, outcome, now)
    stages = _unbind(observed.pods, observed.claims, keep_terminal=not retry)
    if stages is not None:
        return Decision(gang=gang, stages=stages, status=status)
    if not slurm_known:
        return Decision(gang=gang, status=status)
    live = _live_holds(observed)
    if live:
        return Decision(gang=gang, stages=_end_holds(observed, live, outcome), status=status)
    return Decision(gang=gang, status=_next(gang, outcome, now) if retry else _finished(status, outcome, now))


def tidy(observed: Observed) -> Decision:
    """The gang has finished: nothing of it may be left but pods that ended, kept for their logs.

    A hold can turn up late, from a submission that was given up for lost.
    """
    stages = _unbind(observed.pods, observed.claims, keep_terminal=True)
    if stages is None:
        stages = _end_holds(observed, _live_holds(observed), None)
    return Decision(gang=observed.gang, stages=stages)


def sweep(observed: Observed) -> Stages | None:
    """Return what removes leftovers of earlier attempts and duplicate holds, or None when there are none."""
    stages = _unbind(observed.stray_pods, observed.stray_claims, keep_terminal=False)
    if stages is not None:
        return stages
    duplicates: list[Action] = [CancelHold(job_id=job.job_id) for job in observed.stray_holds if not job.completing]
    return (duplicates,) if duplicates else None


def _unbind(pods: tuple[PodView, ...], claims: tuple[ClaimView, ...], *, keep_terminal: bool) -> Stages | None:
    """Return the next stage towards no running pod and no claim; empty to wait; None when there is nothing left."""
    unwanted = [pod for pod in pods if not (keep_terminal and pod.is_terminal)]
    if unwanted:
        doomed: list[Action] = [DeletePod(pod=pod) for pod in unwanted if not pod.deleting]
        return (doomed,) if doomed else ()
    if claims:
        return ([FreeClaim(claim=claim) for claim in claims],)
    return None


def _live_holds(observed: Observed) -> list[SlurmJob]:
    own = [observed.hold] if observed.hold is not None and observed.hold.is_live else []
    return [*own, *observed.stray_holds]


def _end_holds(observed: Observed, live: list[SlurmJob], outcome: Outcome | None) -> Stages:
    """Complete the attempt's running hold with its true status; cancel what is pending; leave epilogs alone."""
    actions: list[Action] = []
    for job in live:
        if job.state not in {JobState.PENDING, JobState.RUNNING, JobState.SUSPENDED}:
            continue
        truthful = outcome is not None and ends_hold_truthfully(outcome) and job.state is JobState.RUNNING
        if outcome is not None and truthful and job is observed.hold:
            status = ExitStatus(code=outcome.exit_code)
            actions.append(CompleteHold(gang=observed.gang, job_id=job.job_id, status=status))
        else:
            actions.append(CancelHold(job_id=job.job_id))
    return (actions,) if actions else ()


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
