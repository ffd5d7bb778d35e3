"""What slurmctld said, as values: jobs and nodes of one poll."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from bridge.model.gres import Gres
from bridge.model.hold import ExitStatus, Marker
from bridge.wellknown import DRAIN_REASON


class JobState(StrEnum):
    """Base state of a job (squeue(1), JOB STATE CODES); flags such as COMPLETING are fields of the job."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    SUSPENDED = "SUSPENDED"
    COMPLETED = "COMPLETED"
    CANCELLED = "CANCELLED"
    FAILED = "FAILED"
    TIMEOUT = "TIMEOUT"
    NODE_FAIL = "NODE_FAIL"
    PREEMPTED = "PREEMPTED"
    BOOT_FAIL = "BOOT_FAIL"
    DEADLINE = "DEADLINE"
    OUT_OF_MEMORY = "OUT_OF_MEMORY"


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmJob:
    """One job record. Times are seconds since the epoch; ``None`` where Slurm has none.

    ``gres`` has, for every node that the job holds, what it holds there. ``required_nodes`` is the pin.
    ``marker`` is sealed when it stands in ``admin_comment``, which users cannot write, and not in ``comment`` alone.
    ``gres_requested`` is the request as typed (``gres/gpu:h100:2`` per node, job or task), for pending jobs.
    ``work_dir`` is its working directory, ``/`` for every hold; its owner cannot change it once the job runs.
    """

    job_id: int
    state: JobState
    completing: bool = False
    reason: str = ""
    name: str = ""
    user: str
    account: str = ""
    partition: str = ""
    qos: str = ""
    nodes: tuple[str, ...] = ()
    required_nodes: tuple[str, ...] = ()
    gres: Mapping[str, tuple[Gres, ...]] = field(default_factory=dict)
    gres_requested: str = ""
    submit_time: int | None = None
    start_time: int | None = None
    end_time: int | None = None
    time_limit_min: int | None = None
    exit_status: ExitStatus = field(default_factory=ExitStatus)
    restart_count: int = 0
    priority: int = 0
    array_job_id: int | None = None
    array_task: str = ""
    het_job_id: int | None = None
    het_offset: int = 0
    marker: Marker | None = None
    is_sealed: bool = True
    work_dir: str = ""

    @property
    def holds_devices(self) -> bool:
        """True while the job's devices are not free: running, suspended, or its epilog not done."""
        return self.completing or self.state in {JobState.RUNNING, JobState.SUSPENDED}

    @property
    def is_live(self) -> bool:
        """True until the job has ended and left its nodes."""
        return self.holds_devices or self.state is JobState.PENDING


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmNode:
    """One node record. ``states`` holds the base state and every flag, upper case (``{"IDLE", "DRAIN"}``).

    ``gres`` is what is configured, with ``indices`` for the devices that slurmctld tracks one by one; ``sockets`` maps
    a tracked index of ``gpu`` to its socket where Slurm says so. ``extra`` is a text that only admins can write.
    """

    name: str
    states: frozenset[str]
    hostname: str = ""
    reason: str = ""
    extra: str = ""
    cpus: int = 0
    cpus_allocated: int = 0
    memory_mib: int = 0
    memory_allocated_mib: int = 0
    gres: tuple[Gres, ...] = ()
    sockets: Mapping[int, int] = field(default_factory=dict)
    partitions: frozenset[str] = frozenset()

    @property
    def is_external(self) -> bool:
        """True for nodes without slurmd (``State=EXTERNAL``), which run external jobs only."""
        return "EXTERNAL" in self.states

    @property
    def is_drained(self) -> bool:
        """True when Slurm starts nothing new here until somebody resumes the node."""
        return not self.states.isdisjoint({"DRAIN", "DRAINING", "DRAINED"})

    @property
    def is_schedulable(self) -> bool:
        """True when Slurm would start a job here now, given room."""
        return not self.states & _CLOSED

    @property
    def is_closed(self) -> bool:
        """True when it takes somebody's word to open the node: drained, failing, or DOWN by an admin.

        There is nothing left for us to drain: it would change nothing, or somebody else's reason.
        """
        return not may_drain(self.states, self.reason)


def may_drain(states: Collection[str], reason: str) -> bool:
    """Return whether a node may be drained: not if it is drained or failing already, or DOWN by somebody's word (I8).

    A node that slurmctld itself has set DOWN may come back without asking (ReturnToService): it may be drained.
    """
    if "DRAIN" in states or "FAIL" in states:
        return False
    return "DOWN" not in states or reason in {"", _NOT_RESPONDING} or reason.startswith(DRAIN_REASON)


def may_resume(states: Collection[str], reason: str, wanted: str) -> bool:
    """Return whether the node's drain is the one with the reason ``wanted``."""
    return "DRAIN" in states and reason == wanted


_NOT_RESPONDING = "Not responding"
"""slurmctld's own reason."""

_CLOSED = frozenset(
    [
        "DOWN",
        "DRAIN",
        "DRAINING",
        "DRAINED",
        "FAIL",
        "FAILING",
        "ERROR",
        "FUTURE",
        "UNKNOWN",
        "MAINT",
        "MAINTENANCE",
        "NOT_RESPONDING",
        "INVALID_REG",
        "INVALID",
        "BLOCKED",
        "COMPLETING",
        "POWERED_DOWN",
        "POWERING_DOWN",
        "POWERING_UP",
        "POWER_DOWN",
        "REBOOT_ISSUED",
        "REBOOT_REQUESTED",
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmView:
    """One poll of slurmctld: nodes and jobs, ended ones too until MinJobAge.

    ``taken_at`` is slurmctld's own clock (epoch seconds), as are all times in the records.
    """

    jobs: Mapping[int, SlurmJob]
    nodes: Mapping[str, SlurmNode]
    taken_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmInfo:
    """Who answered: ``version`` (``26.05.5``), cluster name, and what the adapter is able to do."""

    version: str
    cluster: str
    adapter: str
    exact_exit_status: bool = True
    """False when a hold can only be cancelled, never completed with an exit code (CLI adapter)."""
