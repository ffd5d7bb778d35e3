"""One cycle's decision for everything: Snapshot in, Plan out, the same bytes every time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bridge.lifecycle.actions import Action, Decision, Stages
from bridge.lifecycle.brake import Brake, brake
from bridge.lifecycle.context import Context
from bridge.lifecycle.evidence import find_remains, read_evidence
from bridge.lifecycle.fence import fences
from bridge.lifecycle.fleetview import FleetView, join
from bridge.lifecycle.gang import decide
from bridge.lifecycle.guard import guards
from bridge.lifecycle.inventory import inventory
from bridge.lifecycle.mirror import mirror_jobs
from bridge.lifecycle.observed import observe_all
from bridge.lifecycle.orphans import orphans
from bridge.model.snapshot import Snapshot
from bridge.queue.timeline import Timeline


@dataclass(frozen=True, slots=True, kw_only=True)
class Chore:
    """Stages of work that belong to no GangJob of a user; ``key`` names them in logs."""

    key: str
    stages: Stages


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What one cycle will do. Decisions and chores are independent of each other and may run side by side.

    While ``brake`` is set, nothing is begun or taken for ended; what users and earlier cycles ended goes on ending.
    """

    decisions: Sequence[Decision]
    chores: Sequence[Chore]
    view: FleetView | None
    brake: Brake | None = None

    @property
    def is_idle(self) -> bool:
        """True when nothing is to be done outside."""
        return not any(any(decision.stages) or decision.status for decision in self.decisions) and not self.chores


def plan(snapshot: Snapshot) -> Plan:
    """Decide every gang, mirror, orphan and node."""
    view = join(snapshot)
    evidence = read_evidence(snapshot)
    context = Context(
        now=snapshot.now,
        slurm=snapshot.slurm,
        view=view,
        queues=snapshot.queues,
        namespaces=snapshot.namespaces,
        held_back=snapshot.held_back,
        evidence=evidence,
        remains=find_remains(snapshot, evidence),
    )
    gangs = observe_all(snapshot)
    braked = brake(snapshot, gangs, context)
    timelines: dict[str, Timeline] = {}
    decisions = [decide(each, context, timelines) for each in gangs if braked is None or each.is_ending]
    # Protection comes first: it goes on while the brake is on, and is undone when what was lost turns up again.
    protection: list[Action] = [*guards(snapshot, gangs, context.remains), *fences(snapshot, gangs, context.remains)]
    chores = [_chore("protection", protection), _chore("nodes", inventory(snapshot))]
    if braked is None:
        chores += [Chore(key=f"orphan {uid}", stages=stages) for uid, stages in orphans(snapshot, context).items()]
        jobs = mirror_jobs(snapshot, view) if view is not None else {}
        chores += [Chore(key=f"job {job_id}", stages=stages) for job_id, stages in jobs.items()]
    return Plan(decisions=decisions, chores=[chore for chore in chores if any(chore.stages)], view=view, brake=braked)


def _chore(key: str, actions: Sequence[Action]) -> Chore:
    return Chore(key=key, stages=(actions,))
