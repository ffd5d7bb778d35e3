"""From the start of an sbatch job until Kubernetes shows its devices taken."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Mapping
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
QUIET = ("-t", "10", "-o", "/dev/null")
# Who starts a job says so in one line: the scheduler's passes, or the submission itself.
_STARTED = re.compile(
    r"^\[(?P<at>[^\]]+)\] sched(?:/backfill)?: (?:Allocate|_start_job: Started|_slurm_rpc_\w+) JobId=(?P<id>\d+)"
    r".*?(?:NodeList=| on )[a-z]"
)


async def run(client: KubeClient, count: int) -> list[float]:
    """Submit ``count`` jobs of one GPU at times that know nothing of the operator's polls; return the delays."""
    random.seed(1)
    offset = LOG.stat().st_size
    jobs: list[str] = []
    try:
        async with watching(client, RESOURCECLAIMS, _taken, MIRRORS) as sight:
            for number in range(count):
                submit = ("sbatch", "--parsable", "-J", f"{world.PREFIX}{number}", "--gres=gpu:h100:1", *QUIET)
                text = await asyncio.to_thread(world.slurm, *submit, "--wrap", "sleep 300", user="alice")
                jobs.append(text.strip())
                await asyncio.sleep(random.uniform(0.2, 0.6))
            await sight.until(count, timeout_s=60)
        started = _starts(offset)
        return [sight.at[job] - started[job] for job in jobs]
    finally:
        if jobs:
            await asyncio.to_thread(world.slurm, "scancel", *jobs)
        await world.until_empty(client)


def _taken(claim: Mapping[str, Any]) -> str | None:
    """Key of an allocated claim: its job."""
    return claim["metadata"]["labels"][JOB_ID] if (claim.get("status") or {}).get("allocation") else None


def _starts(offset: int) -> dict[str, float]:
    """Return when slurmctld gave each job its nodes, in seconds since the epoch, from its log (1 ms resolution)."""
    with LOG.open() as log:
        log.seek(offset)
        found = [match for line in log if (match := _STARTED.match(line))]
    return {match["id"]: datetime.fromisoformat(match["at"]).timestamp() for match in found}
