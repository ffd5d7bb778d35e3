"""Plain records, as the worker sends them and as the CLI's JSON is reduced to, made into the model's values.

A record has the keys of ``JobRecord`` or ``NodeRecord``, named as in slurm.h; what is empty may be left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypedDict

from bridge.accounting.gres import configured_gres, parse_gres
from bridge.errors import ParseError
from bridge.model.gres import Gres
from bridge.model.hold import ExitStatus, Marker
from bridge.model.hostlist import expand
from bridge.model.slurm import JobState, SlurmJob, SlurmNode, SlurmView


class JobRecord(TypedDict, total=False):
    """One job; ``exit_code`` is a wait(2) status, ``nodes`` and ``required_nodes`` are host lists."""

    job_id: int
    state: str
    completing: bool
    reason: str
    name: str
    user: str
    account: str
    partition: str
    qos: str
    nodes: str
    required_nodes: str
    gres_detail: list[str]
    tres_per_node: str
    tres_per_job: str
    tres_per_socket: str
    tres_per_task: str
    submit_time: int
    start_time: int
    end_time: int
    time_limit: int
    exit_code: int
    restart_cnt: int
    priority: int
    array_job_id: int
    array_task_id: int
    array_task_str: str
    het_job_id: int
    het_job_offset: int
    admin_comment: str
    comment: str
    work_dir: str


class NodeRecord(TypedDict, total=False):
    """One node; memory in MiB."""

    name: str
    hostname: str
    state: list[str]
    reason: str
    extra: str
    cpus: int
    alloc_cpus: int
    real_memory: int
    alloc_memory: int
    gres: str
    gres_used: str


def view_of(
    jobs: Iterable[JobRecord], nodes: Iterable[NodeRecord], partitions: Mapping[str, str], taken_at: float
) -> SlurmView:
    """Return one poll; ``partitions`` has the host list of each partition. ``ParseError`` if a record is unreadable."""
    members: dict[str, set[str]] = {}
    for partition, hosts in partitions.items():
        for host in expand(hosts):
            members.setdefault(host, set()).add(partition)
    known = {record["name"]: node_of(record, members.get(record["name"], ())) for record in nodes}
    return SlurmView(jobs={record["job_id"]: job_of(record) for record in jobs}, nodes=known, taken_at=taken_at)


def job_of(record: JobRecord) -> SlurmJob:
    """Return the job."""
    nodes = expand(record.get("nodes", ""))
    has_array = bool(record.get("array_job_id"))
    has_leader = bool(record.get("het_job_id"))
    return SlurmJob(
        job_id=record["job_id"],
        state=_state(record["state"]),
        completing=record.get("completing", False),
        reason=record.get("reason", ""),
        name=record.get("name", ""),
        user=record["user"],
        account=record.get("account", ""),
        partition=record.get("partition", ""),
        qos=record.get("qos", ""),
        nodes=nodes,
        required_nodes=expand(record.get("required_nodes", "")),
        gres=_gres_by_node(nodes, record.get("gres_detail", [])),
        gres_requested=_requested(record),
        submit_time=record.get("submit_time") or None,
        start_time=record.get("start_time") or None,
        end_time=record.get("end_time") or None,
        time_limit_min=record.get("time_limit"),
        exit_status=_exit_status(record.get("exit_code", 0)),
        restart_count=record.get("restart_cnt", 0),
        priority=record.get("priority", 0),
        array_job_id=record["array_job_id"] if has_array else None,
        array_task=_array_task(record) if has_array else "",
        het_job_id=record["het_job_id"] if has_leader else None,
        het_offset=record.get("het_job_offset", 0) if has_leader else 0,
        marker=_marker(record),
        is_sealed=bool(record.get("admin_comment")),
        work_dir=record.get("work_dir", ""),
    )


def node_of(record: NodeRecord, partitions: Iterable[str]) -> SlurmNode:
    """Return the node."""
    gres, sockets = configured_gres(record.get("gres", ""), record.get("gres_used", ""))
    return SlurmNode(
        name=record["name"],
        states=frozenset(record["state"]),
        hostname=record.get("hostname", ""),
        reason=record.get("reason", ""),
        extra=record.get("extra", ""),
        cpus=record.get("cpus", 0),
        cpus_allocated=record.get("alloc_cpus", 0),
        memory_mib=record.get("real_memory", 0),
        memory_allocated_mib=record.get("alloc_memory", 0),
        gres=gres,
        sockets=sockets,
        partitions=frozenset(partitions),
    )


def _state(text: str) -> JobState:
    try:
        return JobState(text)
    except ValueError:
        raise ParseError(text, "unknown job state") from None


def _gres_by_node(nodes: Sequence[str], details: Sequence[str]) -> dict[str, tuple[Gres, ...]]:
    """Pair each node with its detail; lists of different length cannot be paired, and then nothing has a known index.

    slurmctld gives no details for a completing job, and of its nodes only those whose epilog has not ended.
    """
    if not details:
        return dict.fromkeys(nodes, ())
    if len(details) == len(nodes):
        return dict(zip(nodes, map(parse_gres, details), strict=True))
    items = {(item.name, item.type): item for detail in details for item in parse_gres(detail)}
    unknown = tuple(Gres(name=item.name, type=item.type, count=item.count) for item in items.values())
    return dict.fromkeys(nodes, unknown)


def _requested(record: JobRecord) -> str:
    """Return the first of the ways to ask for GRES that this job used."""
    asked = (
        record.get("tres_per_node", ""),
        record.get("tres_per_job", ""),
        record.get("tres_per_socket", ""),
        record.get("tres_per_task", ""),
    )
    return next((text for text in asked if "gres" in text), "")


def _exit_status(wait_status: int) -> ExitStatus:
    return ExitStatus(code=(wait_status >> 8) & 0xFF, signal=wait_status & 0x7F)


def _array_task(record: JobRecord) -> str:
    return str(record["array_task_id"]) if "array_task_id" in record else record.get("array_task_str", "")


def _marker(record: JobRecord) -> Marker | None:
    """Return the marker. ``comment`` is the user's to change and counts only until ``admin_comment`` is set."""
    return Marker.loads(record.get("admin_comment", "") or record.get("comment", ""))
