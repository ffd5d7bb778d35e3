"""Many gangs at once."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import dataclass

from e2e.bench import traffic, world
from e2e.bench.sight import running_pod, watching
from operators.kube.client import KubeClient
from operators.kube.resources import GANGJOBS, PODS


@dataclass(frozen=True, slots=True, kw_only=True)
class Burst:
    """From the first POST until the last pod ran; ``first`` is when the first one did, both in seconds."""

    pods: int
    seconds: float
    first: float
    writes: Counter[str]

    @property
    def rate(self) -> float:
        """Pods per second."""
        return self.pods / self.seconds

    @property
    def writes_per_pod(self) -> float:
        return self.writes.total() / self.pods


async def run(client: KubeClient, gangs: int, pods: int, gpus: int) -> Burst:
    """``gangs`` GangJobs of ``pods`` pods, posted at once; everything is deleted again."""
    total = gangs * pods
    try:
        async with watching(client, PODS, running_pod, world.NAMESPACE) as sight:
            before, started = await asyncio.to_thread(traffic.writes), time.time()
            manifests = [world.gang(f"burst-{number}", pods, gpus) for number in range(gangs)]
            await asyncio.gather(*(client.create(GANGJOBS, manifest) for manifest in manifests))
            ended = await sight.until(total, timeout_s=90)
            first = min(sight.at.values())
        after = await asyncio.to_thread(traffic.writes)
        return Burst(pods=total, seconds=ended - started, first=first - started, writes=after - before)
    finally:
        await world.remove_all(client, GANGJOBS)
        await world.until_empty(client, GANGJOBS, *world.LEFT)
