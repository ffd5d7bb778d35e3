"""What only a real Slurm can show of the two adapters: owners, accounting, silence, death."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace

import psutil
import pytest

from bridge.errors import SlurmRejected, SlurmUnavailable
from bridge.model.hold import ExitStatus
from bridge.model.slurm import JobState, SlurmNode
from bridge.slurm.cli import CliPort
from bridge.slurm.client import Deadlines, PyslurmPort
from bridge.slurm.port import SlurmPort
from e2e.slurm_world import EXEC, NODES, PYTHON, WORKER, LabWorld, build_binding, slurm
from tests.slurm.contract import ended, hold, running, until

ETC = "/lab/etc-slurm-test"


@pytest.fixture(scope="module", autouse=True)
def binding() -> None:
    build_binding()


@pytest.fixture
async def world() -> AsyncIterator[LabWorld]:
    world = LabWorld(PyslurmPort(WORKER))
    await world.clean()
    yield world
    await world.clean()
    await world.port.close()


@pytest.fixture
def elsewhere() -> Iterator[Callable[[int], str]]:
    """Return what writes a slurm.conf whose slurmctld is at another port, and names it."""

    def write(port: int) -> str:
        port_line = f"s/^SlurmctldPort=.*/SlurmctldPort={port}/"
        slurm(
            "sh",
            "-c",
            f"rm -rf {ETC} && cp -rp /etc/slurm {ETC} && chmod 755 {ETC} && sed -i '{port_line}' {ETC}/*.conf",
        )
        slurm("sed", "-i", f"s|/etc/slurm/|{ETC}/|", f"{ETC}/slurm.conf")
        return f"{ETC}/slurm.conf"

    yield write
    slurm("rm", "-rf", ETC)


async def test_the_marker_is_out_of_the_users_reach(world: LabWorld) -> None:
    request = hold(world, NODES[:1], 1)
    job_id = await world.port.allocate(request)
    with pytest.raises(AssertionError, match="denied"):
        slurm("scontrol", "update", f"JobId={job_id}", "AdminComment=mine", user="alice")
    slurm("scontrol", "update", f"JobId={job_id}", "Comment=hello", user="alice")
    job = (await world.port.view()).jobs[job_id]
    assert (job.marker, job.is_sealed) == (request.marker, True)


async def test_accounting_shows_the_owner_and_the_status(world: LabWorld) -> None:
    request = hold(world, NODES, 2)
    job_id = await world.port.allocate(request)
    await world.port.complete(job_id, ExitStatus(code=3))
    await until(world, job_id, ended)
    for _ in range(50):
        line = slurm("sacct", "-n", "-P", "-X", "-j", str(job_id), "-o", "User,Account,State,ExitCode,AdminComment")
        if "FAILED" in line:
            break
        await asyncio.sleep(0.2)
    assert line == f"alice|physics|FAILED|3:0|{request.marker.dumps()}"


async def test_holds_outlive_the_worker(world: LabWorld) -> None:
    job_id = await world.port.allocate(hold(world, NODES, 2))
    await world.port.close()
    world.port = PyslurmPort(WORKER)
    assert (await world.port.view()).jobs[job_id].state is JobState.RUNNING


async def test_a_hold_lost_by_a_killed_worker_is_found_by_its_marker(world: LabWorld) -> None:
    """The answer is lost, the submission is not; it is killed as soon as slurmctld has the job."""
    request = hold(world, NODES[:1], 1)
    port = PyslurmPort(WORKER)
    await port.info()
    call = asyncio.create_task(port.allocate(request))
    for _ in range(500):
        if [job for job in (await world.port.view()).jobs.values() if job.marker == request.marker]:
            break
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    await port.close()
    found = [job for job in (await world.port.view()).jobs.values() if job.marker == request.marker]
    assert [job.state for job in found] == [JobState.RUNNING]


def ports(configuration: str) -> list[SlurmPort]:
    """Return both adapters, sent to the slurmctld of another slurm.conf."""
    patience = Deadlines(start=20, read=15, write=15)
    there = (EXEC, "env", f"SLURM_CONF={configuration}")
    return [PyslurmPort((*there, *WORKER[1:]), patience), CliPort(there, deadlines=patience)]


async def test_an_unreachable_slurmctld_is_unavailable_and_never_an_empty_cluster(
    elsewhere: Callable[[int], str],
) -> None:
    """``scontrol show job --json`` of 26.05 prints no job and exits with 0 then."""
    both = ports(elsewhere(26999))
    answers = await asyncio.gather(*(port.view() for port in both), return_exceptions=True)
    for answer in answers:
        assert isinstance(answer, SlurmUnavailable)
        assert "Unable to contact slurm controller" in str(answer)
    await asyncio.gather(*(port.close() for port in both))


@asynccontextmanager
async def mute_server() -> AsyncIterator[int]:
    """Listen, accept, and never say a word."""

    async def keep(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(keep, "127.0.0.1", 0)
    yield server.sockets[0].getsockname()[1]
    server.close()


async def test_a_silent_slurmctld_costs_no_more_than_the_deadline(elsewhere: Callable[[int], str]) -> None:
    before = psutil.Process().children(recursive=True)
    async with mute_server() as number:
        there = (EXEC, "env", f"SLURM_CONF={elsewhere(number)}")
        for port in (
            PyslurmPort((*there, *WORKER[1:]), Deadlines(start=20, read=1, write=1)),
            CliPort(there, deadlines=Deadlines(read=1, write=1)),
        ):
            for call in (port.view, lambda port=port: port.cancel(1)):
                began = time.monotonic()
                with pytest.raises(SlurmUnavailable, match="no answer within 1 s"):
                    await call()
                assert time.monotonic() - began < 30
            await port.close()
    assert psutil.Process().children(recursive=True) == before


async def test_a_worker_without_slurms_library_says_so() -> None:
    port = PyslurmPort((EXEC, "/usr/bin/python3", "-m", "bridge.slurm.worker"))
    with pytest.raises(SlurmUnavailable, match="No module named 'pyslurm'"):
        await port.info()
    await port.close()


async def test_a_worker_of_one_user_submits_for_him_alone(world: LabWorld) -> None:
    port = PyslurmPort((EXEC, "-u", "alice", *WORKER[1:]))
    job_id = await port.allocate(hold(world, NODES[:1], 1))
    job = (await world.port.view()).jobs[job_id]
    assert (job.user, job.state) == ("alice", JobState.RUNNING)
    with pytest.raises(SlurmRejected, match="acts as alice and may not submit for bob"):
        await port.allocate(hold(world, NODES[:1], 1, user="bob", account="bio"))
    await port.close()


async def test_a_token_makes_the_worker_its_owner(world: LabWorld) -> None:
    token = re.sub("^SLURM_JWT=", "", slurm("scontrol", "token", "username=alice", "lifespan=300"))
    port = PyslurmPort((EXEC, "-u", "bob", "env", f"SLURM_JWT={token}", PYTHON, "-m", "bridge.slurm.worker"))
    job_id = await port.allocate(hold(world, NODES[:1], 1))
    assert (await world.port.view()).jobs[job_id].user == "alice"
    with pytest.raises(SlurmRejected, match="acts as alice"):
        await port.allocate(hold(world, NODES[:1], 1, user="bob", account="bio"))
    await port.close()


async def test_a_user_without_rights_is_told_what_to_grant(world: LabWorld) -> None:
    job_id = await world.port.allocate(hold(world, NODES[:1], 1))
    port = PyslurmPort((EXEC, "-u", "bob", *WORKER[1:]))
    for call in (port.cancel(job_id), port.complete(job_id, ExitStatus()), port.repin(job_id, NODES[1:])):
        with pytest.raises(SlurmRejected, match=r"adminlevel=admin|may not act for that user"):
            await call
    assert (await until(world, job_id, running)).nodes == NODES[:1]
    await port.close()


async def test_forty_waiting_holds_in_a_row(world: LabWorld) -> None:
    """slurmctld is not asked to wait for any of them: a call takes milliseconds, pending or not."""
    await world.port.allocate(hold(world, NODES, 8))
    began = time.monotonic()
    job_ids = [await world.port.allocate(hold(world, NODES, 8)) for _ in range(40)]
    assert time.monotonic() - began < 60
    jobs = (await world.port.view()).jobs
    assert {jobs[job_id].state for job_id in job_ids} == {JobState.PENDING}


async def test_arrays_and_heterogeneous_jobs_of_others(world: LabWorld) -> None:
    options = ["-A", "bio", "-J", "contract-job", "-p", "gpu", "-t", "5", "-o", "/dev/null", "--parsable"]
    array = int(slurm("sbatch", *options, "-H", "--array=0-7%2", "--gres=gpu:h100:1", "--wrap", "true", user="bob"))
    leader = int(
        slurm(
            "sbatch",
            *options,
            "-H",
            "-n1",
            "--gres=gpu:h100:1",
            ":",
            "-n1",
            "--gres=gpu:h100:2",
            "--wrap",
            "true",
            user="bob",
        )
    )
    view = await world.port.view()
    assert (view.jobs[array].array_job_id, view.jobs[array].array_task) == (array, "0-7%2")
    parts = {job.het_offset: job.gres_requested for job in view.jobs.values() if job.het_job_id == leader}
    assert parts == {0: "gres/gpu:h100:1", 1: "gres/gpu:h100:2"}
    by_cli = await CliPort([EXEC]).view()
    for job_id in (array, leader, leader + 1):
        assert by_cli.jobs[job_id] == view.jobs[job_id]


async def test_both_adapters_see_the_same(world: LabWorld) -> None:
    await world.port.allocate(hold(world, NODES, 3))
    await world.port.allocate(hold(world, [world.external], 3, partition="ext", external=True))
    job_id = await world.port.allocate(hold(world, NODES[:1], 1))
    await world.port.complete(job_id, ExitStatus(code=3))
    await world.sbatch(pin=NODES, gpus=2)
    await until(world, job_id, ended)
    mine, theirs = await world.port.view(), await CliPort([EXEC]).view()
    for name in (*NODES, world.external):
        assert _unplanned(mine.nodes[name]) == _unplanned(theirs.nodes[name])
    ours = {number: job for number, job in mine.jobs.items() if job.name.startswith("contract-")}
    assert len(ours) >= 4
    for number, job in ours.items():
        assert theirs.jobs[number] == job


def _unplanned(node: SlurmNode) -> SlurmNode:
    """Return ``node`` without the flag that slurmctld's backfill sets and clears between any two reads."""
    return replace(node, states=node.states - {"PLANNED"})
