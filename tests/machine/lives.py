"""Directed lives: situations that need several things in one order, which chance alone brings about too rarely.

Each is a life like any other: everything is checked after every step, and it has to come to a good end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tests.machine.machine import Machine

REFUSED, NO_ANSWER, _, DELAYED = range(4)
"""Fates of a call (``Machine.disturb``)."""


def start_unseen(life: Machine) -> None:
    """A pod starts on its node while its operator, whose watch lags, still takes it for unbound."""
    life.furnish(shape=0, queue="gpu")
    life.lag(which=0, plural="pods", is_lagging=True)
    life.flow(which=0)
    life.kubernetes_settles()
    life.delete_gang(which=0)
    life.flow(which=0)


def pod_made_anew(life: Machine) -> None:
    """A pod that has just started loses its finalizer and is removed: its name is free while its container runs."""
    life.furnish(shape=0, queue="gpu")
    life.flow(which=0)
    life.kubernetes_settles()
    life.meddle_with_pod(which=0, what=3)
    life.flow(which=0)
    life.flow(which=0)


def machine_written_off(life: Machine) -> None:
    """A kubelet is cut off and its Node object deleted: garbage collection says that its pod failed, which runs on."""
    life.furnish(shape=0, queue="gpu")
    _start(life)
    life.kubelet_fares(which=1, what=0)
    life.kubelet_fares(which=1, what=0)
    _start(life)


def name_is_taken(life: Machine) -> None:
    """A user takes the name of a pod that is gone, which its operator, whose watch lags, is about to delete."""
    life.furnish(shape=0, queue="gpu")
    _start(life)
    life.lag(which=0, plural="pods", is_lagging=True)
    life.meddle_with_pod(which=0, what=4)
    life.delete_gang(which=0)
    life.flow(which=0)


def job_waits(life: Machine) -> None:
    """A job waits for the devices of a gang that Slurm ends while its pods run."""
    life.furnish(shape=3, queue="gpu")
    _start(life)
    life.sbatch(gpus=2, nodes=1)
    life.sbatch(gpus=2, nodes=1)
    life.meddle_with_hold(which=0, what=0)
    life.go_on()


def hold_arrives_late(life: Machine) -> None:
    """A submission that was given up for lost arrives when another one has been made."""
    life.furnish(shape=0, queue="gpu")
    life.disturb_slurm(which=0, fate=DELAYED, how=0)
    life.flow(which=0)
    life.pass_time(seconds=31.0)
    life.flow(which=0)
    life.drift(which=0, is_lost=False)
    life.calm()


def submission_unanswered(life: Machine) -> None:
    """A hold is submitted, and its submitter never learns of it."""
    life.furnish(shape=0, queue="gpu")
    life.disturb_slurm(which=0, fate=NO_ANSWER, how=0)
    _start(life)


def slurm_falls_silent(life: Machine) -> None:
    """slurmctld does not answer for a moment while a gang runs: fewer than the brake would believe in."""
    life.furnish(shape=0, queue="gpu")
    _start(life)
    life.controller_sleeps(seconds=3)


def node_taken_while_waiting(life: Machine) -> None:
    """An admin notes something in the Extra of the node for which a hold waits."""
    life.furnish(shape=0, queue="ext")
    life.sbatch(gpus=2, nodes=2)
    life.create_gang(shape=3, queue="gpu", restarts=0)
    life.flow(which=0)
    life.node_fares(which=0, what=2)
    life.node_fares(which=1, what=2)
    life.job_ends(which=0)
    _start(life)


def _start(life: Machine) -> None:
    for _ in range(3):
        life.go_on()


LIVES: Mapping[str, Callable[[Machine], None]] = {
    life.__name__: life
    for life in (
        start_unseen,
        pod_made_anew,
        machine_written_off,
        name_is_taken,
        job_waits,
        hold_arrives_late,
        submission_unanswered,
        slurm_falls_silent,
        node_taken_while_waiting,
    )
}


def live(name: str) -> None:
    """Live one of them to its end."""
    life = Machine()
    try:
        LIVES[name](life)
    except BaseException:
        life.stack.close()
        raise
    life.teardown()
