"""What a member of a gang finds in its environment: PyTorch's names and their Slurm twins.

A pod is a task, as ``srun -n <pods>`` would start it. Only what is true is set: the Slurm names are the hold's, and
``LOCAL_RANK`` counts the gang's pods on the node, not the devices of the pod (each pod sees its own devices from 0).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bridge.lifecycle.actions import Member, Roster
from bridge.lifecycle.names import pod_name, service_name
from bridge.model.gang import Gang
from bridge.model.hostlist import expand, fold

MASTER_PORT = 29500
"""What rank 0 listens on unless the template's own env says otherwise: PyTorch's default."""


def member_environment(gang: Gang, roster: Roster, member: Member) -> dict[str, str]:
    """Return the variables of one pod, in a fixed order."""
    values: dict[str, object] = {
        "RANK": member.rank,
        "WORLD_SIZE": len(roster.members),
        "LOCAL_RANK": member.local_rank,
        "LOCAL_WORLD_SIZE": roster.pods_per_node,
        "NODE_RANK": member.node_rank,
        # Found through the first entry of the pod's DNS search list, the services of its namespace.
        "MASTER_ADDR": f"{pod_name(gang, 0)}.{service_name(gang)}",
        "MASTER_PORT": MASTER_PORT,
        "SLURM_PROCID": member.rank,
        "SLURM_NTASKS": len(roster.members),
        "SLURM_NTASKS_PER_NODE": roster.pods_per_node,
        "SLURM_LOCALID": member.local_rank,
        "SLURM_NODEID": member.node_rank,
        "SLURM_JOB_ID": roster.job_id,
        "SLURM_JOB_NAME": gang.name,
        "SLURM_JOB_NUM_NODES": len(roster.nodes),
        "SLURM_JOB_NODELIST": _nodelist(roster.nodes),
        "SLURMD_NODENAME": member.slurm_node,
        "SLURM_RESTART_COUNT": gang.status.attempt - 1,
    }
    return {name: str(value) for name, value in values.items()}


def with_environment(container: Mapping[str, Any], values: Mapping[str, str]) -> dict[str, Any]:
    """Return the container with ``values`` ahead of its own env (so ``$(RANK)`` works there); its own values win."""
    own = list(container.get("env") or [])
    taken = {entry.get("name") for entry in own}
    added = [{"name": name, "value": value} for name, value in values.items() if name not in taken]
    return {**container, "env": added + own}


def _nodelist(nodes: Sequence[str]) -> str:
    """Return the nodes with the n-th being the node of ``SLURM_NODEID`` n; short if their order is the sorted one."""
    folded = fold(nodes)
    return folded if expand(folded) == tuple(nodes) else ",".join(nodes)
