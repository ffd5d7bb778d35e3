"""The epilog of ``slurm-configs`` on a real slurmd: a hold that Slurm ends keeps its nodes while it is guarded."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager

import pytest

from bridge.model.slurm import JobState, SlurmNode
from bridge.slurm.client import PyslurmPort
from e2e.operator import ROOT
from e2e.scenario import controller
from e2e.scenario.commands import STATE, run
from e2e.slurm_world import NODES, WORKER, LabWorld, build_binding, configure_epilog, epilog_log, slurm
from tests.slurm.contract import ended, hold, running, until

HERE, THERE = NODES
LONG, SHORT = 120, 2


@pytest.fixture(scope="module", autouse=True)
def binding() -> Iterator[None]:
    build_binding()
    yield
    configure_epilog()


@pytest.fixture
async def world() -> AsyncIterator[LabWorld]:
    configure_epilog(WAIT=LONG)
    world = LabWorld(PyslurmPort(WORKER))
    await world.clean()
    yield world
    await world.port.set_extra(NODES, "")
    await world.clean()
    for name in NODES:
        node = await seen(world, name)
        if node.is_drained:
            await world.resume(name)
    await world.port.close()


async def seen(world: LabWorld, name: str) -> SlurmNode:
    return (await world.port.view()).nodes[name]


async def guarded(world: LabWorld, gpus: int = 2, *nodes: str) -> int:
    """Return a running hold with its guard; more guards on the node are kept."""
    nodes = nodes or (HERE,)
    job_id = await world.port.allocate(hold(world, nodes, gpus))
    await until(world, job_id, running)
    extra = (await seen(world, nodes[0])).extra
    await world.port.set_extra(nodes, f"{extra},{job_id}" if extra else f"gangbridge:{job_id}")
    return job_id


async def completing(world: LabWorld, job_id: int) -> None:
    """Wait until slurmd has started the epilog, and see that it does not end."""
    await until(world, job_id, lambda job: job.completing)
    await until_logged(f"job={job_id} user=")
    await asyncio.sleep(2)
    assert (await world.port.view()).jobs[job_id].completing


async def until_logged(text: str) -> None:
    for _ in range(300):
        if text in epilog_log():
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"no epilog said {text!r}")


async def test_a_hold_that_its_owner_cancels_waits_for_its_pods(world: LabWorld) -> None:
    """Whatever he writes into his job before."""
    job_id = await guarded(world, 2, *NODES)
    slurm("scontrol", "update", f"JobId={job_id}", "Comment=mine", user="alice")
    with pytest.raises(AssertionError, match="no longer pending"):
        slurm("scontrol", "update", f"JobId={job_id}", "WorkDir=/tmp", user="alice")
    with pytest.raises(AssertionError, match="Invalid user id"):
        slurm("scontrol", "update", f"NodeName={HERE}", "Extra=", user="alice")
    slurm("scancel", str(job_id), user="alice")
    await completing(world, job_id)
    assert "COMPLETING" in (await seen(world, HERE)).states
    await world.port.set_extra([THERE], "")
    await until(world, job_id, lambda job: job.nodes == (HERE,))
    await world.port.set_extra([HERE], "")
    job = await until(world, job_id, ended)
    assert job.state is JobState.CANCELLED
    assert f"node={HERE} job={job_id} free after" in epilog_log()


async def test_past_the_bound_the_node_is_fenced(world: LabWorld) -> None:
    configure_epilog(WAIT=SHORT)
    job_id = await guarded(world)
    await world.port.cancel(job_id)
    await until(world, job_id, ended)
    node = await seen(world, HERE)
    reason = f"gangbridge: pods of job {job_id} were not proven gone within {SHORT} s"
    assert (node.is_drained, node.reason) == (True, reason)
    waiting = await world.port.allocate(hold(world, [HERE], 1))
    assert (await world.port.view()).jobs[waiting].state is JobState.PENDING
    await world.port.set_extra([HERE], "")
    await world.port.resume([HERE], reason)
    await until(world, waiting, running)


async def test_a_drain_of_somebody_else_keeps_its_reason(world: LabWorld) -> None:
    configure_epilog(WAIT=SHORT)
    job_id = await guarded(world)
    await world.drain(HERE, "bad fan")
    await world.port.cancel(job_id)
    await until(world, job_id, ended)
    assert (await seen(world, HERE)).reason == "bad fan"


async def test_two_holds_on_a_node_wait_for_themselves(world: LabWorld) -> None:
    first, second = await guarded(world, 2), await guarded(world, 3)
    slurm("scancel", str(first), str(second))
    await completing(world, first)
    await world.port.set_extra([HERE], f"gangbridge:{second}")
    await until(world, first, ended)
    assert (await world.port.view()).jobs[second].completing
    await world.port.set_extra([HERE], "")
    await until(world, second, ended)


async def test_jobs_of_others_beside_it_end_at_once(world: LabWorld) -> None:
    job_id = await guarded(world)
    other = await world.sbatch(pin=[HERE], gpus=2)
    await until(world, other, running)
    await world.port.cancel(job_id)
    await completing(world, job_id)
    await world.let_go(other)
    assert (await until(world, other, ended)).state is JobState.COMPLETED
    assert (await world.port.view()).jobs[job_id].completing


@pytest.mark.parametrize("silence", [controller.frozen, controller.gone], ids=["frozen", "gone"])
async def test_a_silent_slurmctld_says_nothing(world: LabWorld, silence: Callable[[], object]) -> None:
    """The epilog waits through it, and slurmctld still knows the guard when it is back."""
    configure_epilog(WAIT=LONG, ANSWER=3)
    job_id = await guarded(world)
    await world.port.cancel(job_id)
    await completing(world, job_id)
    with silence():  # type: ignore[attr-defined]
        await asyncio.sleep(10)
    await until(world, job_id, lambda job: job.completing)
    assert (await seen(world, HERE)).extra == f"gangbridge:{job_id}"
    assert f"job={job_id} free" not in epilog_log()
    await world.port.set_extra([HERE], "")
    await until(world, job_id, ended)
    assert not (await seen(world, HERE)).is_drained


async def test_without_a_slurmctld_slurmd_itself_drains(world: LabWorld) -> None:
    """Silence through both bounds: the epilog fails, and slurmctld hears of it when it is back."""
    configure_epilog(WAIT=SHORT, FENCE=SHORT, ANSWER=1)
    job_id = await guarded(world)
    with frozen_from_the_end_of(job_id):
        await until_logged(f"job={job_id} given up")
    await until(world, job_id, ended)
    node = await seen(world, HERE)
    assert (node.is_drained, node.reason) == (True, "Epilog error")


@contextmanager
def frozen_from_the_end_of(job_id: int) -> Iterator[None]:
    """Freeze slurmctld as soon as it has told slurmd of the end of the job."""
    slurm("scancel", str(job_id))
    while f"job={job_id} user=" not in epilog_log():
        pass
    with controller.frozen():
        yield


async def test_a_slurmd_that_dies_leaves_a_fenced_node(world: LabWorld) -> None:
    """A new one does not run the epilog again, and frees the node when slurmctld asks next, after two minutes."""
    job_id = await guarded(world)
    await world.port.cancel(job_id)
    await completing(world, job_id)
    with dead_slurmd(HERE):
        await until_logged(f"job={job_id} drained after")
    node = await seen(world, HERE)
    assert (node.is_drained, node.reason.partition(" within ")[0]) == (
        True,
        f"gangbridge: pods of job {job_id} were not proven gone",
    )
    await world.take_down(HERE, node.reason)  # which ends the job there without those two minutes
    await until(world, job_id, ended)


@contextmanager
def dead_slurmd(name: str) -> Iterator[None]:
    """Kill the slurmd of a node; the lab starts another one afterwards. (A terminated one waits for its epilogs.)"""
    os.kill(json.loads((STATE / "run" / f"slurmd-{name}.json").read_text())["pid"], signal.SIGKILL)
    try:
        yield
    finally:
        run(sys.executable, "-m", "e2e.lab", "up", env={"PYTHONPATH": str(ROOT)}, timeout_s=110)
