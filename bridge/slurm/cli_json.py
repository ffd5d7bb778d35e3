"""``squeue --json`` and ``scontrol show nodes --json`` reduced to records (data parsers v0.0.40 to v0.0.45)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

from bridge.model.slurm import JobState
from bridge.slurm.records import JobRecord, NodeRecord

_STATES = frozenset(JobState)
_JOB_TEXTS = (
    "name",
    "account",
    "partition",
    "qos",
    "nodes",
    "required_nodes",
    "tres_per_node",
    "tres_per_job",
    "tres_per_socket",
    "tres_per_task",
    "admin_comment",
    "comment",
)
_JOB_NUMBERS = (
    "submit_time",
    "start_time",
    "end_time",
    "restart_cnt",
    "priority",
    "array_job_id",
    "array_task_id",
    "het_job_id",
    "het_job_offset",
    "time_limit",
)


def job_record(job: Mapping[str, Any]) -> JobRecord:
    """Return the record of one element of ``jobs``. ``KeyError`` when a field that every version has is missing."""
    states = job["job_state"]
    record: dict[str, Any] = {key: job[key] for key in _JOB_TEXTS if job[key]}
    record |= {key: number for key in _JOB_NUMBERS if (number := _number(job[key])) is not None}
    record["job_id"] = job["job_id"]
    record["user"] = job["user_name"]
    record["state"] = next((state for state in states if state in _STATES), "+".join(states))
    record["completing"] = "COMPLETING" in states
    record["reason"] = job["state_reason"]
    record["work_dir"] = job["current_working_directory"]
    record["array_task_str"] = job["array_task_string"]
    record["gres_detail"] = job["gres_detail"]
    code, signal = job["exit_code"]["return_code"], job["exit_code"]["signal"]["id"]
    record["exit_code"] = (_number(code) or 0) << 8 | (_number(signal) or 0)
    return cast("JobRecord", record)


def node_record(node: Mapping[str, Any]) -> NodeRecord:
    """Return the record of one element of ``nodes``."""
    return NodeRecord(
        name=node["name"],
        hostname=node["hostname"],
        state=node["state"],
        reason=node["reason"],
        extra=node["extra"],
        cpus=node["effective_cpus"],
        alloc_cpus=node["alloc_cpus"],
        real_memory=node["real_memory"],
        alloc_memory=node["alloc_memory"],
        gres=node["gres"],
        gres_used=node["gres_used"],
    )


def taken_at(answer: Mapping[str, Any]) -> float:
    """Return slurmctld's clock when it packed this answer."""
    return float(answer["last_update"]["number"])


def partition_members(nodes: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return the host list of each partition."""
    members: dict[str, list[str]] = {}
    for node in nodes:
        for partition in node["partitions"]:
            members.setdefault(partition, []).append(node["name"])
    return {partition: ",".join(names) for partition, names in members.items()}


def _number(value: Any) -> int | None:  # noqa: ANN401 (JSON)
    """Return the number in 5 or ``{"set": true, "infinite": false, "number": 5}``; None when unset or infinite."""
    if isinstance(value, Mapping):
        return int(value["number"]) if value["set"] and not value["infinite"] else None
    return int(value)
