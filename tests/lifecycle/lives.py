"""Beginnings of tests about whole lives, and what has to be true at their ends."""

from __future__ import annotations

from dataclasses import replace

from bridge.model.gang import Gang, Phase
from bridge.model.slurm import JobState
from tests.builders import gang
from tests.lifecycle.world import World, world


def apply(to: World, *owners: Gang) -> None:
    """Let users create GangJobs, as the operator first sees them."""
    for owner in owners:
        to.gangs[owner.uid] = replace(owner, has_finalizer=False)


def started(*names: str, **spec) -> tuple[World, Gang]:
    """Return a world with one gang whose pods run."""
    place, owner = world(*names), gang(**spec)
    apply(place, owner)
    place.run()
    assert place.status(owner).phase is Phase.RUNNING
    return place, owner


def assert_clean(place: World, owner: Gang) -> None:
    """Nothing of the gang is left outside but pods that ended."""
    assert not place.live_holds()
    assert not [claim for claim in place.claims.values() if claim.gang_uid == owner.uid]
    assert not [pod for pod in place.pods.values() if pod.gang_uid == owner.uid and not pod.is_terminal]


def endings(place: World) -> list[tuple[JobState, int]]:
    """Return how every Slurm job stands, with its exit code."""
    return [(job.state, job.exit_status.code) for job in place.slurm.jobs.values()]


def submit_again(place: World) -> None:
    """Let a submission that was given up for lost be carried out after all."""
    lost = replace(place.slurm.jobs[1], pin=("n3", "n4"), grants={}, state=JobState.PENDING, end_time=None)
    place.slurm._submit(lost)
