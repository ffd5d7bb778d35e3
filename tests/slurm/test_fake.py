"""What the in-memory slurmctld does beyond the contract: faults, time, order, ends that nobody asked for."""

from __future__ import annotations

import asyncio

import pytest

from bridge.errors import SlurmUnavailable
from bridge.model.gres import Gres, GresRequest
from bridge.model.hold import ExitStatus, GangKey, HoldRequest, Marker
from bridge.model.slurm import JobState
from bridge.slurm.fake import FakeSlurm, Fault
from bridge.slurm.fake_records import FakeNode

MARKER = Marker(key=GangKey(uid="u", attempt=1), namespace="ns", name="g")


def hold(*nodes: str, gpus: int = 8) -> HoldRequest:
    return HoldRequest(
        marker=MARKER,
        name="g-1",
        partition="gpu",
        account="physics",
        qos="normal",
        user="alice",
        nodes=nodes,
        gres_per_node=(GresRequest(name="gpu", type="h100", count=gpus),),
        tasks_per_node=1,
        cpus_per_task=1,
        memory_mib_per_node=0,
        time_limit_min=10,
    )


@pytest.fixture
def slurm() -> FakeSlurm:
    return FakeSlurm([FakeNode(name="n1"), FakeNode(name="n2")])


async def state(slurm: FakeSlurm, job_id: int) -> JobState:
    return (await slurm.view()).jobs[job_id].state


@pytest.mark.parametrize(("when", "submitted"), [(Fault.BEFORE, 0), (Fault.AFTER, 1)])
async def test_an_answer_is_lost_before_or_after(slurm: FakeSlurm, when: Fault, submitted: int) -> None:
    slurm.fail("allocate", when)
    with pytest.raises(SlurmUnavailable):
        await slurm.allocate(hold("n1"))
    jobs = (await slurm.view()).jobs.values()
    assert [job.marker for job in jobs] == [MARKER] * submitted
    await slurm.allocate(hold("n2"))  # once only


async def test_nobody_answers_while_it_is_down(slurm: FakeSlurm) -> None:
    slurm.down = True
    for call in (slurm.view(), slurm.info(), slurm.allocate(hold("n1")), slurm.cancel(1)):
        with pytest.raises(SlurmUnavailable):
            await call
    slurm.down = False
    assert (await slurm.view()).jobs == {}


async def test_a_slow_answer_takes_its_time(slurm: FakeSlurm) -> None:
    slurm.delay = 0.2
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(slurm.view(), 0.05)


async def test_a_time_limit_ends_a_job_and_starts_the_next(slurm: FakeSlurm) -> None:
    first, second = await slurm.allocate(hold("n1")), await slurm.allocate(hold("n1"))
    slurm.advance(599)
    assert await state(slurm, first) is JobState.RUNNING
    slurm.advance(1 + 300)
    view = await slurm.view()
    assert view.jobs[first].state is JobState.TIMEOUT
    assert (view.jobs[second].state, view.jobs[second].start_time) == (JobState.RUNNING, 1_000_600)
    assert view.taken_at == 1_000_900


async def test_ended_jobs_are_forgotten_after_five_minutes(slurm: FakeSlurm) -> None:
    job_id = await slurm.allocate(hold("n1"))
    slurm.end(job_id, ExitStatus(code=2))
    slurm.advance(299)
    assert await state(slurm, job_id) is JobState.FAILED
    slurm.advance(2)
    assert (await slurm.view()).jobs == {}


async def test_a_pin_is_kept_from_jobs_behind_it(slurm: FakeSlurm) -> None:
    await slurm.allocate(hold("n1"))
    waiting = await slurm.allocate(hold("n1", "n2"))
    behind = slurm.sbatch(gpus=1)
    assert await state(slurm, behind) is JobState.PENDING
    ahead = slurm.sbatch(gpus=1, priority=5000)
    assert await state(slurm, ahead) is JobState.RUNNING
    assert await state(slurm, waiting) is JobState.PENDING


async def test_the_lowest_free_indices_are_given(slurm: FakeSlurm) -> None:
    first, second = slurm.sbatch(gpus=2), slurm.sbatch(gpus=3)
    slurm.end(first)
    third = slurm.sbatch(gpus=4)
    jobs = (await slurm.view()).jobs
    assert [gres.indices for gres in jobs[second].gres["n1"]] == [(2, 3, 4)]
    assert [gres.indices for gres in jobs[third].gres["n1"]] == [(0, 1, 5, 6)]


async def test_sbatch_goes_to_the_first_nodes_that_fit(slurm: FakeSlurm) -> None:
    await slurm.allocate(hold("n1", gpus=6))
    elsewhere = slurm.sbatch(gpus=4)
    assert (await slurm.view()).jobs[elsewhere].nodes == ("n2",)
    assert await state(slurm, slurm.sbatch(gpus=2, nodes=2)) is JobState.RUNNING
    assert await state(slurm, slurm.sbatch(gpus=1, nodes=2)) is JobState.PENDING


async def test_cpus_and_memory_count_too(slurm: FakeSlurm) -> None:
    slurm.sbatch(gpus=0, pin=["n1"], cpus=64)
    assert await state(slurm, slurm.sbatch(gpus=1, pin=["n1"], cpus=1)) is JobState.PENDING
    view = await slurm.view()
    assert view.nodes["n1"].states == {"ALLOCATED"}
    assert (view.nodes["n1"].cpus_allocated, view.nodes["n1"].memory_allocated_mib) == (64, 64_000)


async def test_an_epilog_closes_its_nodes_one_by_one(slurm: FakeSlurm) -> None:
    slurm.epilog = True
    job_id = await slurm.allocate(hold("n1", "n2"))
    await slurm.cancel(job_id)
    view = await slurm.view()
    assert (view.jobs[job_id].completing, view.jobs[job_id].nodes) == (True, ("n1", "n2"))
    assert view.nodes["n1"].states == {"IDLE", "COMPLETING"}
    slurm.finish_epilog(job_id, "n2")
    view = await slurm.view()
    assert view.jobs[job_id].nodes == ("n1",)
    assert (view.nodes["n1"].is_schedulable, view.nodes["n2"].is_schedulable) == (False, True)
    waiting = await slurm.allocate(hold("n1"))
    assert await state(slurm, waiting) is JobState.PENDING
    slurm.finish_epilog(job_id)
    assert await state(slurm, waiting) is JobState.RUNNING
    assert not (await slurm.view()).jobs[job_id].completing


async def test_a_lost_node_ends_its_jobs(slurm: FakeSlurm) -> None:
    job_id = await slurm.allocate(hold("n1", "n2"))
    slurm.set_node("n1", "DOWN", reason="fire")
    view = await slurm.view()
    assert view.jobs[job_id].state is JobState.NODE_FAIL
    assert (view.nodes["n1"].states, view.nodes["n1"].reason) == ({"DOWN"}, "fire")


async def test_preemption(slurm: FakeSlurm) -> None:
    job_id = await slurm.allocate(hold("n1"))
    slurm.preempt(job_id)
    assert await state(slurm, job_id) is JobState.PREEMPTED


async def test_count_only_gres_have_no_indices() -> None:
    slurm = FakeSlurm([FakeNode(name="n1", gres=(Gres(name="gpu", type="h100", count=8),))])
    job_id = await slurm.allocate(hold("n1", gpus=3))
    assert (await slurm.view()).jobs[job_id].gres == {"n1": (Gres(name="gpu", type="h100", count=3),)}


async def test_writes_are_recorded(slurm: FakeSlurm) -> None:
    job_id = await slurm.allocate(hold("n1"))
    waiting = await slurm.allocate(hold("n1"))
    await slurm.repin(waiting, ["n2"])
    await slurm.complete(job_id, ExitStatus())
    await slurm.cancel(waiting)
    await slurm.set_extra(["n1", "n2"], "gangbridge:1")
    await slurm.drain(["n1"], "gangbridge: x")
    await slurm.resume(["n1"], "gangbridge: x")
    assert slurm.calls == [
        ("allocate", 1),
        ("allocate", 2),
        ("repin", 2),
        ("complete", 1),
        ("cancel", 2),
        ("set_extra", ("n1", "n2")),
        ("drain", ("n1",)),
        ("resume", ("n1",)),
    ]


class TestTheGuard:
    """The epilog of ``slurm-configs``, as the fake has it."""

    async def ended(self, slurm: FakeSlurm, *nodes: str) -> int:
        """Return a hold that Slurm has ended while its pods are guarded."""
        job_id = await slurm.allocate(hold(*nodes))
        await slurm.set_extra(nodes, f"gangbridge:{job_id}")
        await slurm.cancel(job_id)
        return job_id

    async def test_past_the_bound_the_node_is_drained_and_let_go(self, slurm: FakeSlurm) -> None:
        job_id = await self.ended(slurm, "n1", "n2")
        await slurm.set_extra(["n2"], "")
        slurm.advance(299)
        assert (await slurm.view()).jobs[job_id].nodes == ("n1",)
        slurm.advance(1)
        view = await slurm.view()
        assert not view.jobs[job_id].completing
        assert view.nodes["n1"].states == {"IDLE", "DRAIN"}
        assert view.nodes["n1"].reason == "gangbridge: pods of job 1 were not proven gone within 300 s"
        assert view.nodes["n2"].is_schedulable

    async def test_the_bound_counts_from_the_end(self, slurm: FakeSlurm) -> None:
        slurm.epilog_bound = 10
        job_id = await slurm.allocate(hold("n1"))
        await slurm.set_extra(["n1"], f"gangbridge:{job_id}")
        slurm.advance(600 + 9)
        assert (await slurm.view()).jobs[job_id].completing
        slurm.advance(1)
        assert (await slurm.view()).nodes["n1"].is_drained

    async def test_a_drain_of_somebody_else_is_left(self, slurm: FakeSlurm) -> None:
        await self.ended(slurm, "n1")
        slurm.set_node("n1", "DRAIN", reason="bad fan")
        slurm.advance(300)
        node = (await slurm.view()).nodes["n1"]
        assert (node.states, node.reason) == ({"IDLE", "DRAIN"}, "bad fan")

    async def test_a_node_that_goes_down_is_not_waited_for(self, slurm: FakeSlurm) -> None:
        job_id = await self.ended(slurm, "n1", "n2")
        slurm.set_node("n1", "DOWN", reason="Not responding")
        assert (await slurm.view()).jobs[job_id].nodes == ("n2",)

    async def test_a_lost_node_has_no_epilog_the_others_have(self, slurm: FakeSlurm) -> None:
        job_id = await slurm.allocate(hold("n1", "n2"))
        await slurm.set_extra(["n1", "n2"], f"gangbridge:{job_id}")
        slurm.set_node("n1", "DOWN", reason="Not responding")
        job = (await slurm.view()).jobs[job_id]
        assert (job.state, job.nodes) == (JobState.NODE_FAIL, ("n2",))


async def test_without_its_state_slurmctld_knows_nothing_and_gives_ids_again() -> None:
    nodes = [FakeNode(name="n1"), FakeNode(name="ext0", external=True, partitions=frozenset({"ext"}))]
    slurm = FakeSlurm(nodes)
    first = await slurm.allocate(hold("n1"))
    await slurm.set_extra(["n1"], "gangbridge:1")
    await slurm.drain(["n1"], "gangbridge: x")
    slurm.lose_state()
    view = await slurm.view()
    assert view.jobs == {}
    assert [(node.name, node.states, node.reason, node.extra) for node in view.nodes.values()] == [
        ("n1", {"IDLE"}, "", "")
    ]
    assert await slurm.allocate(hold("n1")) == first
