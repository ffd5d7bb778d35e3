"""The operator's observer, loop and applier between a fake API server and a fake slurmctld, one cycle at a time."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

from bridge import wellknown
from bridge.slurm.fake import FakeNode, FakeSlurm
from operators.apply import Applier
from operators.kube.client import KubeClient
from operators.kube.resources import FLEETS, GANGJOBS, GANGQUEUES, NODES, PODS, RESOURCECLAIMS, RESOURCESLICES, SERVICES
from operators.loop import Loop
from operators.observer import Observer
from operators.slurm_poller import SlurmPoller
from tests.kube import actors
from tests.kube.fakeapi import FakeApi
from tests.operators import objects

Object = dict[str, Any]

_NEVER_S = 3600.0
_WATCHED = (PODS, RESOURCECLAIMS, NODES, SERVICES, RESOURCESLICES)
_KINDS = {"gangjobs": GANGJOBS, "gangqueues": GANGQUEUES, "fleets": FLEETS}


class Unopposed:
    """The leadership of a process that is the only one."""

    leads, term = True, None


class Stand:
    """What a test holds in its hands."""

    def __init__(self, api: FakeApi, client: KubeClient, slurm: FakeSlurm) -> None:
        self.api, self.client, self.slurm = api, client, slurm
        self.wakes = 0
        self.observer = Observer(client, self._woken)
        self.poller = SlurmPoller(slurm, _NEVER_S, self._woken)
        self.loop = self.new_loop()

    def new_loop(self) -> Loop:
        """Return a loop as after a restart: it remembers nothing."""
        applier = Applier(self.client, self.slurm, self.observer)
        return Loop(self.client, self.observer, self.poller, applier, Unopposed())

    def _woken(self) -> None:
        self.wakes += 1

    # Users

    def put(self, plural: str, obj: Object) -> None:
        """Write as a user."""
        self.api.put(plural, obj)

    async def delete(self, name: str = "llm") -> None:
        """Delete a GangJob as a user."""
        await self.client.delete(GANGJOBS, name, namespace="research")

    def gang(self, name: str = "llm") -> Object:
        return self.api.objects["gangjobs", "research", name]

    def status(self, name: str = "llm") -> Object:
        found: Object = self.gang(name).get("status") or {}
        return found

    def condition(self, type_: str, name: str = "llm") -> Object:
        return next(each for each in self.status(name)["conditions"] if each["type"] == type_)

    def end_pods(self, phase: str = "Succeeded", code: int = 0) -> None:
        for pod in self.api.of("pods", "research"):
            actors.set_phase(self.api, pod, phase, exit_code=code)

    def writes(self) -> Counter[str]:
        """Return the writes so far by ``METHOD plural``, events and the Fleet's dashboard left out."""
        return Counter(
            said
            for said in self.api.requests
            if not said.startswith(("GET", "WATCH")) and said not in {"POST events", "PATCH fleets/status"}
        )

    # Time

    def _kopf(self) -> None:
        """Bring what kopf would: every change of the three kinds."""
        for plural, resource in _KINDS.items():
            known = dict(self.observer._kinds[resource].objects)
            for obj in self.api.of(plural):
                known.pop((obj["metadata"].get("namespace", ""), obj["metadata"]["name"]), None)
                self.observer.take(resource, "MODIFIED", obj)
            for gone in known.values():
                self.observer.forget(resource, gone)

    async def caught_up(self) -> None:
        """Return when every watch has told everything that the server has."""
        self._kopf()
        version = self.api.store.version
        async with asyncio.timeout(5):
            while any(self.observer._reflectors[each]._store.position < version for each in _WATCHED):  # noqa: ASYNC110
                await asyncio.sleep(0.002)

    async def cycle(self) -> bool:
        """Run one cycle on news of both servers."""
        self.slurm.now = time.time()
        await self.caught_up()
        await self.poller.refresh()
        did = await self.loop.cycle()
        await self.loop.events.settled()
        return did

    async def settle(self, *, limit: int = 40, until: Callable[[], bool] | None = None) -> None:
        """Cycle, with Kubernetes doing its part in between, until nothing is left to do or ``until`` holds.

        Two idle cycles in a row: what failed is tried again at the next poll.
        """
        idle = 0
        for _ in range(limit):
            busy = await self.cycle()
            if until is not None and until():
                return
            before = self.api.store.version
            actors.settle(self.api)
            idle = 0 if busy or self.api.store.version != before else idle + 1
            if idle == 2:
                assert until is None, "settled before what was waited for"
                return
        raise AssertionError(f"still busy after {limit} cycles: {self.api.requests[-20:]}")


@asynccontextmanager
async def stand(*nodes: str) -> AsyncIterator[Stand]:
    """Run everything but the loop, on a fleet of ``nodes`` with 8 H100 each and a queue for namespace research."""
    slurm = FakeSlurm([FakeNode(name=name) for name in nodes or ("n1", "n2")], now=time.time())
    async with FakeApi(bookmark_s=0.01) as api, KubeClient(api.connection(), deadline_s=5) as client:
        for namespace in ("research", wellknown.MIRROR_NAMESPACE):
            api.put("namespaces", {"metadata": {"name": namespace}})
        for name in slurm.nodes:
            api.put("nodes", bare(objects.node(name)), status=True)
        found = Stand(api, client, slurm)
        found.put("fleets", bare(objects.fleet()))
        found.put("gangqueues", bare(objects.gangqueue()))
        tasks = [asyncio.create_task(found.observer.run()), asyncio.create_task(found.poller.run())]
        try:
            async with asyncio.timeout(5):
                await found.observer.synced()
            yield found
        finally:
            for task in tasks:
                task.cancel()
            for task in tasks:
                with suppress(asyncio.CancelledError):
                    await task


def bare(obj: Object) -> Object:
    """Return an object as a user writes it, without what the server makes up."""
    made_up = ("uid", "creationTimestamp", "resourceVersion")
    return obj | {"metadata": {key: value for key, value in obj["metadata"].items() if key not in made_up}}


def job(name: str = "llm", **changes: Any) -> Object:
    """Return a GangJob as a user writes it."""
    return bare(objects.gangjob(name, **changes))
