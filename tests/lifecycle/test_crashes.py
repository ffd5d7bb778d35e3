"""The operator is killed before every single write of a life, once for each; the end is the same."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bridge.model.gang import Phase
from bridge.model.kube import PodPhase
from bridge.slurm.fake import FakeNode, FakeSlurm
from tests.builders import gang
from tests.lifecycle.lives import apply
from tests.lifecycle.world import World, now


def success(place: World) -> None:
    apply(place, gang())
    place.run()
    place.end_pods()
    place.run()


def restart(place: World) -> None:
    apply(place, gang(max_restarts=1))
    place.run()
    place.end_pods(PodPhase.FAILED, 3)
    place.run()
    place.slurm.advance(2)
    place.run()
    place.end_pods(PodPhase.FAILED, 4)
    place.run()


def deletion(place: World) -> None:
    owner = gang()
    apply(place, owner)
    place.run()
    place.change(owner, deleting=True)
    place.run()


def preemption(place: World) -> None:
    apply(place, gang())
    place.run()
    place.slurm.epilog = True
    place.slurm.preempt(1)
    place.run()
    place.slurm.finish_epilog(1)
    place.slurm.epilog = False
    place.run()
    place.slurm.advance(2)
    place.run()


def cancellation(place: World) -> None:
    apply(place, gang())
    place.run()
    now(place.slurm.cancel(1))
    place.run()


def two_gangs(place: World) -> None:
    place.run()
    apply(place, gang("first", replicas=1), gang("second", replicas=2, gres="gpu:h100:4"))
    place.run()
    place.end_pods()
    place.run()


def move(place: World) -> None:
    place.run()
    place.slurm.sbatch(gpus=8, pin=["n1"], time_limit_min=10)
    place.slurm.sbatch(gpus=8, pin=["n2"], time_limit_min=30)
    place.slurm.sbatch(gpus=8, pin=["n3"], time_limit_min=60)
    apply(place, gang(replicas=1))
    place.run()
    place.slurm.end(2)
    place.slurm.advance(5)
    place.run()


def sbatch(place: World) -> None:
    place.slurm.sbatch(gpus=3, nodes=2)
    place.run()
    place.slurm.end(1)
    place.run()


LIVES = (success, restart, deletion, preemption, cancellation, two_gangs, move, sbatch)


def live(life: Callable[[World], None], die_at: int | None) -> World:
    place = World(slurm=FakeSlurm([FakeNode(name=name) for name in ("n1", "n2", "n3")]), die_at=die_at)
    life(place)
    return place


def end_of(place: World) -> object:
    """Return everything that is left, but for names that the servers make up."""
    gangs = [
        (each.name, each.status.phase, each.status.reason, each.status.attempt, each.status.restarts)
        for each in place.gangs.values()
    ]
    pods = sorted((pod.name, pod.phase, pod.node, pod.gated) for pod in place.pods.values())
    claims = sorted((claim.name, claim.devices) for claim in place.claims.values())
    jobs = [(job.job_id, job.state, job.exit_status.code, job.pin) for job in place.slurm.jobs.values()]
    return gangs, pods, claims, jobs, sorted(place.mirrors)


def test_the_lives_end_as_they_are_meant_to():
    """So that a death at every write is not compared with an end where nothing happened."""
    ends = {life.__name__: live(life, None) for life in LIVES}
    phases = {name: [each.status.phase for each in place.gangs.values()] for name, place in ends.items()}
    assert phases == {
        "success": [Phase.SUCCEEDED],
        "restart": [Phase.FAILED],
        "deletion": [],
        "preemption": [Phase.RUNNING],
        "cancellation": [Phase.FAILED],
        "two_gangs": [Phase.SUCCEEDED, Phase.SUCCEEDED],
        "move": [Phase.RUNNING],
        "sbatch": [],
    }
    assert all(place.writes > 10 for place in ends.values())


@pytest.mark.parametrize("life", LIVES, ids=lambda life: life.__name__)
def test_a_death_before_any_write_changes_nothing_about_the_end(life):
    whole = live(life, None)
    for die_at in range(whole.writes):
        place = live(life, die_at)
        assert place.die_at is None, f"write {die_at} was never reached"
        assert end_of(place) == end_of(whole), f"death before write {die_at}: {place.log[-8:]}"
