"""One cycle's decision for everything: Snapshot in, Plan out, the same bytes every time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bridge.lifecycle.actions import Action, Decision, Stages
from bridge.lifecycle.fleetview import FleetView, join
from bridge.lifecycle.gang import Context, decide
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
    """What one cycle will do. Decisions and chores are independent of each other and may run side by side."""

    decisions: Sequence[Decision]
    chores: Sequence[Chore]
    view: FleetView | None

    @property
    def is_idle(self) -> bool:
        """True when nothing is to be done outside."""
        return not any(any(decision.stages) or decision.status for decision in self.decisions) and not self.chores


def plan(snapshot: Snapshot) -> Plan:
    """Decide every gang, mirror, orphan and node."""
    view = join(snapshot)
    context = Context(
        now=snapshot.now,
        view=view,
        slurm_known=snapshot.slurm is not None,
        queues=snapshot.queues,
        namespaces=snapshot.namespaces,
        not_before=snapshot.not_before,
    )
    timelines: dict[str, Timeline] = {}
    decisions = [decide(observed, context, timelines) for observed in observe_all(snapshot)]
    chores = [Chore(key=f"orphan {uid}", stages=stages) for uid, stages in orphans(snapshot).items()]
    if view is not None:
        chores += [Chore(key=f"job {job_id}", stages=stages) for job_id, stages in mirror_jobs(snapshot, view).items()]
    nodes: list[Action] = inventory(snapshot)
    if nodes:
        chores.append(Chore(key="nodes", stages=(nodes,)))
    return Plan(decisions=decisions, chores=chores, view=view)
