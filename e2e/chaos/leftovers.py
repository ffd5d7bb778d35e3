"""What of a gang or a mirror is still there, on either side, when nothing should be."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

from e2e.chaos import sight
from e2e.chaos.load import LIVE, NAMESPACE
from e2e.scenario.commands import MIRRORS, slurm

TERMINAL = frozenset({"Succeeded", "Failed"})
_NODE = re.compile(r"^NodeName=(\S+)", re.MULTILINE)
OUR_REASON, OUR_GUARD = "gangbridge: ", "gangbridge:"


def after_the_ends() -> list[str]:
    """Return what holds anything though every gang has ended: pods that ended may stay for their logs."""
    pods = [pod for pod in sight.listed(sight.PODS) if sight.label(pod, "gang-uid")]
    found = [
        f"pod {_name(pod)} {pod['status'].get('phase')}" for pod in pods if pod["status"].get("phase") not in TERMINAL
    ]
    found += [f"claim {_name(claim)}" for claim in sight.listed(sight.CLAIMS) if _is_ours(claim)]
    found += [f"mirror {_name(obj)}" for obj in sight.listed(sight.GANGJOBS) if obj["metadata"]["namespace"] == MIRRORS]
    return [*found, *in_slurm()]


def after_deletion() -> list[str]:
    """Return everything that exists though every GangJob was deleted."""
    kinds = {"gangjob": sight.GANGJOBS, "pod": sight.PODS, "claim": sight.CLAIMS, "service": sight.SERVICES}
    return [
        f"{kind} {_name(obj)}" for kind, path in kinds.items() for obj in sight.listed(path) if _is_ours(obj)
    ] + in_slurm()


def in_slurm() -> list[str]:
    """Return live jobs, guards on nodes, and drains with a reason of the product's."""
    found = [f"job {job.job_id} {job.state}" for job in sight.jobs() if job.state in LIVE]
    text = slurm("scontrol", "show", "node", timeout_s=15)
    for record in text.split("\n\n"):
        name = _NODE.search(record)
        if name is None:
            continue
        if f"Extra={OUR_GUARD}" in record:
            found.append(f"node {name[1]} is guarded: {_line(record, 'Extra=')}")
        if f"Reason={OUR_REASON}" in record:
            found.append(f"node {name[1]} is drained: {_line(record, 'Reason=')}")
    return found


def wait_for_none(probe: Callable[[], list[str]], within_s: float) -> list[str]:
    """Return nothing as soon as ``probe`` finds nothing, else what it still finds after ``within_s`` seconds."""
    deadline = time.monotonic() + within_s
    while True:
        try:
            left = probe()
        except sight.UNREACHABLE as error:
            left = [str(error)]
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.5)


def _is_ours(obj: sight.Object) -> bool:
    return obj["metadata"].get("namespace") in {NAMESPACE, MIRRORS}


def _name(obj: sight.Object) -> str:
    return f"{obj['metadata']['namespace']}/{obj['metadata']['name']}"


def _line(record: str, start: str) -> str:
    return next(line.strip() for line in record.splitlines() if line.strip().startswith(start))
