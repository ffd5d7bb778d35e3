"""Effects, as values. Each one is idempotent: carrying it out twice, or after a crash, does no harm."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bridge.model.gang import Gang, GangStatus
from bridge.model.hold import ExitStatus, HoldRequest
from bridge.model.kube import ClaimView, Device, MirrorView, PodView, PoolDevice
from bridge.model.slurm import SlurmJob


@dataclass(frozen=True, slots=True, kw_only=True)
class AddFinalizer:
    """Keep the GangJob until its devices are free."""

    gang: Gang


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveFinalizer:
    """Let the GangJob go: nothing of it is left outside."""

    gang: Gang


@dataclass(frozen=True, slots=True, kw_only=True)
class DryRunPod:
    """Ask the API server whether the role's pod would be admitted; nothing is stored."""

    gang: Gang


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitHold:
    """Submit the hold of the current attempt."""

    gang: Gang
    request: HoldRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class RepinHold:
    """Move the pin of a pending hold."""

    gang: Gang
    job_id: int
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompleteHold:
    """End a running hold with the gang's true status."""

    gang: Gang
    job_id: int
    status: ExitStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelHold:
    """Cancel a hold that is pending, a duplicate, or whose gang was deleted."""

    job_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One pod of an attempt, fully decided: where it runs, which rank it is, which devices it gets."""

    rank: int
    kube_node: str
    slurm_node: str
    node_rank: int
    local_rank: int
    devices: tuple[Device, ...]
    device_class: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Roster:
    """The members of one attempt in rank order, and the hold that owns their devices."""

    job_id: int
    nodes: tuple[str, ...]
    pods_per_node: int
    members: tuple[Member, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateService:
    """Create the headless service of the gang."""

    gang: Gang


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatePod:
    """Create a member's pod: gated, pinned to its node."""

    gang: Gang
    roster: Roster
    member: Member


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateClaim:
    """Create a member's claim, not yet allocated."""

    gang: Gang
    member: Member


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocateClaim:
    """Write a claim's devices and its one consumer, a pod or a mirror, in one step."""

    claim: ClaimView
    node: str
    devices: tuple[Device, ...]
    consumer: PodView | MirrorView


@dataclass(frozen=True, slots=True, kw_only=True)
class UngatePod:
    """Hand the pod to kube-scheduler."""

    pod: PodView


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletePod:
    """Delete a pod with its own grace period."""

    pod: PodView


@dataclass(frozen=True, slots=True, kw_only=True)
class FreeClaim:
    """Drop a claim's finalizers and the object, which frees its devices."""

    claim: ClaimView


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleasePod:
    """Take our finalizer off a pod that is proven to have stopped, and whose claim is freed."""

    pod: PodView


@dataclass(frozen=True, slots=True, kw_only=True)
class SetGuard:
    """Say in ``Extra`` of Slurm nodes for which holds their epilog is to wait."""

    nodes: tuple[str, ...]
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainNodes:
    """Let Slurm start nothing new on nodes whose devices are not proven unused."""

    nodes: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeNodes:
    """Undo a drain of ours: nodes that by now have another reason are left."""

    nodes: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteMirror:
    """Create or update the image of an sbatch job; ``existing`` is None for a new one."""

    job: SlurmJob
    digest: str
    existing: MirrorView | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteMirror:
    """Remove the image of a job that Slurm no longer knows."""

    mirror: MirrorView


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateMirrorClaim:
    """Create the claim that shows a job's devices on one node as taken."""

    mirror: MirrorView
    job: SlurmJob
    name: str
    device_class: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishPool:
    """Publish the slices of a node without a vendor driver."""

    kube_node: str
    slurm_node: str
    generation: int
    devices: tuple[PoolDevice, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaintNode:
    """Keep pods that gangbridge does not place off a managed node."""

    kube_node: str


Action = (
    AddFinalizer
    | RemoveFinalizer
    | DryRunPod
    | SubmitHold
    | RepinHold
    | CompleteHold
    | CancelHold
    | CreateService
    | CreatePod
    | CreateClaim
    | AllocateClaim
    | UngatePod
    | DeletePod
    | FreeClaim
    | ReleasePod
    | SetGuard
    | DrainNodes
    | ResumeNodes
    | WriteMirror
    | DeleteMirror
    | CreateMirrorClaim
    | PublishPool
    | TaintNode
)

Stages = tuple[Sequence[Action], ...]
"""Stages run in order, the actions of one side by side; a failure ends the sequence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What to do for one gang now: ``stages`` first, then ``status`` (None: leave it as it is)."""

    gang: Gang
    stages: Stages = ()
    status: GangStatus | None = None
