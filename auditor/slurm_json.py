"""``squeue --json`` and ``scontrol show nodes --json`` (data parsers v0.0.40 to v0.0.45) as evidence. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from auditor.evidence import Job, Key, Marker, SlurmNode
from auditor.hostlist import expand, numbers

_ITEM = re.compile(r"([^:,()]+)[^,()]*(?:\(([^)]*)\))?")
"""One GRES of a list: its name, and what stands in brackets. Commas within brackets belong to it."""


def read_jobs(text: bytes) -> tuple[dict[int, Job], int]:
    """Return the jobs by id and slurmctld's clock. ``ValueError`` when it is no answer of slurmctld."""
    answer = json.loads(text, object_hook=_lighter)
    # Some versions report a controller that cannot be reached as an empty cluster, but not at any time.
    clock = _number(answer["last_update"])
    if not clock:
        raise ValueError("the answer has no time: it is not slurmctld's")
    return {job["job_id"]: _job(job) for job in answer["jobs"]}, clock


def read_nodes(text: bytes) -> dict[str, SlurmNode]:
    """Return the nodes by name. ``ValueError`` when there is none: a cluster has nodes."""
    nodes = json.loads(text)["nodes"]
    if not nodes:
        raise ValueError("the answer has no node")
    return {
        node["name"]: SlurmNode(
            name=node["name"],
            states=frozenset(node["state"]),
            reason=node["reason"],
            reason_by=node["reason_set_by_user"],
            extra=node["extra"],
        )
        for node in nodes
    }


def gpu_indices(detail: str) -> frozenset[int]:
    """Return the GPU indices in what a job holds on one node: ``gpu:h100:3(IDX:0-1,5),fpga(CNT:1)``."""
    found: set[int] = set()
    for name, body in _ITEM.findall(detail):
        if name == "gpu" and body.startswith("IDX:") and body not in {"IDX:", "IDX:N/A"}:
            found.update(int(number) for number in numbers(body.removeprefix("IDX:")))
    return frozenset(found)


def _lighter(value: dict[str, Any]) -> dict[str, Any] | None:
    """Drop the state of single cores: more than nine tenths of the answer."""
    return None if value.keys() == {"index", "status"} else value


def _job(job: Mapping[str, Any]) -> Job:
    states, nodes = frozenset(job["job_state"]), expand(job["nodes"])
    leader = _number(job["het_job_id"])
    sealed = _marker(job["admin_comment"])
    return Job(
        job_id=job["job_id"],
        states=states,
        user=job["user_name"],
        nodes=nodes,
        indices=_indices(states, nodes, job["gres_detail"]),
        marker=sealed,
        unsealed=None if sealed else _marker(job["comment"]),
        submitted=_number(job["submit_time"]),
        started=_number(job["start_time"]),
        ended=_number(job["end_time"]),
        group=leader or job["job_id"],
    )


def _indices(states: frozenset[str], nodes: Sequence[str], details: Sequence[str]) -> dict[str, frozenset[int]]:
    """Pair the nodes with what is held there; nothing is known when they are not as many, or while an epilog runs."""
    if len(nodes) != len(details) or not states.isdisjoint({"COMPLETING", "PENDING"}):
        return {}
    return dict(zip(nodes, map(gpu_indices, details), strict=True))


def _marker(text: str) -> Marker | None:
    """Return the marker in a comment; None for what somebody else wrote."""
    try:
        value = json.loads(text)
        key = Key(str(value["uid"]), int(value["attempt"]))
        return (
            Marker(key=key, gang=str(value["gang"]), cluster=str(value["cluster"])) if "gangbridge" in value else None
        )
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None


def _number(value: Any) -> int:  # noqa: ANN401 - JSON
    """Return the number in 5 or ``{"set": true, "infinite": false, "number": 5}``; 0 when there is none."""
    if isinstance(value, Mapping):
        return int(value["number"]) if value["set"] and not value["infinite"] else 0
    return int(value)
