"""What the API server said, reduced to what decisions need."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from bridge.model.fence import Fence


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Device:
    """One DRA device: unique in the cluster."""

    driver: str
    pool: str
    device: str


class PodPhase(StrEnum):
    """``status.phase`` of a pod."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodView:
    """A pod of a gang. ``exit_code`` is the first failed container's, ``finished_at`` when it ended.

    ``node`` is where it is to run, ``slurm_node`` its name in Slurm. ``stopped`` is evidence: nothing of it runs
    there and nothing ever will. ``held`` says that our finalizer keeps the object, ``grace_s`` is its termination grace
    period.
    """

    namespace: str
    name: str
    uid: str
    gang_uid: str
    attempt: int
    rank: int
    node: str
    slurm_node: str = ""
    phase: PodPhase
    gated: bool
    deleting: bool = False
    stopped: bool = False
    held: bool = False
    grace_s: int = 30
    exit_code: int | None = None
    finished_at: int = 0
    message: str = ""

    @property
    def is_terminal(self) -> bool:
        """True once every container has ended for good."""
        return self.phase in {PodPhase.SUCCEEDED, PodPhase.FAILED}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimView:
    """A ResourceClaim. Gang claims carry ``gang_uid``, mirror claims ``job_id``; a foreign claim neither.

    ``devices`` is empty until the claim is allocated, ``node`` is the Kubernetes node of the allocation, ``slurm_node``
    the name of the node in Slurm of a gang's claim.
    ``reserved_for`` holds the uids of its consumers.
    """

    namespace: str
    name: str
    uid: str
    devices: tuple[Device, ...] = ()
    node: str = ""
    slurm_node: str = ""
    reserved_for: tuple[str, ...] = ()
    deleting: bool = False
    gang_uid: str = ""
    attempt: int = 0
    rank: int = 0
    job_id: int = 0

    @property
    def is_allocated(self) -> bool:
        """True when the claim holds devices."""
        return bool(self.devices)


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolDevice:
    """One device of a pool: its GRES index and type as the slice's attributes give them (None: not given)."""

    name: str
    index: int | None = None
    type: str = ""
    socket: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """A complete pool at its newest generation, on one Kubernetes node. Incomplete pools are not in the snapshot."""

    driver: str
    name: str
    node: str
    generation: int
    devices: tuple[PoolDevice, ...]
    by_index: Mapping[int, tuple[PoolDevice, ...]] = field(init=False, repr=False, compare=False)
    """``devices`` by GRES index; more than one for an index is a fault of the publisher."""

    def __post_init__(self) -> None:
        by_index: dict[int, tuple[PoolDevice, ...]] = {}
        for device in self.devices:
            if device.index is not None:
                by_index[device.index] = (*by_index.get(device.index, ()), device)
        object.__setattr__(self, "by_index", by_index)


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeNode:
    """A Kubernetes node with the label that names its Slurm node.

    ``fenced`` is an admin's word that nothing runs there any more, whatever its kubelet last said.
    """

    name: str
    slurm_node: str
    ready: bool
    unschedulable: bool = False
    tainted: bool = False
    fenced: Fence | None = None
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorView:
    """A GangJob with ``origin: Slurm``. ``digest`` identifies what its spec and status were written from."""

    namespace: str
    name: str
    uid: str
    job_id: int
    submit_time: int
    deleting: bool = False
    has_finalizer: bool = False
    digest: str = ""
