"""The gang: what a researcher asked for, and what the bridge has said of it so far."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from bridge.errors import SpecError
from bridge.model.gres import GresRequest
from bridge.model.hold import GangKey


class Phase(StrEnum):
    """The derived print column; the conditions are the truth."""

    PENDING = "Pending"
    QUEUED = "Queued"
    STARTING = "Starting"
    RUNNING = "Running"
    COMPLETING = "Completing"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    TERMINATING = "Terminating"


class ConditionType(StrEnum):
    """Conditions of a GangJob, in the order in which they become true."""

    ACCEPTED = "Accepted"
    ALLOCATED = "Allocated"
    RUNNING = "Running"
    FINISHED = "Finished"


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """``replicas`` pods of one shape; ``gres``, ``milli_cpu`` and ``memory_mib`` are per pod (0: not requested)."""

    name: str
    replicas: int
    pods_per_node: int | None = None
    gres: GresRequest
    milli_cpu: int = 0
    memory_mib: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """``size`` consecutive ranks share one domain of ``level``: a tensor-parallel group, an NVLink block."""

    size: int
    level: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GangSpec:
    """A checked GangJob spec. ``time_limit_min`` None takes the queue's default."""

    queue: str
    role: Role
    time_limit_min: int | None = None
    required_level: str | None = None
    preferred_level: str | None = None
    segment: Segment | None = None
    max_restarts: int = 0

    @property
    def gpus(self) -> int:
        """Devices that the whole gang asks for."""
        return self.role.replicas * self.role.gres.count


class Result(StrEnum):
    """How an attempt ended."""

    SUCCEEDED = "Succeeded"
    POD_FAILED = "PodFailed"
    POD_LOST = "PodLost"
    CANCELLED = "Cancelled"
    TIME_LIMIT = "TimeLimit"
    PREEMPTED = "Preempted"
    NODE_FAILED = "NodeFailed"
    HOLD_LOST = "HoldLost"
    SHAPE_CHANGED = "ShapeChanged"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The end of ``attempt``, recorded before anything is undone, so that a restart finishes the same end."""

    attempt: int
    result: Result
    exit_code: int = 0
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A Kubernetes condition; ``since`` is lastTransitionTime in seconds since the epoch."""

    type: ConditionType
    status: bool
    reason: str
    message: str = ""
    since: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldStatus:
    """The current attempt's hold, as last seen; ``nodes`` is a hostlist.

    ``end_time`` is when it ended or, while it runs, will have to (seconds since the epoch); None while it waits.
    """

    job_id: int
    state: str
    nodes: str = ""
    user: str = ""
    account: str = ""
    partition: str = ""
    end_time: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GangStatus:
    """Everything that survives of the bridge's work on a gang in Kubernetes. Times: seconds since the epoch."""

    attempt: int = 1
    restarts: int = 0
    phase: Phase = Phase.PENDING
    reason: str = ""
    message: str = ""
    conditions: tuple[Condition, ...] = ()
    outcome: Outcome | None = None
    hold: HoldStatus | None = None
    placement: str = ""
    quality: str = ""
    ready_pods: int = 0
    pods: str = ""
    gpus: int = 0
    exit_code: int | None = None
    start_time: int | None = None
    completion_time: int | None = None
    estimated_start_time: int | None = None
    observed_generation: int = 0

    def condition(self, type_: ConditionType) -> Condition | None:
        """Return the condition of that type, if it was ever set."""
        return next((condition for condition in self.conditions if condition.type is type_), None)

    def is_true(self, type_: ConditionType) -> bool:
        """Return whether the condition is set and true."""
        condition = self.condition(type_)
        return condition is not None and condition.status

    def with_condition(self, new: Condition) -> GangStatus:
        """Return the status with ``new`` in place; ``since`` stays where the condition's status did not change."""
        old = self.condition(new.type)
        if old is not None and old.status == new.status:
            new = replace(new, since=old.since)
        by_type = {condition.type: condition for condition in self.conditions} | {new.type: new}
        return replace(self, conditions=tuple(by_type[type_] for type_ in ConditionType if type_ in by_type))


@dataclass(frozen=True, slots=True, kw_only=True)
class Gang:
    """One GangJob of a user. ``spec`` is the reason it cannot run where it could not be read."""

    namespace: str
    name: str
    uid: str
    generation: int = 1
    created: int = 0
    deleting: bool = False
    has_finalizer: bool = False
    spec: GangSpec | SpecError
    status: GangStatus = GangStatus()

    @property
    def key(self) -> GangKey:
        """The idempotency key of the current attempt."""
        return GangKey(uid=self.uid, attempt=self.status.attempt)
