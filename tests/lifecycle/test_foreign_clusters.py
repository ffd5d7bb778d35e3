"""One slurmctld, several Kubernetes clusters: each bridge leaves the holds of the others alone."""

from __future__ import annotations

from dataclasses import replace

from bridge.lifecycle.actions import CancelHold, WriteMirror
from bridge.lifecycle.plan import plan
from bridge.model.fleet import Mode
from tests.builders import NOW, fleet, gang, hold, node, snapshot


def actions(seen):
    return [action for chore in plan(seen).chores for stage in chore.stages for action in stage]


def stray(cluster: str):
    job = hold(gang("gone"), on={"n1": range(8)}, submit_time=NOW - 500)
    return replace(job, marker=replace(job.marker, cluster=cluster))


def test_a_hold_of_another_cluster_is_shown_like_any_job_and_never_cancelled():
    seen = snapshot([node("n1")], jobs=[stray("theirs")], cluster="ours")
    assert not [action for action in actions(seen) if isinstance(action, CancelHold)]
    assert [action.job.job_id for action in actions(seen) if isinstance(action, WriteMirror)]


def test_an_orphan_of_our_own_cluster_is_cancelled_but_not_by_an_observer():
    seen = snapshot([node("n1")], jobs=[stray("ours")], cluster="ours")
    assert [action for action in actions(seen) if isinstance(action, CancelHold)]
    observing = replace(seen, fleet=fleet(mode=Mode.OBSERVE))
    assert not [action for action in actions(observing) if isinstance(action, CancelHold)]
