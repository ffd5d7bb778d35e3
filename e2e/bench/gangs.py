"""One gang after the other on an idle fleet."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator

from e2e.bench import world
from e2e.bench.sight import running_pod, watching
from operators.kube.client import KubeClient
from operators.kube.resources import GANGJOBS, PODS


async def run(client: KubeClient, rounds: int, pods: int, gpus: int) -> AsyncIterator[float]:
    """Yield the seconds from the POST until this process saw the last pod run; the gang is gone before the next one."""
    for number in range(rounds):
        try:
            async with watching(client, PODS, running_pod, world.NAMESPACE) as sight:
                started = time.time()
                await client.create(GANGJOBS, world.gang(f"single-{number}", pods, gpus))
                yield await sight.until(pods, timeout_s=60) - started
        finally:
            await world.remove_all(client, GANGJOBS)
            await world.until_empty(client, GANGJOBS, *world.LEFT)
