"""What to do for one gang now: a total function over what can be observed."""

from __future__ import annotations

from dataclasses import replace

from bridge.lifecycle import end, start
from bridge.lifecycle.actions import Decision
from bridge.lifecycle.admission import Accepted, Refused, admit
from bridge.lifecycle.context import Context
from bridge.lifecycle.fleetview import FleetView
from bridge.lifecycle.observed import Observed
from bridge.lifecycle.outcome import detect
from bridge.lifecycle.status import set_condition, settle
from bridge.model.gang import ConditionType
from bridge.model.slurm import JobState
from bridge.queue.timeline import Timeline

HELD = frozenset({"JobHeldAdmin", "JobHeldUser"})
"""Reasons of a hold that somebody wants to stay where it is (scontrol hold)."""


def decide(observed: Observed, context: Context, timelines: dict[str, Timeline]) -> Decision:
    """Return the next step of the gang; ``timelines`` (by partition) take up what it reserves."""
    decision = _decide(observed, context, timelines)
    status = settle(decision.status or observed.gang.status, observed)
    return replace(decision, status=None if status == observed.gang.status else status)


def _decide(observed: Observed, context: Context, timelines: dict[str, Timeline]) -> Decision:
    gang = observed.gang
    if gang.deleting:
        return end.remove(observed, context)
    if (strays := end.sweep(observed, context)) is not None:
        return Decision(gang=gang, stages=strays)
    if gang.status.is_true(ConditionType.FINISHED):
        return end.tidy(observed, context)
    if (outcome := gang.status.outcome) is not None:
        return end.finish(observed, outcome, context)
    if (found := detect(observed, context)) is not None:
        return end.begin(gang, found, context.now)
    if context.view is None:
        return _not_seen_yet(observed, context)
    return _advance(observed, context, context.view, timelines)


def _not_seen_yet(observed: Observed, context: Context) -> Decision:
    """Say to who has just applied a gang why nothing happens; what was said before stays."""
    gang = observed.gang
    if gang.status.condition(ConditionType.ACCEPTED) is not None:
        return Decision(gang=gang)
    reason, what = (
        ("NoFleet", "there is no Fleet") if context.slurm is not None else ("SlurmUnreachable", "Slurm is silent")
    )
    message = f"{what}; the gang is looked at as soon as that changes"
    status = set_condition(gang.status, ConditionType.ACCEPTED, False, reason, message, now=context.now)
    return Decision(gang=gang, status=status)


def _advance(observed: Observed, context: Context, view: FleetView, timelines: dict[str, Timeline]) -> Decision:
    gang, hold = observed.gang, observed.hold
    if hold is not None and hold.state is not JobState.PENDING:
        return start.project(observed, hold, view)
    verdict = admit(gang, view, context.queues, context.namespaces)
    if isinstance(verdict, Refused):
        if hold is not None:
            return Decision(gang=gang)
        status = set_condition(
            gang.status, ConditionType.ACCEPTED, False, verdict.reason, verdict.message, now=context.now
        )
        return Decision(gang=gang, status=status)
    return _queue(observed, verdict, context, view, timelines)


def _queue(
    observed: Observed, accepted: Accepted, context: Context, view: FleetView, timelines: dict[str, Timeline]
) -> Decision:
    partition = accepted.queue.partition
    if partition not in timelines:
        timelines[partition] = view.timeline(partition)
    timeline = timelines[partition]
    gang = observed.gang
    is_held_back = gang.uid in context.held_back or end.retry_at(gang, context.now) > context.now
    if observed.hold is not None:
        may_move = not is_held_back and observed.hold.reason not in HELD
        return start.wait(observed, observed.hold, accepted, view, timeline, may_move=may_move)
    if is_held_back:
        return Decision(gang=gang)
    return start.submit(observed, accepted, view, timeline)
