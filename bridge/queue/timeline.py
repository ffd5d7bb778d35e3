"""When devices become free: the known ends of the jobs on each node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from bridge.accounting.devicemap import GPU
from bridge.model.slurm import SlurmJob
from bridge.placement.request import NodeCapacity, Placed, Request, Unplaceable
from bridge.placement.search import place

NEVER = 1 << 62


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """A placement and the second since the epoch from which it is free: ``now`` unless ``blocked`` says what lacks."""

    placed: Placed
    free_at: int
    blocked: Unplaceable | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """What each node can give now and later.

    ``free`` is what nodes give this moment and ``total`` what they have; ``completing`` nodes take no job until their
    epilog is done. ``ends`` are the jobs that give something back, reservations of pending pins among them.
    """

    now: int
    free: Mapping[str, NodeCapacity]
    total: Mapping[str, NodeCapacity]
    completing: frozenset[str] = frozenset()
    ends: Sequence[SlurmJob] = ()

    def earliest(self, request: Request) -> Pin | Unplaceable:
        """Return the first moment at which ``request`` fits, and where; Unplaceable when it never does."""
        first = place(request, [node for name, node in self.free.items() if name not in self.completing])
        if isinstance(first, Placed):
            return Pin(placed=first, free_at=self.now)
        capacity = dict(self.free)
        answer = place(request, capacity.values())
        for end, jobs in _by_end(self.ends, self.now):
            if isinstance(answer, Placed):
                break
            for job in jobs:
                self._release(capacity, job)
            answer = place(request, capacity.values())
            if isinstance(answer, Placed):
                return Pin(placed=answer, free_at=end, blocked=first)
        return Pin(placed=answer, free_at=self.now, blocked=first) if isinstance(answer, Placed) else answer

    def reserve(self, placed: Placed, request: Request, job: SlurmJob) -> Timeline:
        """Return the timeline with ``placed`` taken by ``request`` until ``job`` ends."""
        free = dict(self.free)
        for name in placed.nodes:
            if name in free:
                free[name] = _take(free[name], job, request, placed.pods_per_node)
        return replace(self, free=free, ends=(*self.ends, job))

    def _release(self, capacity: dict[str, NodeCapacity], job: SlurmJob) -> None:
        """Give back what ``job`` holds. A job record has no CPUs and memory by node: the node's total bounds them."""
        for name, held in job.gres.items():
            if name not in capacity:
                continue
            gpus, total = dict(capacity[name].gpus), self.total[name]
            for gres in held:
                if gres.name == GPU:
                    # Devices without an index never counted as used: there is not more than there is.
                    back = gpus.get(gres.type, 0) + gres.count
                    gpus[gres.type] = min(back, total.gpus.get(gres.type, 0))
            capacity[name] = replace(capacity[name], gpus=gpus, cpus=total.cpus, memory_mib=total.memory_mib)


def _take(node: NodeCapacity, job: SlurmJob, request: Request, pods: int) -> NodeCapacity:
    gpus = dict(node.gpus)
    for gres in job.gres.get(node.name, ()):
        gpus[gres.type] = gpus.get(gres.type, 0) - gres.count
    return replace(
        node,
        gpus=gpus,
        cpus=node.cpus - pods * request.cpus_per_pod,
        memory_mib=node.memory_mib - pods * request.memory_mib_per_pod,
    )


def _by_end(jobs: Sequence[SlurmJob], now: int) -> list[tuple[int, list[SlurmJob]]]:
    grouped: dict[int, list[SlurmJob]] = {}
    for job in jobs:
        end = NEVER if job.end_time is None else max(job.end_time, now)
        grouped.setdefault(end, []).append(job)
    return sorted(grouped.items())
