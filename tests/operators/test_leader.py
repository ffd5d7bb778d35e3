"""The election on a fake API server; every candidate has a clock that only the test moves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from prometheus_client import CollectorRegistry

from operators import leader
from operators.kube.client import KubeClient
from operators.leader import Deposed, Leadership, own_identity
from operators.lease import NAME
from tests.kube.fakeapi import FakeApi

NAMESPACE = "gangbridge-system"
DURATION_S, ACTS_S = 15, 10
Object = dict


class Clock:
    """Seconds of one machine, from an origin of its own."""

    def __init__(self, start: float) -> None:
        self.now = start

    def __call__(self) -> float:
        return self.now


class Candidates:
    """An API server with the Lease as it is installed, and who wants it."""

    def __init__(self, api: FakeApi) -> None:
        self.api = api
        self.a_clock, self.b_clock = Clock(1000.0), Clock(5.0)
        self._clients: list[KubeClient] = []
        self.a, self.b = self.add("a", self.a_clock), self.add("b", self.b_clock)

    def add(self, identity: str, clock: Clock, registry: CollectorRegistry | None = None) -> Leadership:
        self._clients.append(KubeClient(self.api.connection(), deadline_s=0.5))
        return Leadership(
            self._clients[-1],
            identity=identity,
            namespace=NAMESPACE,
            duration_s=DURATION_S,
            clock=clock,
            registry=registry,
        )

    def pass_s(self, seconds: float) -> None:
        self.a_clock.now += seconds
        self.b_clock.now += seconds

    @property
    def spec(self) -> Object:
        return self.api.objects["leases", NAMESPACE, NAME]["spec"]

    async def close(self) -> None:
        for client in self._clients:
            await client.close()


@asynccontextmanager
async def candidates(*, installed: bool = True) -> AsyncIterator[Candidates]:
    async with FakeApi() as api:
        if installed:
            api.put("leases", {"metadata": {"name": NAME, "namespace": NAMESPACE}})
        found = Candidates(api)
        try:
            yield found
        finally:
            await found.close()


async def test_a_lease_that_nobody_holds_is_taken_at_once():
    async with candidates() as on:
        taken = []
        on.a.on_taken = lambda: taken.append(on.a.leads)
        with pytest.raises(Deposed):
            on.a.require()
        assert await on.a.step()
        on.a.require()
        assert taken == [True]
        assert (on.a.term.identity, on.a.term.epoch) == ("a", 1)
        assert (on.spec["holderIdentity"], on.spec["leaseTransitions"], on.spec["leaseDurationSeconds"]) == ("a", 1, 15)


async def test_a_holder_that_renews_keeps_it_in_one_term():
    async with candidates() as on:
        await on.a.step()
        acquired = on.spec["acquireTime"]
        for _ in range(20):
            on.pass_s(3)
            assert await on.a.step()
            assert not await on.b.step()
            on.a.require()
        assert on.a.term.epoch == on.spec["leaseTransitions"] == 1
        assert on.spec["acquireTime"] == acquired < on.spec["renewTime"]


async def test_a_holder_stops_ten_seconds_after_it_began_its_last_renewal():
    async with candidates() as on:
        await on.a.step()
        on.a_clock.now += ACTS_S - 0.1
        on.a.require()
        on.a_clock.now += 0.1
        with pytest.raises(Deposed):
            on.a.require()


async def test_the_time_that_a_renewal_takes_is_the_holders_loss():
    async with candidates() as on:
        replace = on.a._client.replace

        async def slowly(*args):
            on.a_clock.now += 4
            return await replace(*args)

        on.a._client.replace = slowly
        await on.a.step()
        on.a_clock.now += ACTS_S - 4
        assert not on.a.leads


@pytest.mark.parametrize("fault", [0, 429, 500])
async def test_while_the_api_server_fails_the_holder_stops_before_another_may_start(fault):
    async with candidates() as on:
        await on.a.step()
        await on.b.step()
        on.api.fail(1000, status=fault, match="leases")
        stopped = None
        for second in range(1, 14):
            on.pass_s(1)
            assert not await on.a.step()
            assert not await on.b.step()
            stopped = stopped or (None if on.a.leads else second)
        assert stopped == ACTS_S
        on.api.faults.clear()
        on.pass_s(1)
        assert not await on.b.step()
        on.pass_s(1)
        assert await on.b.step()
        assert (on.b.leads, on.a.leads) == (True, False)


async def test_a_lapsed_term_goes_on_when_nobody_has_taken_it():
    async with candidates() as on:
        await on.a.step()
        on.pass_s(3600)
        assert not on.a.leads
        assert await on.a.step()
        on.a.require()
        assert on.a.term.epoch == 1


async def test_another_takes_over_only_after_the_full_duration_on_its_own_clock():
    async with candidates() as on:
        await on.a.step()
        on.pass_s(14)
        assert not await on.b.step(), "it has only now seen it for the first time"
        on.pass_s(DURATION_S - 0.1)
        assert not await on.b.step()
        on.pass_s(0.1)
        assert await on.b.step()
        assert (on.b.term.epoch, on.spec["holderIdentity"], on.spec["leaseTransitions"]) == (2, "b", 2)


async def test_a_holder_that_announced_a_longer_duration_is_waited_for_so_long():
    async with candidates() as on:
        await on.a.step()
        on.spec["leaseDurationSeconds"] = 60
        await on.b.step()
        on.pass_s(59)
        assert not await on.b.step()
        on.pass_s(1)
        assert await on.b.step()


async def test_every_renewal_that_is_seen_starts_the_wait_anew():
    async with candidates() as on:
        await on.a.step()
        await on.b.step()
        on.pass_s(DURATION_S - 1)
        await on.a.step()
        assert not await on.b.step()
        on.pass_s(DURATION_S - 1)
        assert not await on.b.step()


async def test_a_renewal_that_comes_between_look_and_take_wins():
    async with candidates() as on:
        await on.a.step()
        await on.b.step()
        on.pass_s(DURATION_S)
        replace = on.b._client.replace

        async def overtaken(*args):
            assert await on.a.step()
            return await replace(*args)

        on.b._client.replace = overtaken
        assert not await on.b.step()
        assert (on.a.leads, on.b.leads, on.b.term) == (True, False, None)


async def test_of_many_that_race_exactly_one_leads():
    async with candidates() as on:
        for _ in range(5):
            rivals = [on.add(f"rival-{number}", Clock(number)) for number in range(8)]
            holds = await asyncio.gather(*(rival.step() for rival in rivals))
            assert holds.count(True) == 1
            assert [rival.leads for rival in rivals] == holds
            await rivals[holds.index(True)].release()


async def test_setting_the_wall_clock_changes_nothing(monkeypatch):
    async with candidates() as on:
        wall = [1.8e9]
        monkeypatch.setattr(leader.time, "time", lambda: wall[0])
        await on.a.step()
        await on.b.step()
        for step in (-86400, 7 * 86400):
            wall[0] += step
            on.pass_s(3)
            assert await on.a.step()
            assert not await on.b.step()
            on.a.require()
        on.pass_s(DURATION_S - 1)
        assert not await on.b.step()


async def test_after_a_freeze_nothing_is_written_and_who_was_replaced_is_told():
    async with candidates() as on:
        await on.a.step()
        await on.b.step()
        on.pass_s(DURATION_S)
        assert await on.b.step()
        with pytest.raises(Deposed):
            on.a.guard("create pods")
        with pytest.raises(Deposed, match="held by b"):
            await on.a.step()
        assert on.spec["holderIdentity"] == "b"


async def test_a_freeze_in_the_middle_of_a_renewal_is_seen():
    async with candidates() as on:
        await on.a.step()
        replace = on.a._client.replace

        async def frozen(*args):
            on.pass_s(ACTS_S)
            return await replace(*args)

        on.a._client.replace = frozen
        assert await on.a.step()
        assert not on.a.leads


async def test_a_released_lease_is_taken_at_once():
    async with candidates() as on:
        await on.a.step()
        await on.b.step()
        await on.a.release()
        assert not on.a.leads
        assert on.spec["holderIdentity"] == ""
        assert await on.b.step()
        assert on.b.term.epoch == 2


async def test_a_lease_that_another_holds_is_not_released():
    async with candidates() as on:
        await on.a.step()
        await on.b.step()
        on.pass_s(DURATION_S)
        await on.b.step()
        await on.a.release()
        assert on.spec["holderIdentity"] == "b"


async def test_a_renewal_without_an_answer_is_none_and_the_next_one_counts():
    async with candidates() as on:
        await on.a.step()
        on.pass_s(9)
        on.api.fail(1, status=0, match="PUT leases", after=True)
        assert not await on.a.step()
        on.pass_s(1)
        assert not on.a.leads
        assert await on.a.step()
        on.a.require()


async def test_a_take_without_an_answer_is_made_again():
    async with candidates() as on:
        on.api.fail(1, status=0, match="PUT leases", after=True)
        assert not await on.a.step()
        assert not on.a.leads
        assert await on.a.step()
        assert on.a.term.epoch == 2


async def test_a_new_life_under_the_same_name_takes_its_lease_back_in_a_new_term():
    async with candidates() as on:
        await on.a.step()
        reborn = on.add("a", Clock(0))
        assert await reborn.step()
        assert reborn.term.epoch == 2
        with pytest.raises(Deposed):
            await on.a.step()


async def test_a_lease_that_does_not_exist_is_waited_for_as_if_somebody_held_it():
    async with candidates(installed=False) as on:
        assert not await on.a.step()
        on.pass_s(DURATION_S - 1)
        assert not await on.a.step()
        on.pass_s(1)
        assert await on.a.step()
        assert (on.spec["holderIdentity"], on.a.term.epoch) == ("a", 1)


async def test_a_holder_whose_lease_was_deleted_is_deposed():
    async with candidates() as on:
        await on.a.step()
        on.api.remove("leases", NAME, NAMESPACE)
        with pytest.raises(Deposed, match="deleted"):
            await on.a.step()
        assert not on.a.leads


async def test_run_goes_on_until_another_leads():
    async with candidates() as on:
        leading = Leadership(on.a._client, identity="a", namespace=NAMESPACE, duration_s=1, clock=on.a_clock)
        running = asyncio.create_task(leading.run())
        async with asyncio.timeout(5):
            await leading.looked.wait()
            first = on.spec["renewTime"]
            while on.spec["renewTime"] == first:  # noqa: ASYNC110 - the API server has no event
                await asyncio.sleep(0.01)
            lease = on.api.objects["leases", NAMESPACE, NAME]
            on.api.put("leases", lease | {"spec": lease["spec"] | {"holderIdentity": "b", "leaseTransitions": 2}})
            with pytest.raises(Deposed, match="held by b"):
                await running
        assert not leading.leads


async def test_metrics_say_who_acts():
    async with candidates() as on:
        registry, clock = CollectorRegistry(), Clock(0)
        shown = on.add("c", clock, registry)
        assert registry.get_sample_value("gangbridge_leader") == 0
        await shown.step()
        assert registry.get_sample_value("gangbridge_leader") == 1
        assert registry.get_sample_value("gangbridge_leader_epoch") == 1
        clock.now += ACTS_S
        assert registry.get_sample_value("gangbridge_leader") == 0


def test_a_pod_has_its_own_name_and_every_other_process_a_new_one(monkeypatch):
    monkeypatch.setenv("POD_NAME", "gangbridge-5b7-x2x")
    assert own_identity() == own_identity() == "gangbridge-5b7-x2x"
    monkeypatch.delenv("POD_NAME")
    assert own_identity() != own_identity()


async def test_the_clock_goes_on_while_the_machine_sleeps(monkeypatch):
    asked = []
    monkeypatch.setattr(leader.time, "clock_gettime", lambda which: asked.append(which) or 1.0)
    assert leader.boottime() == 1.0
    assert asked == [leader.time.CLOCK_BOOTTIME]
