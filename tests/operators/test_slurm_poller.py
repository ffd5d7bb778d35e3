from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from bridge.slurm.fake import FakeNode, FakeSlurm
from operators.slurm_poller import SlurmPoller


@asynccontextmanager
async def polling(slurm: FakeSlurm, interval_s: float = 3600.0) -> AsyncIterator[tuple[SlurmPoller, list[int]]]:
    """Run a poller; the list has one entry for every wake."""
    wakes: list[int] = []
    poller = SlurmPoller(slurm, interval_s, lambda: wakes.append(1))
    task = asyncio.create_task(poller.run())
    try:
        async with asyncio.timeout(5):
            while not poller.polls or not wakes:  # noqa: ASYNC110 - the first poll has no event
                await asyncio.sleep(0)
        yield poller, wakes
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def test_the_view_is_there_after_the_first_poll():
    async with polling(FakeSlurm([FakeNode(name="n1")])) as (poller, wakes):
        assert set(poller.view.nodes) == {"n1"}
        assert poller.info.version == "26.05.5"
        assert wakes == [1]


async def test_a_refresh_shows_what_happened_before_it():
    slurm = FakeSlurm([FakeNode(name="n1")])
    async with polling(slurm) as (poller, wakes):
        number = slurm.sbatch(gpus=1)
        await poller.refresh()
        assert number in poller.view.jobs
        assert wakes == [1, 1]


async def test_a_refresh_that_shows_nothing_new_wakes_nobody():
    """Else a call that slurmctld refuses would be made again at once, for ever."""
    async with polling(FakeSlurm([FakeNode(name="n1")])) as (poller, wakes):
        for _ in range(3):
            await poller.refresh()
        assert poller.polls == 4
        assert wakes == [1]


async def test_every_regular_poll_wakes():
    async with polling(FakeSlurm([FakeNode(name="n1")]), interval_s=0.01) as (poller, wakes):
        async with asyncio.timeout(5):
            while poller.polls < 4:  # noqa: ASYNC110 - counted by the poller
                await asyncio.sleep(0.005)
        assert len(wakes) >= 3


async def test_many_who_ask_at_once_share_a_poll():
    async with polling(FakeSlurm([FakeNode(name="n1")])) as (poller, _):
        await asyncio.gather(*(poller.refresh() for _ in range(20)))
        assert poller.polls == 2


async def test_a_silent_slurmctld_leaves_no_view_and_a_reason():
    slurm = FakeSlurm([FakeNode(name="n1")])
    async with polling(slurm) as (poller, wakes):
        slurm.down = True
        await poller.refresh()
        assert poller.view is None
        assert "connect failure" in poller.error
        assert poller.info is None, "who comes back may be another version"
        slurm.down = False
        await poller.refresh()
        assert set(poller.view.nodes) == {"n1"}
        assert len(wakes) == 3


async def test_a_call_that_fails_each_time_at_once_is_not_followed_by_a_poll_each_time():
    async with polling(FakeSlurm([FakeNode(name="n1")])) as (poller, _):
        for _ in range(10):
            poller.lost("no answer")
            await asyncio.sleep(0)
        assert poller.view is None
        assert poller.polls == 1


@pytest.mark.parametrize("turns", range(6))
async def test_a_poller_that_is_cancelled_as_it_is_asked_ends(turns):
    poller = SlurmPoller(FakeSlurm([FakeNode(name="n1")]), 3600.0, lambda: None)
    task = asyncio.create_task(poller.run())
    await asyncio.sleep(0.01)
    asking = asyncio.create_task(poller.refresh())
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    done, _ = await asyncio.wait({task}, timeout=2)
    asking.cancel()
    assert done
