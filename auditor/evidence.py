"""What both servers said at one time, as far as the rules need it. Frozen values without any judgement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from bridge import wellknown

_TERMINAL = frozenset({"Succeeded", "Failed"})


class Key(NamedTuple):
    """One try of a gang."""

    uid: str
    attempt: int


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A device as Slurm names it: node and GRES index."""

    node: str
    index: int


class Device(NamedTuple):
    """A device as Kubernetes names it."""

    driver: str
    pool: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Marker:
    """What a hold says of itself; ``cluster`` is the Kubernetes cluster that it belongs to."""

    key: Key
    gang: str
    cluster: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A Slurm job. ``indices`` has the GPU indices that it holds on every node for which slurmctld shows them.

    It shows none while a job is completing; ``nodes`` are then those whose epilog has not ended. ``marker`` stands in
    admin_comment, which users cannot write; ``unsealed`` only in comment. Times are slurmctld's, 0 for none.
    """

    job_id: int
    states: frozenset[str]
    user: str
    nodes: tuple[str, ...] = ()
    indices: Mapping[str, frozenset[int]]
    marker: Marker | None = None
    unsealed: Marker | None = None
    submitted: int = 0
    started: int = 0
    ended: int = 0
    group: int = 0
    """The leader of its heterogeneous job, else itself."""

    @property
    def is_completing(self) -> bool:
        """True while an epilog runs."""
        return "COMPLETING" in self.states

    @property
    def is_running(self) -> bool:
        """True while it has devices of its own, and not only an epilog."""
        return not self.states.isdisjoint({"RUNNING", "SUSPENDED"})

    @property
    def is_live(self) -> bool:
        """True until it has ended and left its nodes."""
        return self.is_running or self.is_completing or "PENDING" in self.states

    def holds(self, place: Place) -> bool | None:
        """Return whether it holds a device; None where slurmctld does not say which ones it still has."""
        if place.node in self.indices:
            return place.index in self.indices[place.node]
        return None if (self.is_running or self.is_completing) and place.node in self.nodes else False


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmNode:
    """A node as Slurm shows it."""

    name: str
    states: frozenset[str]
    reason: str = ""
    reason_by: str = ""
    extra: str = ""

    @property
    def is_fenced(self) -> bool:
        """True until somebody resumes it: a drain, whose reason is ours or was there before. DOWN may end by itself."""
        return any(state.startswith(("DRAIN", "FAIL")) for state in self.states)

    @property
    def is_ours_to_resume(self) -> bool:
        """True while the reason is one of gangbridge's."""
        return self.reason.startswith(wellknown.DRAIN_REASON)

    @property
    def has_slurmd(self) -> bool:
        """False for ``State=EXTERNAL``: no epilog, and so no guard."""
        return "EXTERNAL" not in self.states

    @property
    def guarded(self) -> frozenset[str]:
        """Return the job ids in the guard."""
        if not self.extra.startswith(wellknown.GUARD):
            return frozenset()
        return frozenset(self.extra.removeprefix(wellknown.GUARD).split(","))


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeNode:
    """A managed Node. ``is_fenced`` is an admin's word that nothing runs there: annotation, or out-of-service taint."""

    name: str
    slurm_name: str
    is_fenced: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Consumer:
    """One entry of ``reservedFor``; ``resource`` is its plural."""

    resource: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A ResourceClaim. ``devices`` leaves out what is only watched (adminAccess).

    ``node`` is the one that its node selector names, "" when that has another form. ``key`` is set for a gang's claim,
    ``job_id`` for a mirror's.
    """

    namespace: str
    name: str
    uid: str
    created: int = 0
    is_deleting: bool = False
    is_ours: bool = False
    key: Key | None = None
    job_id: int = 0
    is_allocated: bool = False
    devices: tuple[Device, ...] = ()
    node: str = ""
    has_timestamp: bool = False
    is_protected: bool = False
    reserved_for: tuple[Consumer, ...] = ()
    managers: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """A pod; ``key`` is None for one that is no gang's. ``delete_by`` is when it is to be gone, None if it may stay."""

    namespace: str
    name: str
    uid: str
    created: int = 0
    delete_by: int | None = None
    key: Key | None = None
    job_id: int = 0
    node: str = ""
    phase: str = "Pending"
    is_gated: bool = False
    has_running_container: bool = False
    ended_unasked: bool = False
    """Its phase was set without asking kubelet (pod garbage collection)."""
    managers: frozenset[str] = frozenset()

    @property
    def is_stopped(self) -> bool:
        """True when it is proven that nothing of it runs or will."""
        if not self.node:
            # kube-scheduler binds no pod that is being deleted.
            return self.delete_by is not None
        return self.phase in _TERMINAL and not self.has_running_container and not self.ended_unasked


@dataclass(frozen=True, slots=True, kw_only=True)
class Gang:
    """A GangJob. ``finished`` is when it was over, None before; mirrors have a ``job_id``."""

    namespace: str
    name: str
    uid: str
    attempt: int = 1
    is_deleting: bool = False
    finished: int | None = None
    job_id: int = 0


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """One reading of both servers. ``slurm_now`` and ``kube_now`` are their own clocks; ``gangs`` are no mirrors."""

    cluster: str
    slurm_now: int
    kube_now: int
    jobs: Mapping[int, Job]
    slurm_nodes: Mapping[str, SlurmNode]
    kube_nodes: Mapping[str, KubeNode]
    places: Mapping[Device, Place]
    """Which index each device of a managed node is."""
    claims: Sequence[Claim]
    pods: Sequence[Pod]
    gangs: Mapping[str, Gang]
    mirrors: Mapping[str, Gang]

    @cached_property
    def holds(self) -> Mapping[Key, tuple[Job, ...]]:
        """Return the live holds of this cluster by key, oldest first.

        A marker that is not sealed counts for a gang that exists: we may have died before sealing it.
        """
        found: dict[Key, tuple[Job, ...]] = {}
        for _, job in sorted(self.jobs.items()):
            marker = job.marker or job.unsealed
            if marker is None or marker.cluster != self.cluster or not job.is_live:
                continue
            if job.marker is not None or marker.key.uid in self.gangs:
                found[marker.key] = (*found.get(marker.key, ()), job)
        return found

    @cached_property
    def hold_ids(self) -> frozenset[int]:
        """Return the job ids of all live holds."""
        return frozenset(job.job_id for jobs in self.holds.values() for job in jobs)

    @cached_property
    def claims_of(self) -> Mapping[Key, tuple[Claim, ...]]:
        """Return the gangs' claims by key."""
        found: dict[Key, tuple[Claim, ...]] = {}
        for claim in self.claims:
            if claim.key is not None:
                found[claim.key] = (*found.get(claim.key, ()), claim)
        return found

    @cached_property
    def pods_of(self) -> Mapping[Key, tuple[Pod, ...]]:
        """Return the gangs' pods by key."""
        found: dict[Key, tuple[Pod, ...]] = {}
        for pod in self.pods:
            if pod.key is not None:
                found[pod.key] = (*found.get(pod.key, ()), pod)
        return found

    @cached_property
    def devices(self) -> Mapping[Place, Device]:
        """Return which device each index is."""
        return {place: device for device, place in self.places.items()}

    @cached_property
    def claims_on(self) -> Mapping[Device, tuple[Claim, ...]]:
        """Return the allocated claims of every device."""
        found: dict[Device, tuple[Claim, ...]] = {}
        for claim in self.claims:
            for device in dict.fromkeys(claim.devices):
                found[device] = (*found.get(device, ()), claim)
        return found

    def reserved(self, pod: Pod) -> tuple[Claim, ...]:
        """Return the allocated claims of the pod's gang that are reserved for it."""
        mine = self.claims_of.get(pod.key, ()) if pod.key is not None else ()
        return tuple(c for c in mine if c.is_allocated and any(each.uid == pod.uid for each in c.reserved_for))

    def uncovered(self, key: Key, claim: Claim) -> list[Place]:
        """Return the devices of a gang's claim that Slurm holds for no job of ``key`` and keeps behind no fence."""
        places = [self.places[device] for device in claim.devices if device in self.places]
        holds = self.holds.get(key, ())
        return [p for p in places if not self.is_fenced(p.node) and all(job.holds(p) is False for job in holds)]

    def is_fenced(self, slurm_node: str) -> bool:
        """Return whether Slurm can give nobody a device of the node."""
        node = self.slurm_nodes.get(slurm_node)
        return node is not None and node.is_fenced

    def may_run(self, pod: Pod) -> bool:
        """Return whether anything of the pod may run on a node: bound, not proven stopped, no admin's word on it."""
        node = self.kube_nodes.get(pod.node)
        return bool(pod.node) and not pod.is_stopped and not (node is not None and node.is_fenced)
