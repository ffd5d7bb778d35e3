"""The client of the worker process, against stub workers that behave badly."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from bridge.errors import SlurmRejected, SlurmUnavailable
from bridge.model.gres import Gres, GresRequest
from bridge.model.hold import ExitStatus, GangKey, HoldRequest, Marker
from bridge.slurm.client import Deadlines, PyslurmPort

STUB = Path(__file__).parent / "stub_worker.py"
DEADLINES = Deadlines(start=2.0, read=5.0, write=0.5)

HOLD = HoldRequest(
    marker=Marker(key=GangKey(uid="u", attempt=1), namespace="ns", name="g"),
    name="g-1",
    partition="gpu",
    account="physics",
    qos="normal",
    user="alice",
    nodes=("n2", "n1"),
    gres_per_node=(GresRequest(name="gpu", type="a", count=2), GresRequest(name="fpga", count=1)),
    tasks_per_node=2,
    cpus_per_task=3,
    memory_mib_per_node=0,
    time_limit_min=10,
)

Ports = Callable[..., PyslurmPort]


@pytest.fixture
async def ports() -> object:
    opened: list[PyslurmPort] = []

    def start(*behaviour: str, begin: str = "ready") -> PyslurmPort:
        opened.append(PyslurmPort([sys.executable, str(STUB), begin, *behaviour], DEADLINES))
        return opened[-1]

    yield start
    for port in opened:
        await port.close()


async def test_a_cluster_without_topology_yaml_shows_its_topology_as_lines(ports: Ports) -> None:
    assert await ports("echo").topology() == "SwitchName=s Nodes=n1"


async def test_a_view_is_read(ports: Ports) -> None:
    view = await ports("echo").view()
    assert view.taken_at == 5.0
    assert view.jobs[1].gres == {"n1": (Gres(name="gpu", type="a", count=1, indices=(3,)),)}
    assert view.nodes["n1"].partitions == {"main"}


async def test_writes_are_sent(ports: Ports) -> None:
    port = ports("echo")
    assert await port.allocate(HOLD) == 77
    await port.repin(3, ["n2", "n1"])
    await port.complete(3, ExitStatus(code=3))
    await port.cancel(3)
    await port.set_extra(["n2", "n1"], "gangbridge:3")
    await port.drain(["n1"], "gangbridge: x")
    await port.resume(["n1"], "gangbridge: x")


async def test_a_refusal_carries_slurms_words_and_number(ports: Ports) -> None:
    with pytest.raises(SlurmRejected) as caught:
        await ports("reject").allocate(HOLD)
    assert (str(caught.value), caught.value.errno) == ("Invalid account", 2045)


async def test_no_answer_from_slurmctld_is_unavailable(ports: Ports) -> None:
    with pytest.raises(SlurmUnavailable, match="connect failure"):
        await ports("unavailable").cancel(3)


async def test_a_late_worker_is_killed_with_its_children_and_replaced(ports: Ports) -> None:
    port = ports("hang-with-child")
    began = time.monotonic()
    with pytest.raises(SlurmUnavailable, match=r"cancel: no answer within 0.5 s"):
        await port.cancel(3)
    assert time.monotonic() - began < 30
    assert not [p for p in psutil.process_iter(["cmdline"]) if p.info["cmdline"] == ["sleep", "61.25"]]


async def test_a_new_worker_serves_after_a_late_one(ports: Ports) -> None:
    port = ports("pid", "hang")
    first = (await port.info()).cluster
    with pytest.raises(SlurmUnavailable):
        await port.cancel(3)
    assert not psutil.pid_exists(int(first))
    second = (await port.info()).cluster
    assert first != second


async def test_a_dead_worker_says_its_last_words_and_is_replaced(ports: Ports) -> None:
    port = ports("pid", "die")
    await port.info()
    with pytest.raises(SlurmUnavailable, match=r"status 7: slurmctld ate the worker"):
        await port.cancel(3)
    await port.info()


async def test_a_worker_killed_between_calls_is_replaced(ports: Ports) -> None:
    port = ports("pid")
    pid = int((await port.info()).cluster)
    os.kill(pid, 9)
    with pytest.raises(SlurmUnavailable, match="status -9"):
        await port.info()
    assert int((await port.info()).cluster) != pid


async def test_a_worker_that_cannot_start_says_why(ports: Ports) -> None:
    with pytest.raises(SlurmUnavailable, match="No module named 'pyslurm'"):
        await ports("echo", begin="missing").info()


async def test_a_worker_that_is_not_there() -> None:
    with pytest.raises(SlurmUnavailable, match="cannot be started"):
        await PyslurmPort(["/no/such/worker"], DEADLINES).info()


async def test_a_worker_that_never_gets_ready(ports: Ports) -> None:
    with pytest.raises(SlurmUnavailable, match=r"did not start within 2.0 s"):
        await ports("echo", begin="silent").info()


@pytest.mark.parametrize("behaviour", ["confuse", "babble"])
async def test_a_worker_that_talks_nonsense_is_replaced(ports: Ports, behaviour: str) -> None:
    port = ports("pid", behaviour)
    first = (await port.info()).cluster
    with pytest.raises(SlurmUnavailable):
        await port.cancel(3)
    assert (await port.info()).cluster != first


async def test_an_unreadable_view_is_unavailable(ports: Ports) -> None:
    with pytest.raises(SlurmUnavailable, match="unknown job state"):
        await ports("odd-view").view()


async def test_a_cancelled_call_leaves_no_stale_answer(ports: Ports) -> None:
    port = ports("hang", "pid", "pid")
    call = asyncio.create_task(port.cancel(3))
    await asyncio.sleep(0.3)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    with pytest.raises(SlurmUnavailable):  # a fresh worker hangs on its first request again
        await port.cancel(3)


async def test_calls_take_turns(ports: Ports) -> None:
    port = ports("pid")
    answers = await asyncio.gather(*(port.info() for _ in range(20)))
    assert len({answer.cluster for answer in answers}) == 1


async def test_the_guard_is_asked_before_a_write_when_its_turn_has_come() -> None:
    is_leader = True

    def guard(write: str) -> None:
        if not is_leader:
            raise PermissionError(write)

    port = PyslurmPort([sys.executable, str(STUB), "ready", "pid"], DEADLINES, guard=guard)
    await port.info()
    await port.cancel(3)
    async with port._turn:
        waiting = asyncio.create_task(port.cancel(3))
        await asyncio.sleep(0)
        is_leader = False
    with pytest.raises(PermissionError, match="cancel"):
        await waiting
    for write in (port.allocate(HOLD), port.repin(3, ["n1"]), port.complete(3, ExitStatus(code=0))):
        with pytest.raises(PermissionError):
            await write
    await port.info()
    await port.close()


async def test_a_large_view_is_read_while_others_run(ports: Ports) -> None:
    port = ports("huge")
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(others())
    await asyncio.sleep(0)
    before = turns
    view = await port.view()
    task.cancel()
    assert len(view.jobs) == 20_000
    assert turns > before


async def test_a_closed_port_is_unusable(ports: Ports) -> None:
    port = ports("pid")
    pid = int((await port.info()).cluster)
    await port.close()
    assert not psutil.pid_exists(pid)
    with pytest.raises(SlurmUnavailable, match="closed"):
        await port.info()


async def test_the_worker_ends_when_its_client_is_gone() -> None:
    pipe = asyncio.subprocess.PIPE
    command = [sys.executable, str(STUB), "ready", "pid"]
    process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe)
    assert process.stdin is not None
    process.stdin.close()
    assert await asyncio.wait_for(process.wait(), 5) == 0
