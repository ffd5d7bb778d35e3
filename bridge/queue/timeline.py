"""When devices become free: the known ends of the jobs on each node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from bridge.accounting.devicemap import GPU
from bridge.model.slurm import SlurmJob
from bridge.placement.board import Board, Shape
from bridge.placement.request import NodeCapacity, Placed, Request, Unplaceable
from bridge.placement.search import place_on

NEVER = 1 << 62


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """A placement and the second since the epoch from which it is free: ``now`` unless ``blocked`` says what lacks."""

    placed: Placed
    free_at: int
    blocked: Unplaceable | None = None


class Timeline:
    """What each node of a partition can give now and later; scratch state of one cycle.

    ``free`` is what nodes give this moment and ``total`` what they have; ``completing`` nodes take no job until their
    epilog is done. ``ends`` are the jobs that give something back; ``reserve`` adds the ones that are about to be.
    """

    def __init__(
        self,
        *,
        now: int,
        free: Mapping[str, NodeCapacity],
        total: Mapping[str, NodeCapacity],
        levels: Sequence[str] = (),
        completing: frozenset[str] = frozenset(),
        ends: Sequence[SlurmJob] = (),
    ) -> None:
        self.now = now
        self.board = Board(free.values(), levels)
        self._total = total
        self._completing = completing
        self._ends = list(ends)

    def fits_now(self, request: Request) -> Placed | Unplaceable:
        """Return where ``request`` fits this moment."""
        return place_on(self.board, replace(request, exclude=request.exclude | self._completing))

    def is_free(self, nodes: Sequence[str], request: Request, width: int) -> bool:
        """Return whether each of ``nodes`` takes ``width`` pods of ``request``, at least when its epilog is done."""
        shape = Shape.of(request, width)
        return all(name in self.board.nodes and self.board.fits(name, shape) for name in nodes)

    def earliest(self, request: Request) -> Pin | Unplaceable:
        """Return the first moment at which ``request`` fits, and where; Unplaceable when it never does."""
        first = self.fits_now(request)
        if isinstance(first, Placed):
            return Pin(placed=first, free_at=self.now)
        undo: list[NodeCapacity] = []
        answer, free_at = place_on(self.board, request), self.now
        for end, jobs in _by_end(self._ends, self.now):
            if isinstance(answer, Placed):
                break
            undo += [self._release(name, job) for job in jobs for name in job.gres if name in self.board.nodes]
            answer, free_at = place_on(self.board, request), end
        for node in reversed(undo):
            self.board.put(node)
        return Pin(placed=answer, free_at=free_at, blocked=first) if isinstance(answer, Placed) else answer

    def reserve(self, placed: Placed, request: Request, job: SlurmJob) -> None:
        """Take what ``request`` needs on the nodes of ``placed`` until ``job`` ends."""
        width = placed.pods_per_node
        cpus, memory_mib = width * request.cpus_per_pod, width * request.memory_mib_per_pod
        for name in placed.nodes:
            if name in self.board.nodes:
                self.board.take(name, request.gres.times(width), cpus=cpus, memory_mib=memory_mib)
        self._ends.append(job)

    def _release(self, name: str, job: SlurmJob) -> NodeCapacity:
        """Give back what ``job`` holds on a node, and return what the node gave before.

        A job record has no CPUs and memory by node: the node's total bounds them. Devices without an index never
        counted as used: there is not more than there is.
        """
        node, total = self.board.nodes[name], self._total[name]
        gpus, busy = dict(node.gpus), node.busy_gpus
        for gres in job.gres[name]:
            if gres.name == GPU:
                type_ = gres.type or _most_taken(total, gpus)
                before = gpus.get(type_, 0)
                gpus[type_] = min(before + gres.count, total.gpus.get(type_, 0))
                busy -= gpus[type_] - before
        return self.board.put(
            replace(node, gpus=gpus, busy_gpus=max(0, busy), cpus=total.cpus, memory_mib=total.memory_mib)
        )


def _most_taken(total: NodeCapacity, gpus: Mapping[str, int]) -> str:
    """Return the type that a reservation of any type gives back to."""
    return max(sorted(total.gpus), key=lambda type_: total.gpus[type_] - gpus.get(type_, 0), default="")


def _by_end(jobs: Sequence[SlurmJob], now: int) -> list[tuple[int, list[SlurmJob]]]:
    grouped: dict[int, list[SlurmJob]] = {}
    for job in jobs:
        end = NEVER if job.end_time is None else max(job.end_time, now)
        grouped.setdefault(end, []).append(job)
    return sorted(grouped.items())
