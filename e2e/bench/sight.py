"""When something was first seen by a watch of this process."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from operators.kube.client import KubeClient
from operators.kube.resources import Resource

Object = Mapping[str, Any]
Key = Callable[[Object], str | None]


class Sight:
    """First sightings by key, in seconds of ``time.time()`` (the clock that slurmctld's log uses too)."""

    def __init__(self) -> None:
        self.at: dict[str, float] = {}
        self.problem: BaseException | None = None
        self._changed = asyncio.Event()

    def fail(self, problem: BaseException) -> None:
        """Let whoever waits know that nothing more will be seen."""
        self.problem = problem
        self._changed.set()

    def note(self, key: str) -> None:
        """Note a sighting; only the first of a key counts."""
        if key not in self.at:
            self.at[key] = time.time()
            self._changed.set()

    async def until(self, count: int, timeout_s: float) -> float:
        """Return the time of the ``count``-th sighting; TimeoutError names how many there were."""
        try:
            async with asyncio.timeout(timeout_s):
                while len(self.at) < count:
                    if self.problem is not None:
                        raise RuntimeError("the watch ended") from self.problem
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise TimeoutError(f"{len(self.at)} of {count} were seen within {timeout_s} s") from None
        return sorted(self.at.values())[count - 1]


@asynccontextmanager
async def watching(client: KubeClient, resource: Resource, key: Key, namespace: str | None = None):
    """Watch from now on; ``key`` names what an object shows, None for nothing of interest."""
    sight = Sight()
    _, version = await client.list(resource, namespace)

    async def follow() -> None:
        last = version
        while True:
            # The API server ends watches that fall behind in a burst; what they missed comes with the next one.
            async for event, obj in client.watch(resource, resource_version=last, namespace=namespace):
                last = obj["metadata"]["resourceVersion"]
                if event in ("ADDED", "MODIFIED") and (name := key(obj)) is not None:
                    sight.note(name)

    def ended(task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (problem := task.exception()) is not None:
            sight.fail(problem)

    task = asyncio.create_task(follow())
    task.add_done_callback(ended)
    try:
        yield sight
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def running_pod(obj: Object) -> str | None:
    """Key of a pod that runs."""
    return obj["metadata"]["name"] if (obj.get("status") or {}).get("phase") == "Running" else None
