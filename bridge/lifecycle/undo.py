"""Taking an attempt apart, each member by itself: pod, then claim, then the finalizer that kept the pod as evidence."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from bridge.lifecycle.actions import Action, DeletePod, FreeClaim, ReleasePod, Stages
from bridge.lifecycle.evidence import Evidence, by_member, is_consumer
from bridge.model.kube import ClaimView, PodView


@dataclass(frozen=True, slots=True, kw_only=True)
class Undoing:
    """The next ``stages``, and how much is ``left``: ``waiting`` of it goes by itself, the rest only on evidence.

    ``unproven`` are the Kubernetes nodes of that rest.
    """

    stages: Stages
    left: int
    waiting: int
    unproven: tuple[str, ...]

    @property
    def is_over(self) -> bool:
        """True when nothing is left but what only an admin, or a node that comes back, can prove gone."""
        return not self.stages and not self.waiting


def undo(
    pods: Iterable[PodView], claims: Iterable[ClaimView], evidence: Evidence, *, keep_terminal: bool = False
) -> Undoing:
    """Return how to get rid of pods and their claims; with ``keep_terminal`` ended pods stay, for their logs."""
    pods = tuple(pods)
    members = by_member(pods)
    first: list[Action] = []
    last: list[Action] = []
    bound: set[tuple[str, int, int]] = set()
    lost: list[ClaimView] = []
    for claim in claims:
        key = (claim.gang_uid, claim.attempt, claim.rank)
        if evidence.frees(claim, members.get(key)):
            first.append(FreeClaim(claim=claim))
        elif claim.is_allocated and not is_consumer(members.get(key), claim):
            lost.append(claim)
        else:
            bound.add(key)
    unproven = {claim.node for claim in lost}
    left, waiting = len(lost), 0
    for key, pod in members.items():
        is_wanted = keep_terminal and pod.is_terminal and not pod.deleting
        if not is_wanted and not pod.deleting:
            first.append(DeletePod(pod=pod))
        if pod.held and evidence.is_stopped(pod) and key not in bound:
            last.append(ReleasePod(pod=pod))
        if is_wanted and not pod.held and key not in bound:
            continue
        left += 1
        if evidence.is_stopped(pod) or evidence.is_awaited(pod):
            waiting += 1
        else:
            unproven.add(pod.node)
    stages = tuple(stage for stage in (first, last) if stage)
    return Undoing(stages=stages, left=left, waiting=waiting, unproven=tuple(sorted(unproven)))
