"""What slurmctld would refuse: numbers that do not fit (the integer types of ``job_desc_msg_t``, slurm.h), names.

Nobody else checks the numbers: salloc(1) cuts ``--cpus-per-task=100000`` to 16 bits and queues a job that nobody asked
for.
"""

from __future__ import annotations

from collections.abc import Collection

from bridge.errors import SlurmRejected
from bridge.model.hold import HoldRequest

_SMALL = 0xFFFD
"""Largest 16-bit value; the two above mean "not set" and "infinite"."""
_LARGE = 0xFFFF_FFFD
_MEMORY = 1 << 53
_INVALID_NODE_NAME = 2018
"""ESLURM_INVALID_NODE_NAME (slurm_errno.h)."""


def check(request: HoldRequest) -> None:
    """Raise ``SlurmRejected`` naming the first field that is out of range."""
    bounds = {
        "number of nodes": (len(request.nodes), 1, _LARGE),
        "tasks_per_node": (request.tasks_per_node, 1, _SMALL),
        "cpus_per_task": (request.cpus_per_task, 1, _SMALL),
        "number of CPUs": (len(request.nodes) * request.tasks_per_node * request.cpus_per_task, 1, _LARGE),
        "memory_mib_per_node": (request.memory_mib_per_node, 0, _MEMORY),
        "time_limit_min": (request.time_limit_min, 1, _LARGE),
    }
    for name, (value, least, most) in bounds.items():
        if not least <= value <= most:
            raise SlurmRejected(f"{name} is {value}, Slurm takes {least} to {most}")


def check_known(nodes: Collection[str], known: Collection[str]) -> None:
    """Raise slurmctld's refusal, with their names, if some of ``nodes`` are not ``known``."""
    if missing := sorted(set(nodes) - set(known)):
        raise SlurmRejected(f"Invalid node name specified: {', '.join(missing)}", _INVALID_NODE_NAME)
