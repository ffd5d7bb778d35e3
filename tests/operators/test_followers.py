"""The loop of a replica that follows, that takes over, and that is deposed in the middle of a cycle."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from bridge import wellknown
from operators.apply import Applier
from operators.kube.resources import FLEETS
from operators.leader import Deposed
from operators.lease import Term
from operators.loop import Loop
from tests.operators.stand import Stand, job, stand


@dataclass
class Leadership:
    """What a test says it is."""

    leads: bool = False
    term: Term | None = None

    def begin(self, epoch: int = 1) -> None:
        self.term = Term(identity="me", epoch=epoch, since=time.time(), taken_at=time.monotonic())
        self.leads = True


@asynccontextmanager
async def looping(on: Stand, leadership: Leadership) -> AsyncIterator[Loop]:
    loop = Loop(on.client, on.observer, on.poller, Applier(on.client, on.slurm, on.observer), leadership)
    task = asyncio.create_task(loop.run())
    try:
        yield loop
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def until(condition: Callable[[], object], loop: Loop) -> None:
    async with asyncio.timeout(5):
        while not condition():
            loop.wake()
            await asyncio.sleep(0.005)


async def test_a_follower_is_alive_and_writes_nothing_and_begins_when_it_leads():
    async with stand() as on:
        leadership = Leadership()
        async with looping(on, leadership) as loop:
            on.put("gangjobs", job())
            on.slurm.sbatch(gpus=1)
            await on.caught_up()
            await on.poller.refresh()
            beats = loop.beat.cycles
            await until(lambda: loop.beat.cycles > beats + 3, loop)
            assert on.writes() == {}
            assert "PATCH fleets/status" not in on.api.requests
            leadership.begin()
            await until(lambda: any(each.marker for each in on.slurm.jobs.values()), loop)


async def test_a_term_begins_with_what_both_servers_say_now():
    async with stand() as on:
        await on.settle()
        on.api.stalled = True
        leadership = Leadership()
        async with looping(on, leadership) as loop:
            on.slurm.sbatch(gpus=8)
            leadership.begin()
            await until(lambda: on.api.of("gangjobs", wellknown.MIRROR_NAMESPACE), loop)
            on.put("gangjobs", job())
            on.api.put("namespaces", {"metadata": {"name": "elsewhere"}})
            leadership.begin(epoch=2)
            await until(lambda: any(each.marker for each in on.slurm.jobs.values()), loop)
            assert ("", "elsewhere") in on.observer.namespaces.by_key


async def test_what_was_listed_after_the_take_is_not_listed_again():
    async with stand() as on:
        lists = on.api.requests.count("GET pods")
        await on.observer.read_since(0)
        assert on.api.requests.count("GET pods") == lists
        await on.observer.read_since(time.monotonic())
        assert on.api.requests.count("GET pods") == lists + 1


async def test_a_term_that_cannot_be_begun_is_begun_later():
    async with stand() as on:
        on.put("gangjobs", job())
        leadership = Leadership()
        async with looping(on, leadership) as loop:
            on.api.fail(3, match="GET pods")
            leadership.begin()
            beats = loop.beat.cycles
            await until(lambda: loop.beat.cycles > beats + 1, loop)
            assert on.writes() == {}
            await until(lambda: any(each.marker for each in on.slurm.jobs.values()), loop)


async def test_a_cycle_of_a_deposed_leader_ends_without_a_write():
    async with stand() as on:
        await on.settle()
        before = on.writes()
        on.put("gangjobs", job())
        on.slurm.sbatch(gpus=1)

        def deposed(_: str) -> None:
            raise Deposed("not we")

        on.client._guard = deposed
        await on.cycle()
        assert on.writes() == before
        assert on.slurm.calls == []
        on.client._guard = None
        await on.settle()
        assert on.status()["phase"] == "Queued"
        assert len(on.api.of("gangjobs", wellknown.MIRROR_NAMESPACE)) == 1


async def test_the_fleet_names_its_leader():
    async with stand() as on:
        leadership = Leadership()
        leadership.begin(epoch=7)
        async with looping(on, leadership) as loop:
            await until(lambda: "status" in on.api.objects["fleets", "", "main"], loop)
        shown = on.api.objects["fleets", "", "main"]["status"]["leader"]
        assert (shown["identity"], shown["epoch"]) == ("me", 7)


async def test_a_late_dashboard_does_not_replace_a_newer_one():
    async with stand() as on:
        await on.caught_up()
        raw = on.observer.raw(FLEETS, "", "main")
        newer = {"conditions": [], "gangs": {"summary": "as its successor says", "phases": {}}}
        on.api.put("fleets", raw | {"status": newer}, status=True)
        await on.poller.refresh()
        await on.loop.cycle()
        assert on.api.objects["fleets", "", "main"]["status"] == newer
