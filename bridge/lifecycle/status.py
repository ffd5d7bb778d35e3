"""Conditions, and the print columns that follow from them."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from bridge.lifecycle.observed import Observed
from bridge.model.gang import Condition, ConditionType, GangSpec, GangStatus, HoldStatus, Phase
from bridge.model.hostlist import fold
from bridge.model.kube import PodPhase
from bridge.model.slurm import JobState

MAX_MESSAGE = 1024


def set_condition(
    status: GangStatus, type_: ConditionType, value: bool, reason: str, message: str, *, now: int
) -> GangStatus:
    """Return ``status`` with the condition set, and its reason and message as the ones shown."""
    message = message[:MAX_MESSAGE]
    condition = Condition(type=type_, status=value, reason=reason, message=message, since=now)
    return replace(status.with_condition(condition), reason=reason, message=message)


def settle(status: GangStatus, observed: Observed) -> GangStatus:
    """Return ``status`` with everything that is derived from the conditions and from what was observed."""
    gang = observed.gang
    started = sum(1 for pod in observed.pods if pod.phase is PodPhase.RUNNING)
    total = gang.spec.role.replicas if isinstance(gang.spec, GangSpec) else 0
    shown = started + sum(1 for pod in observed.pods if pod.phase is PodPhase.SUCCEEDED)
    return replace(
        status,
        phase=_phase(status, observed),
        ready_pods=started,
        pods=f"{shown}/{total}",
        gpus=gang.spec.gpus if isinstance(gang.spec, GangSpec) else 0,
        hold=_hold(status, observed),
        observed_generation=gang.generation,
    )


def _phase(status: GangStatus, observed: Observed) -> Phase:
    if observed.gang.deleting:
        return Phase.TERMINATING
    finished = status.condition(ConditionType.FINISHED)
    if finished is not None and finished.status:
        return Phase.SUCCEEDED if finished.reason == Phase.SUCCEEDED else Phase.FAILED
    if status.outcome is not None and status.outcome.attempt == status.attempt:
        return Phase.COMPLETING
    for type_, phase in (
        (ConditionType.RUNNING, Phase.RUNNING),
        (ConditionType.ALLOCATED, Phase.STARTING),
        (ConditionType.ACCEPTED, Phase.QUEUED),
    ):
        if status.is_true(type_):
            return phase
    return Phase.PENDING


def _hold(status: GangStatus, observed: Observed) -> HoldStatus | None:
    hold = observed.hold
    if hold is None or hold.marker is None or hold.marker.key.attempt != status.attempt:
        return status.hold
    is_pending = hold.state is JobState.PENDING
    nodes = hold.required_nodes if is_pending else hold.nodes
    shown = _folded(nodes) or (status.hold.nodes if status.hold else "")
    return HoldStatus(
        job_id=hold.job_id,
        state=hold.state,
        nodes=shown,
        user=hold.user,
        account=hold.account,
        partition=hold.partition,
        # NB: a waiting job's is an estimate that moves with every pass of backfill; each would be a write.
        end_time=None if is_pending else hold.end_time,
    )


@lru_cache(maxsize=4096)
def _folded(nodes: tuple[str, ...]) -> str:
    """Return the hostlist. Remembered: every gang's is looked at in every cycle."""
    return fold(nodes)
