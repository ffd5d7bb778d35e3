"""Has the attempt ended, and how? The first evidence wins and is recorded before anything is undone."""

from __future__ import annotations

from bridge.lifecycle.context import Context
from bridge.lifecycle.observed import Observed
from bridge.model.gang import ConditionType, Gang, GangSpec, Outcome, Result
from bridge.model.kube import PodPhase
from bridge.model.slurm import JobState, SlurmJob

_BY_STATE = {
    JobState.TIMEOUT: Result.TIME_LIMIT,
    JobState.DEADLINE: Result.TIME_LIMIT,
    JobState.PREEMPTED: Result.PREEMPTED,
    JobState.NODE_FAIL: Result.NODE_FAILED,
    JobState.BOOT_FAIL: Result.NODE_FAILED,
    # Without a process a hold cannot fail; slurmctld fails it when it cannot answer the submitter (a call that hung).
    JobState.FAILED: Result.HOLD_LOST,
}
_ENDED_BY_PODS = frozenset({Result.SUCCEEDED, Result.POD_FAILED, Result.POD_LOST})
_UNCOUNTED = frozenset({Result.PREEMPTED, Result.NODE_FAILED, Result.HOLD_LOST, Result.SHAPE_CHANGED})
STOPPING_S = 15
"""Beyond their grace period, so much earlier than the time limit pods are told to stop: their devices are to be free by
then, and slurmctld to find nothing to kill."""
_FINAL = frozenset({Result.SUCCEEDED, Result.CANCELLED, Result.TIME_LIMIT})


def detect(observed: Observed, context: Context) -> Outcome | None:
    """Return how the current attempt ended, or None while it has not."""
    found = _from_pods(observed, context)
    if found is not None or context.slurm is None:
        return found
    return _from_hold(observed) or _from_clock(observed, context.slurm.taken_at)


def counts_as_restart(outcome: Outcome) -> bool:
    """Return whether another attempt uses up one of ``maxRestarts``: not when the fleet was to blame."""
    return outcome.result not in _UNCOUNTED


def wants_retry(gang: Gang, outcome: Outcome) -> bool:
    """Return whether the gang gets another attempt."""
    if outcome.result in _FINAL or not isinstance(gang.spec, GangSpec):
        return False
    return not counts_as_restart(outcome) or gang.status.restarts < gang.spec.max_restarts


def ends_hold_truthfully(outcome: Outcome) -> bool:
    """Return whether the hold is to be completed with the exit code, not cancelled."""
    return outcome.result in _ENDED_BY_PODS


def _from_pods(observed: Observed, context: Context) -> Outcome | None:
    attempt = observed.gang.status.attempt
    lost = {pod.uid for pod in observed.pods if pod.deleting or pod.node in context.evidence.fenced}
    failed = [pod for pod in observed.pods if pod.phase is PodPhase.FAILED and pod.uid not in lost]
    if failed:
        first = min(failed, key=lambda pod: (pod.finished_at, pod.rank))
        code = first.exit_code or 1
        message = f"pod {first.name} (rank {first.rank}) failed with exit code {code}"
        return Outcome(
            attempt=attempt,
            result=Result.POD_FAILED,
            exit_code=code,
            message=f"{message}: {first.message}" if first.message else message,
        )
    if not observed.is_committed or not isinstance(observed.gang.spec, GangSpec):
        return None
    replicas = observed.gang.spec.role.replicas
    if len(observed.pods) == replicas and all(pod.phase is PodPhase.SUCCEEDED for pod in observed.pods):
        return Outcome(attempt=attempt, result=Result.SUCCEEDED, message=f"all {replicas} pods succeeded")
    staying = sum(1 for pod in observed.pods if pod.phase is PodPhase.SUCCEEDED or pod.uid not in lost)
    if staying < replicas:
        message = f"{replicas - staying} of {replicas} pods were deleted or lost their node"
        return Outcome(attempt=attempt, result=Result.POD_LOST, exit_code=1, message=message)
    return None


def _from_hold(observed: Observed) -> Outcome | None:
    attempt = observed.gang.status.attempt
    hold, known = observed.hold, observed.gang.status.hold
    if hold is None:
        if known is None and not _has_run(observed):
            return None
        message = f"Slurm no longer knows job {known.job_id if known else 'of this attempt'}"
        return Outcome(attempt=attempt, result=Result.HOLD_LOST, exit_code=1, message=message)
    if hold.state is JobState.PENDING and _has_run(observed):
        message = f"job {hold.job_id} lost its nodes and waits again"
        return Outcome(attempt=attempt, result=Result.PREEMPTED, exit_code=1, message=message)
    if hold.state in {JobState.PENDING, JobState.RUNNING, JobState.SUSPENDED}:
        return None
    return Outcome(attempt=attempt, result=_result(hold), exit_code=1, message=f"job {hold.job_id} ended {hold.state}")


def _from_clock(observed: Observed, slurm_now: float) -> Outcome | None:
    """Return the end by the time limit, early enough for pods to stop before slurmctld ends the hold.

    ``slurm_now`` is slurmctld's clock: a step of ours ends nothing.
    """
    hold = observed.hold
    if hold is None or hold.state is not JobState.RUNNING or hold.end_time is None or hold.start_time is None:
        return None
    wanted = max((pod.grace_s for pod in observed.pods), default=0) + STOPPING_S
    if slurm_now < hold.end_time - min(wanted, (hold.end_time - hold.start_time) // 2):
        return None
    message = f"the time limit of job {hold.job_id} is reached"
    return Outcome(attempt=observed.gang.status.attempt, result=Result.TIME_LIMIT, exit_code=1, message=message)


def _has_run(observed: Observed) -> bool:
    allocated = observed.gang.status.is_true(ConditionType.ALLOCATED)
    return allocated or bool(observed.pods) or bool(observed.claims)


def _result(hold: SlurmJob) -> Result:
    return Result.HOLD_LOST if _is_stillborn(hold) else _BY_STATE.get(hold.state, Result.CANCELLED)


def _is_stillborn(hold: SlurmJob) -> bool:
    """Return whether slurmctld itself cancelled the job because it could not tell its submitter of it.

    The submitter died before it could seal the job, which was cancelled as it was made. Nobody ordered that.
    """
    if hold.is_sealed or hold.state is not JobState.CANCELLED:
        return False
    return hold.end_time is not None and hold.submit_time is not None and hold.end_time - hold.submit_time <= 1
