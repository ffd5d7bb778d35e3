"""Jobs and nodes of the in-memory slurmctld, and how a node gives devices."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from bridge.model.gres import Gres, GresRequest
from bridge.model.hold import ExitStatus, Marker
from bridge.model.slurm import JobState, SlurmJob, SlurmNode, may_drain, may_resume
from bridge.wellknown import GUARD

_MEMORY_PER_CPU = 1000
"""MiB that a job gets for each CPU when it asks for none (DefMemPerCPU)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What a job takes of each of its nodes; ``memory_mib`` 0 means by its CPUs."""

    gres: tuple[GresRequest, ...]
    cpus: int
    memory_mib: int

    @property
    def memory(self) -> int:
        """MiB that it really takes."""
        return self.memory_mib or self.cpus * _MEMORY_PER_CPU


def h100(count: int = 8) -> tuple[Gres, ...]:
    """Return the GRES of a node with ``count`` tracked H100s."""
    return (Gres(name="gpu", type="h100", count=count, indices=tuple(range(count))),)


@dataclass(slots=True, kw_only=True)
class FakeNode:
    """One node. ``states`` are the flags that somebody set; a count-only GRES has ``indices=None``."""

    name: str
    gres: tuple[Gres, ...] = field(default_factory=h100)
    cpus: int = 64
    memory_mib: int = 512_000
    partitions: frozenset[str] = frozenset({"gpu"})
    external: bool = False
    states: frozenset[str] = frozenset()
    reason: str = ""
    extra: str = ""

    @property
    def is_open(self) -> bool:
        """True when slurmctld would start a job here, given room."""
        return SlurmNode(name=self.name, states=self.states).is_schedulable

    def guards(self, job_id: int) -> bool:
        """Return whether the epilog of this job has to wait here."""
        return self.extra.startswith(GUARD) and str(job_id) in self.extra.removeprefix(GUARD).split(",")

    def drain(self, reason: str) -> None:
        """Close it, unless somebody else has."""
        if may_drain(self.states, self.reason):
            self.states, self.reason = self.states | {"DRAIN"}, reason

    def resume(self, reason: str) -> None:
        """Lift the drain with this reason."""
        if may_resume(self.states, self.reason, reason):
            self.states -= {"DRAIN"}
            self.reason = self.reason if "DOWN" in self.states else ""

    def seen(self, jobs: Sequence[FakeJob]) -> SlurmNode:
        """Return the record with ``jobs`` on it."""
        running = [job for job in jobs if job.is_running]
        cpus = sum(job.shape.cpus for job in running)
        base = "IDLE" if not cpus else "ALLOCATED" if cpus >= self.cpus else "MIXED"
        states = set(self.states) if self.states & {"DOWN", "FUTURE"} else {base, *self.states}
        if self.external:
            states |= {"EXTERNAL", "DYNAMIC_NORM"}
        if any(self.name in job.epilogs for job in jobs):
            states.add("COMPLETING")
        return SlurmNode(
            name=self.name,
            states=frozenset(states),
            hostname=self.name,
            reason=self.reason,
            extra=self.extra,
            cpus=self.cpus,
            cpus_allocated=cpus,
            memory_mib=self.memory_mib,
            memory_allocated_mib=sum(job.shape.memory for job in running),
            gres=self.gres,
            partitions=self.partitions,
        )


@dataclass(slots=True, kw_only=True, eq=False)
class FakeJob:
    """One job. ``pin`` is empty for jobs that go anywhere; ``grants`` is what it holds, or held, by node."""

    name: str
    user: str
    account: str
    partition: str
    qos: str
    shape: Shape
    count: int
    pin: tuple[str, ...]
    time_limit_min: int
    priority: int = 1000
    marker: Marker | None = None
    external: bool = False
    work_dir: str = "/"
    job_id: int = 0
    state: JobState = JobState.PENDING
    submit_time: float = 0.0
    start_time: float | None = None
    end_time: float | None = None
    exit_status: ExitStatus = field(default_factory=ExitStatus)
    grants: dict[str, tuple[Gres, ...]] = field(default_factory=dict)
    epilogs: tuple[str, ...] = ()

    @property
    def is_running(self) -> bool:
        """True while its devices are its own."""
        return self.state is JobState.RUNNING

    @property
    def holds_nodes(self) -> bool:
        """True until its last epilog has ended."""
        return self.is_running or bool(self.epilogs)

    @property
    def limit_at(self) -> float:
        """When its time is over; only for a running job."""
        return (self.start_time or 0.0) + self.time_limit_min * 60

    def is_forgotten(self, before: float) -> bool:
        """Return whether it ended so long ago that slurmctld has dropped the record."""
        return self.end_time is not None and not self.epilogs and self.end_time < before

    def start(self, now: float, grants: dict[str, tuple[Gres, ...]]) -> None:
        """Begin to run with these devices."""
        self.state, self.start_time, self.grants = JobState.RUNNING, now, grants

    def stop(self, now: float, state: JobState, status: ExitStatus) -> None:
        """End."""
        self.state, self.end_time, self.exit_status = state, now, status

    def seen(self) -> SlurmJob:
        """Return the record as slurmctld would show it."""
        nodes = self.epilogs or tuple(self.grants)
        return SlurmJob(
            job_id=self.job_id,
            state=self.state,
            completing=bool(self.epilogs),
            reason="Resources" if self.state is JobState.PENDING else "None",
            name=self.name,
            user=self.user,
            account=self.account,
            partition=self.partition,
            qos=self.qos,
            nodes=nodes,
            required_nodes=self.pin,
            gres={name: self.grants[name] if self.is_running else () for name in nodes},
            gres_requested=",".join(f"gres/{gres}" for gres in self.shape.gres),
            submit_time=int(self.submit_time),
            start_time=None if self.start_time is None else int(self.start_time),
            end_time=int(self.limit_at) if self.is_running else None if self.end_time is None else int(self.end_time),
            time_limit_min=self.time_limit_min,
            exit_status=self.exit_status,
            priority=self.priority,
            marker=self.marker,
            work_dir=self.work_dir,
        )


def grant(node: FakeNode, shape: Shape, jobs: Iterable[FakeJob]) -> tuple[Gres, ...] | None:
    """Return what ``node`` would give beside ``jobs``, at the lowest free indices, or None when it has no room."""
    running = list(jobs)
    if sum(job.shape.cpus for job in running) + shape.cpus > node.cpus:
        return None
    if sum(job.shape.memory for job in running) + shape.memory > node.memory_mib:
        return None
    given: list[Gres] = []
    for request in shape.gres:
        taken = [gres for job in running for gres in job.grants[node.name]] + given
        part = _grant_one(node.gres, request, taken)
        if part is None:
            return None
        given.append(part)
    return tuple(given)


def _grant_one(configured: Iterable[Gres], request: GresRequest, taken: Sequence[Gres]) -> Gres | None:
    for gres in configured:
        if gres.name != request.name or request.type not in {"", gres.type}:
            continue
        same = [item for item in taken if (item.name, item.type) == (gres.name, gres.type)]
        if gres.count - sum(item.count for item in same) < request.count:
            continue
        indices = None
        if gres.indices is not None:
            used = {index for item in same for index in item.indices or ()}
            indices = tuple(index for index in gres.indices if index not in used)[: request.count]
        return Gres(name=gres.name, type=gres.type, count=request.count, indices=indices)
    return None
