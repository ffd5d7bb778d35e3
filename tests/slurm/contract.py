"""One table of what every adapter of the Slurm port does, whatever is behind it.

``CASES`` runs against the in-memory slurmctld here and against a real one, through both real adapters, in ``e2e``. A
case gets a ``World``: the port, names of idle nodes, and the means to act on the cluster as somebody else.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol
from uuid import uuid4

import pytest

from bridge.errors import SlurmRejected
from bridge.model.gres import Gres, GresRequest
from bridge.model.hold import ExitStatus, GangKey, HoldRequest, Marker
from bridge.model.slurm import JobState, SlurmJob, SlurmView
from bridge.slurm.port import SlurmPort
from bridge.topology.slurm_yaml import read_slurm

PATIENCE = 15.0
STEP = 0.2
HOLD_NAME = "contract-hold"
JOB_NAME = "contract-job"

MINE = "gangbridge: contract"
"""Reason of a drain of ours."""

H100 = GresRequest(name="gpu", type="h100", count=1)


class World(Protocol):
    """A cluster with two idle nodes of 8 H100s and slurmd, and one without slurmd (State=EXTERNAL)."""

    port: SlurmPort
    nodes: tuple[str, str]
    external: str
    partition: str
    external_partition: str

    async def sbatch(self, *, pin: Sequence[str], gpus: int) -> int:
        """Submit bob's own job; it runs until somebody ends it."""

    async def stubborn_sbatch(self, *, pin: Sequence[str], gpus: int) -> int:
        """Submit bob's own job which, once cancelled, keeps the first of its nodes completing until ``let_go``."""

    async def let_go(self, job_id: int) -> None:
        """Let a stubborn job's processes end."""

    async def drain(self, node: str, reason: str) -> None:
        """Close a node."""

    async def take_down(self, node: str, reason: str) -> None:
        """Set the external node DOWN; with a slurmd it would come back at once."""

    async def resume(self, node: str) -> None:
        """Open it again."""

    async def pass_time(self, seconds: float) -> None:
        """Wait, or move the clock."""


Case = Callable[[World], Awaitable[None]]
CASES: list[Case] = []


def case(function: Case) -> Case:
    """Enter a case in the table."""
    CASES.append(function)
    return function


def hold(world: World, nodes: Sequence[str], gpus: int, **changes: object) -> HoldRequest:
    marker = Marker(key=GangKey(uid=str(uuid4()), attempt=1), namespace="research", name="llm")
    values: dict[str, object] = {
        "marker": marker,
        "name": HOLD_NAME,
        "partition": world.partition,
        "account": "physics",
        "qos": "normal",
        "user": "alice",
        "nodes": tuple(nodes),
        "gres_per_node": (H100.times(gpus),) if gpus else (),
        "tasks_per_node": 1,
        "cpus_per_task": 2,
        "memory_mib_per_node": 1000,
        "time_limit_min": 10,
    }
    return HoldRequest(**(values | changes))  # type: ignore[arg-type]


async def until(world: World, job_id: int, wanted: Callable[[SlurmJob], bool]) -> SlurmJob:
    """Return the job once it is as wanted; fail when that takes too long."""
    waited = 0.0
    while True:
        job = (await world.port.view()).jobs[job_id]
        if wanted(job):
            return job
        assert waited < PATIENCE, f"still {job}"
        await world.pass_time(STEP)
        waited += STEP


def running(job: SlurmJob) -> bool:
    return job.state is JobState.RUNNING


def ended(job: SlurmJob) -> bool:
    return not job.is_live


def indices(view: SlurmView, job_id: int, node: str) -> set[int]:
    return {index for gres in view.jobs[job_id].gres[node] for index in gres.indices or ()}


@case
async def the_cluster_says_who_it_is(world: World) -> None:
    info = await world.port.info()
    assert re.fullmatch(r"[0-9]{2}\.[0-9]{2}\.[0-9]+", info.version)
    assert info.cluster
    assert info.adapter in {"pyslurm", "cli", "fake"}


@case
async def nodes_show_devices_state_and_partitions(world: World) -> None:
    nodes = (await world.port.view()).nodes
    for name in (*world.nodes, world.external):
        assert nodes[name].gres == (Gres(name="gpu", type="h100", count=8, indices=tuple(range(8))),)
        assert nodes[name].is_schedulable
        assert nodes[name].cpus >= 8
        assert nodes[name].memory_mib >= 16_000
        assert nodes[name].is_external == (name == world.external)
    assert world.partition in nodes[world.nodes[0]].partitions
    assert world.external_partition in nodes[world.external].partitions


@case
async def the_topology_has_a_place_for_the_nodes(world: World) -> None:
    [default] = [topology for topology in read_slurm(await world.port.topology()) if topology.is_default]
    assert default.problems == ()
    for node in world.nodes:
        assert default.domains[node][-1]


@case
async def a_hold_on_free_nodes_runs_at_once(world: World) -> None:
    request = hold(world, world.nodes, 3)
    job_id = await world.port.allocate(request)
    view = await world.port.view()
    job = view.jobs[job_id]
    assert job.state is JobState.RUNNING
    assert (job.user, job.account, job.qos, job.partition) == ("alice", "physics", "normal", world.partition)
    assert (job.name, job.marker, job.time_limit_min) == (HOLD_NAME, request.marker, 10)
    assert sorted(job.nodes) == sorted(job.required_nodes) == sorted(world.nodes)
    assert set(job.gres) == set(world.nodes)
    for node in world.nodes:
        assert [(gres.name, gres.type, gres.count, gres.is_tracked) for gres in job.gres[node]] == [
            ("gpu", "h100", 3, True)
        ]
        assert view.nodes[node].cpus_allocated == 2
    assert job.start_time is not None
    assert job.end_time is not None
    assert job.end_time - job.start_time == 600
    assert job.holds_devices
    assert not job.completing
    assert job.is_sealed


@case
async def two_holds_on_a_node_have_different_devices(world: World) -> None:
    first = await world.port.allocate(hold(world, world.nodes[:1], 4))
    second = await world.port.allocate(hold(world, world.nodes[:1], 4))
    view = await world.port.view()
    mine, other = (indices(view, job_id, world.nodes[0]) for job_id in (first, second))
    assert mine | other == set(range(8))
    assert not mine & other


@case
async def a_hold_without_gres_and_memory_takes_little(world: World) -> None:
    """Memory 0 must not become "all of the node", which is what ``--mem=0`` means."""
    first = await world.port.allocate(hold(world, world.nodes[:1], 0, memory_mib_per_node=0))
    second = await world.port.allocate(hold(world, world.nodes[:1], 8, memory_mib_per_node=0))
    view = await world.port.view()
    assert view.jobs[first].state is view.jobs[second].state is JobState.RUNNING
    assert view.jobs[first].gres == {world.nodes[0]: ()}
    assert view.nodes[world.nodes[0]].memory_allocated_mib < 16_000


@case
async def tasks_and_their_cpus_are_what_was_asked(world: World) -> None:
    await world.port.allocate(
        hold(world, world.nodes[:1], 2, tasks_per_node=2, cpus_per_task=3, memory_mib_per_node=5000)
    )
    node = (await world.port.view()).nodes[world.nodes[0]]
    assert (node.cpus_allocated, node.memory_allocated_mib) == (6, 5000)


@case
async def a_hold_on_taken_nodes_waits_pinned_and_starts_by_itself(world: World) -> None:
    first = await world.port.allocate(hold(world, world.nodes, 8))
    request = hold(world, world.nodes, 2)
    second = await world.port.allocate(request)
    waiting = (await world.port.view()).jobs[second]
    assert waiting.state is JobState.PENDING
    assert waiting.nodes == ()
    assert waiting.gres == {}
    assert sorted(waiting.required_nodes) == sorted(world.nodes)
    assert waiting.gres_requested == "gres/gpu:h100:2"
    assert waiting.marker == request.marker
    assert waiting.is_live
    assert not waiting.holds_devices
    await world.port.cancel(first)
    assert sorted((await until(world, second, running)).nodes) == sorted(world.nodes)


@case
async def a_pin_can_be_moved(world: World) -> None:
    here, there = world.nodes
    await world.port.allocate(hold(world, [here], 8))
    job_id = await world.port.allocate(hold(world, [here], 8))
    await world.port.repin(job_id, [there])
    job = await until(world, job_id, running)
    assert job.nodes == job.required_nodes == (there,)


@case
async def a_running_hold_cannot_be_moved(world: World) -> None:
    job_id = await world.port.allocate(hold(world, world.nodes[:1], 1))
    with pytest.raises(SlurmRejected):
        await world.port.repin(job_id, world.nodes[1:])
    assert (await world.port.view()).jobs[job_id].nodes == world.nodes[:1]


@case
async def a_pin_to_an_unknown_node_is_refused(world: World) -> None:
    await world.port.allocate(hold(world, world.nodes[:1], 8))
    job_id = await world.port.allocate(hold(world, world.nodes[:1], 8))
    with pytest.raises(SlurmRejected):
        await world.port.repin(job_id, ["no-such-node"])
    assert (await world.port.view()).jobs[job_id].required_nodes == world.nodes[:1]


@case
async def a_hold_ends_with_the_gangs_status(world: World) -> None:
    exact = (await world.port.info()).exact_exit_status
    expected = {
        ExitStatus(): JobState.COMPLETED,
        ExitStatus(code=3): JobState.FAILED,
        ExitStatus(signal=15): JobState.FAILED,
    }
    for status, state in expected.items():
        job_id = await world.port.allocate(hold(world, world.nodes, 1))
        await world.port.complete(job_id, status)
        job = await until(world, job_id, ended)
        assert (job.state, job.exit_status) == ((state, status) if exact else (JobState.CANCELLED, ExitStatus()))


@case
async def ending_twice_is_no_error(world: World) -> None:
    job_id = await world.port.allocate(hold(world, world.nodes[:1], 1))
    await world.port.complete(job_id, ExitStatus(code=3))
    before = await until(world, job_id, ended)
    await world.port.complete(job_id, ExitStatus(code=4))
    await world.port.cancel(job_id)
    after = (await world.port.view()).jobs[job_id]
    assert (after.state, after.exit_status) == (before.state, before.exit_status)


@case
async def a_waiting_hold_can_be_ended(world: World) -> None:
    await world.port.allocate(hold(world, world.nodes[:1], 8))
    job_id = await world.port.allocate(hold(world, world.nodes[:1], 8))
    await world.port.complete(job_id, ExitStatus())
    assert (await until(world, job_id, ended)).nodes == ()


@case
async def cancelling_ends_running_and_waiting_holds(world: World) -> None:
    first = await world.port.allocate(hold(world, world.nodes[:1], 8))
    second = await world.port.allocate(hold(world, world.nodes[:1], 8))
    for job_id in (second, first):
        await world.port.cancel(job_id)
        assert (await until(world, job_id, ended)).state is JobState.CANCELLED
        await world.port.cancel(job_id)


@case
async def an_unknown_job_is_refused(world: World) -> None:
    for call in (
        world.port.cancel(999_999),
        world.port.complete(999_999, ExitStatus()),
        world.port.repin(999_999, world.nodes),
    ):
        with pytest.raises(SlurmRejected) as caught:
            await call
        assert "Invalid job id" in str(caught.value)


@case
async def what_slurm_refuses_has_no_effect(world: World) -> None:
    node = world.nodes[:1]
    refused = [
        (hold(world, node, 1, account="bio"), "account"),
        (hold(world, node, 1, qos="no-such-qos"), "qos"),
        (hold(world, node, 1, partition="no-such-partition"), "artition"),
        (hold(world, node, 1, user="no-such-user"), "user|account"),
        (hold(world, ["no-such-node"], 1), "node name"),
        (hold(world, node, 9), "not available"),
        (hold(world, node, 1, cpus_per_task=65), "not available"),
        (hold(world, node, 1, cpus_per_task=100_000), "cpus_per_task is 100000, Slurm takes 1 to 65533"),
        (hold(world, node, 1, memory_mib_per_node=600_000), "not available"),
        (hold(world, node, 1, time_limit_min=0), "time_limit_min is 0"),
        (hold(world, [], 1), "number of nodes is 0"),
        (hold(world, [world.external], 1, partition=world.external_partition), "not available"),
    ]
    for request, reason in refused:
        with pytest.raises(SlurmRejected) as caught:
            await world.port.allocate(request)
        assert re.search(reason, str(caught.value)), caught.value
        jobs = (await world.port.view()).jobs.values()
        assert [job for job in jobs if job.marker == request.marker and job.is_live] == []


@case
async def an_external_hold_runs_where_there_is_no_slurmd(world: World) -> None:
    request = hold(world, [world.external], 2, partition=world.external_partition, external=True)
    job_id = await world.port.allocate(request)
    job = await until(world, job_id, running)
    assert job.nodes == (world.external,)
    assert [gres.is_tracked for gres in job.gres[world.external]] == [True]
    assert job.marker == request.marker
    await world.port.complete(job_id, ExitStatus())
    await until(world, job_id, ended)


@case
async def other_peoples_jobs_are_seen(world: World) -> None:
    job_id = await world.sbatch(pin=world.nodes, gpus=5)
    job = await until(world, job_id, running)
    assert (job.user, job.account, job.marker) == ("bob", "bio", None)
    assert {name: [gres.count for gres in job.gres[name]] for name in world.nodes} == {
        name: [5] for name in world.nodes
    }
    hold_id = await world.port.allocate(hold(world, world.nodes[:1], 3))
    view = await world.port.view()
    assert view.jobs[hold_id].state is JobState.RUNNING
    assert not indices(view, hold_id, world.nodes[0]) & indices(view, job_id, world.nodes[0])


@case
async def a_completing_job_keeps_its_node_closed_and_shows_no_devices(world: World) -> None:
    job_id = await world.stubborn_sbatch(pin=world.nodes, gpus=8)
    await until(world, job_id, running)
    await world.port.cancel(job_id)
    job = await until(world, job_id, lambda job: job.completing and len(job.nodes) == 1)
    assert job.state is JobState.CANCELLED
    assert job.holds_devices
    assert job.gres == {world.nodes[0]: ()}  # which devices it was is no longer said
    node = (await world.port.view()).nodes[world.nodes[0]]
    assert "COMPLETING" in node.states
    assert not node.is_schedulable
    waiting = await world.port.allocate(hold(world, world.nodes[:1], 1))
    assert (await world.port.view()).jobs[waiting].state is JobState.PENDING
    await world.let_go(job_id)
    assert not (await until(world, job_id, ended)).completing
    await until(world, waiting, running)


@case
async def a_drained_node_says_why_and_takes_no_hold(world: World) -> None:
    node = world.nodes[0]
    await world.drain(node, "gangbridge: contract")
    try:
        seen = (await world.port.view()).nodes[node]
        assert "DRAIN" in seen.states
        assert seen.reason == "gangbridge: contract"
        assert not seen.is_schedulable
        job_id = await world.port.allocate(hold(world, [node], 1))
        assert (await world.port.view()).jobs[job_id].state is JobState.PENDING
    finally:
        await world.resume(node)
    assert (await until(world, job_id, running)).nodes == (node,)


@case
async def a_hold_works_in_the_root_folder_and_others_do_not(world: World) -> None:
    """The epilog tells holds from other jobs by that."""
    job_id = await world.port.allocate(hold(world, world.nodes[:1], 1))
    external = hold(world, [world.external], 1, partition=world.external_partition, external=True)
    external_id = await world.port.allocate(external)
    other = await world.sbatch(pin=world.nodes[:1], gpus=1)
    jobs = (await world.port.view()).jobs
    assert (jobs[job_id].work_dir, jobs[external_id].work_dir) == ("/", "/")
    assert jobs[other].work_dir not in {"", "/"}


@case
async def the_time_of_a_view_is_slurmctlds(world: World) -> None:
    before = await world.port.view()
    await world.pass_time(2)
    job_id = await world.port.allocate(hold(world, world.nodes[:1], 1))
    after = await world.port.view()
    started = after.jobs[job_id].start_time
    assert started is not None
    assert before.taken_at < started <= after.taken_at + 1


@case
async def a_text_is_written_to_nodes_and_cleared(world: World) -> None:
    nodes = (*world.nodes, world.external)
    try:
        await world.port.set_extra(nodes, "gangbridge:7,12")
        seen = (await world.port.view()).nodes
        assert [seen[name].extra for name in nodes] == ["gangbridge:7,12"] * 3
        assert all(seen[name].is_schedulable for name in nodes)
        await world.port.set_extra(world.nodes[:1], "")
        seen = (await world.port.view()).nodes
        assert [seen[name].extra for name in nodes] == ["", "gangbridge:7,12", "gangbridge:7,12"]
    finally:
        await world.port.set_extra(nodes, "")


@case
async def nothing_is_done_for_no_nodes(world: World) -> None:
    await world.port.set_extra([], "gangbridge:7")
    await world.port.drain([], MINE)
    await world.port.resume([], MINE)


@case
async def an_unknown_node_is_named(world: World) -> None:
    nodes = (world.nodes[0], "no-such-node")
    try:
        for call in (
            world.port.set_extra(nodes, "gangbridge:7"),
            world.port.drain(nodes, MINE),
            world.port.resume(nodes, MINE),
        ):
            with pytest.raises(SlurmRejected) as caught:
                await call
            assert "Invalid node name" in str(caught.value)
            assert "no-such-node" in str(caught.value)
            assert world.nodes[0] not in str(caught.value)
        assert not (await world.port.view()).nodes[world.nodes[0]].is_drained
    finally:
        await world.port.set_extra(world.nodes[:1], "")


@case
async def nodes_are_drained_and_resumed(world: World) -> None:
    here, there = world.nodes[0], world.external
    try:
        await world.port.drain([here, there], MINE)
        seen = (await world.port.view()).nodes
        assert [(seen[name].is_drained, seen[name].reason) for name in (here, there)] == [(True, MINE)] * 2
        await world.port.drain([here], "gangbridge: another one")
        await world.port.resume([here], "gangbridge: another one")
        assert (await world.port.view()).nodes[here].reason == MINE
        job_id = await world.port.allocate(hold(world, [here], 1))
        assert (await world.port.view()).jobs[job_id].state is JobState.PENDING
        await world.port.resume([here, there, world.nodes[1]], MINE)
        await until(world, job_id, running)  # and slurmctld has heard of the node again
        seen = (await world.port.view()).nodes
        assert [(seen[name].is_schedulable, seen[name].reason) for name in (here, there)] == [(True, "")] * 2
    finally:
        await world.port.resume([here, there], MINE)


@case
async def a_running_hold_outlives_the_drain_of_its_node(world: World) -> None:
    job_id = await world.port.allocate(hold(world, world.nodes[:1], 1))
    try:
        await world.port.drain(world.nodes[:1], MINE)
        view = await world.port.view()
        assert view.jobs[job_id].state is JobState.RUNNING
        assert view.nodes[world.nodes[0]].is_drained
    finally:
        await world.port.resume(world.nodes[:1], MINE)


@case
async def a_drain_of_somebody_else_stands(world: World) -> None:
    node = world.nodes[0]
    await world.drain(node, "bad fan")
    try:
        await world.port.drain([node], MINE)
        await world.port.resume([node], MINE)
        seen = (await world.port.view()).nodes[node]
        assert (seen.is_drained, seen.reason, seen.is_closed) == (True, "bad fan", True)
    finally:
        await world.resume(node)


@case
async def a_node_that_somebody_took_down_keeps_his_reason(world: World) -> None:
    node = world.external
    await world.take_down(node, "bad fan")
    try:
        await world.port.drain([node], MINE)
        seen = (await world.port.view()).nodes[node]
        assert (seen.is_drained, seen.reason, seen.is_closed) == (False, "bad fan", True)
    finally:
        await world.resume(node)


@case
async def a_lost_node_can_be_drained_and_stays_down_when_resumed(world: World) -> None:
    """Otherwise it would come back by itself, with pods of which nothing is known."""
    node = world.external
    await world.take_down(node, "Not responding")
    try:
        await world.port.drain([node], MINE)
        seen = (await world.port.view()).nodes[node]
        assert ({"DOWN", "DRAIN"} <= seen.states, seen.reason) == (True, MINE)
        await world.port.resume([node], MINE)
        seen = (await world.port.view()).nodes[node]
        assert ("DOWN" in seen.states, seen.is_drained) == (True, False)
    finally:
        await world.resume(node)


@case
async def a_guarded_hold_keeps_its_nodes_until_it_is_not_listed(world: World) -> None:
    here, there = world.nodes
    guarded = await world.port.allocate(hold(world, world.nodes, 4))
    beside = await world.port.allocate(hold(world, world.nodes, 4))
    try:
        await world.port.set_extra(world.nodes, f"gangbridge:{guarded}")
        await world.port.cancel(guarded)
        await world.port.cancel(beside)
        await until(world, beside, ended)
        job = await until(world, guarded, lambda job: job.completing)
        assert (job.state, sorted(job.nodes)) == (JobState.CANCELLED, sorted(world.nodes))
        waiting = await world.port.allocate(hold(world, [here], 8))
        await world.port.set_extra([there], f"gangbridge:{beside}")
        await until(world, guarded, lambda job: job.nodes == (here,))
        view = await world.port.view()
        assert [view.nodes[name].is_schedulable for name in world.nodes] == [False, True]
        assert view.jobs[waiting].state is JobState.PENDING
        await world.port.set_extra([here], "")
        await until(world, guarded, ended)
        await until(world, waiting, running)
    finally:
        await world.port.set_extra(world.nodes, "")


@case
async def the_guard_is_for_holds_alone(world: World) -> None:
    job_id = await world.sbatch(pin=world.nodes[:1], gpus=1)
    await until(world, job_id, running)
    try:
        await world.port.set_extra(world.nodes, f"gangbridge:{job_id}")
        await world.port.cancel(job_id)
        await until(world, job_id, ended)
    finally:
        await world.port.set_extra(world.nodes, "")


@case
async def an_external_hold_ends_at_once_guarded_or_not(world: World) -> None:
    request = hold(world, [world.external], 2, partition=world.external_partition, external=True)
    job_id = await world.port.allocate(request)
    await until(world, job_id, running)
    try:
        await world.port.set_extra([world.external], f"gangbridge:{job_id}")
        await world.port.cancel(job_id)
        await until(world, job_id, ended)
    finally:
        await world.port.set_extra([world.external], "")
