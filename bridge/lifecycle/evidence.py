"""What proves that devices are unused (invariant I5), and what of an attempt is not proven yet."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from bridge.model.hold import GangKey
from bridge.model.kube import ClaimView, PodView
from bridge.model.snapshot import Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Nodes of Kubernetes: the kubelet of a ``ready`` one reports, an admin vouches for a ``fenced`` one."""

    ready: frozenset[str] = frozenset()
    fenced: frozenset[str] = frozenset()

    def is_stopped(self, pod: PodView) -> bool:
        """Return whether it is proven that nothing of the pod runs, and that nothing will."""
        return pod.stopped or pod.node in self.fenced

    def is_awaited(self, pod: PodView) -> bool:
        """Return whether the pod's node is there to tell when the pod has stopped."""
        return pod.node in self.ready

    def frees(self, claim: ClaimView, pod: PodView | None) -> bool:
        """Return whether the devices of a claim, whose pod by name is ``pod``, are proven unused.

        A pod's finalizer is taken off after its claim is freed. So an allocated claim without its pod means that
        somebody else removed the pod, and that its end was seen by nobody.
        """
        if not claim.is_allocated:
            return pod is None or self.is_stopped(pod)
        if is_consumer(pod, claim):
            return pod is not None and self.is_stopped(pod)
        return claim.node in self.fenced


def is_consumer(pod: PodView | None, claim: ClaimView) -> bool:
    """Return whether ``pod``, which has the claim's name, is the one that it was given to.

    Not when it is reserved for another one that had the name before. While kube-scheduler tries again to bind a pod,
    and when we died while freeing the claim, it is reserved for nobody.
    """
    return pod is not None and (pod.uid in claim.reserved_for or not claim.reserved_for)


def read_evidence(snapshot: Snapshot) -> Evidence:
    """Return what the nodes of the snapshot are able to tell."""
    return Evidence(
        ready=frozenset(node.name for node in snapshot.nodes if node.ready),
        fenced=frozenset(node.name for node in snapshot.nodes if node.fenced),
    )


@dataclass(slots=True, kw_only=True)
class Remains:
    """Slurm nodes on which an attempt still has something.

    ``bound`` have a pod that may run, or an allocated claim, as the ``claimed`` ones do; on the ``unproven`` ones a
    container may be running; of those, nobody will ever tell about the ``quarantined`` ones as things are.
    """

    bound: set[str] = field(default_factory=set)
    claimed: set[str] = field(default_factory=set)
    unproven: set[str] = field(default_factory=set)
    quarantined: set[str] = field(default_factory=set)


def find_remains(snapshot: Snapshot, evidence: Evidence) -> Mapping[GangKey, Remains]:
    """Return what is left of every attempt that has anything left, also on nodes that are no longer in Kubernetes."""
    found: dict[GangKey, Remains] = {}
    pods = by_member(snapshot.pods)
    for (uid, attempt, _), pod in pods.items():
        if evidence.is_stopped(pod):
            continue
        remains = found.setdefault(GangKey(uid=uid, attempt=attempt), Remains())
        remains.bound.add(pod.slurm_node)
        if not pod.gated:
            remains.unproven.add(pod.slurm_node)
            if not evidence.is_awaited(pod):
                remains.quarantined.add(pod.slurm_node)
    for claim in snapshot.claims:
        if not claim.gang_uid or not claim.is_allocated:
            continue
        remains = found.setdefault(GangKey(uid=claim.gang_uid, attempt=claim.attempt), Remains())
        remains.bound.add(claim.slurm_node)
        remains.claimed.add(claim.slurm_node)
        namesake = pods.get((claim.gang_uid, claim.attempt, claim.rank))
        if not is_consumer(namesake, claim) and not evidence.frees(claim, namesake):
            remains.unproven.add(claim.slurm_node)
            remains.quarantined.add(claim.slurm_node)
    return found


def by_member(pods: Iterable[PodView]) -> dict[tuple[str, int, int], PodView]:
    """Return pods by (gang uid, attempt, rank)."""
    return {(pod.gang_uid, pod.attempt, pod.rank): pod for pod in pods}
