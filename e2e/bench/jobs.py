"""From the start of an sbatch job until Kubernetes shows its devices taken."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from e2e.bench import world
from e2e.bench.sight import watching
from e2e.operator import STATE
from operators.kube.client import KubeClient
from operators.kube.resources import RESOURCECLAIMS

MIRRORS = "gangbridge-mirror"
JOB_ID = "gangbridge.dev/job-id"
LOG = STATE / "logs" / "slurmctld.log"
_SBATCH = ("sbatch", "--parsable", "--gres=gpu:h100:1", "-t", "10", "-o", "/dev/null", "--wrap", "sleep 300")
_STARTED = re.compile(r"^\[(?P<at>[^\]]+)\] sched: Allocate JobId=(?P<id>\d+) NodeList=\w")


@dataclass(frozen=True, slots=True, kw_only=True)
class Delays:
    """``seconds`` of every job; the start of ``exact`` of them is known to 1 ms, of the others to the second."""

    seconds: tuple[float, ...] = ()
    exact: int = 0

    def __add__(self, other: Delays) -> Delays:
        return Delays(seconds=self.seconds + other.seconds, exact=self.exact + other.exact)


async def run(client: KubeClient, count: int) -> Delays:
    """Submit ``count`` jobs of one GPU at random intervals and return how long after its start each was seen."""
    offset = LOG.stat().st_size
    jobs: list[str] = []
    try:
        async with watching(client, RESOURCECLAIMS, _taken, MIRRORS) as sight:
            for number in range(count):
                command = (*_SBATCH, "-J", f"{world.PREFIX}{number}")
                jobs.append((await asyncio.to_thread(world.slurm, *command, user="alice")).strip())
                await asyncio.sleep(random.uniform(0.2, 0.6))
            await sight.until(count, timeout_s=60)
        logged = _logged(offset)
        starts = _whole_seconds(jobs) | logged
        seconds = tuple(sight.at[job] - starts[job] for job in jobs)
        return Delays(seconds=seconds, exact=len(logged.keys() & set(jobs)))
    finally:
        if jobs:
            await asyncio.to_thread(world.slurm, "scancel", *jobs)
        await world.until_empty(client)


def _taken(claim: Mapping[str, Any]) -> str | None:
    """Key of an allocated claim: its job."""
    return claim["metadata"]["labels"][JOB_ID] if (claim.get("status") or {}).get("allocation") else None


def _logged(offset: int) -> dict[str, float]:
    """Return when the main scheduler gave jobs their node, from slurmctld's log; its backfill logs no starts."""
    with LOG.open() as log:
        log.seek(offset)
        found = [match for line in log if (match := _STARTED.match(line))]
    return {match["id"]: datetime.fromisoformat(match["at"]).timestamp() for match in found}


def _whole_seconds(jobs: Sequence[str]) -> dict[str, float]:
    """Return StartTime, which is rounded down: a delay from it is too long by up to 1 s, never too short."""
    lines = world.slurm("squeue", "-h", "-j", ",".join(jobs), "-o", "%i %S").splitlines()
    return {job: datetime.fromisoformat(start).timestamp() for job, start in (line.split() for line in lines)}
