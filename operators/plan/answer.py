"""Where a gang would run, or why not: the operator's own checks and allocator, asked once and without consequences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from bridge.errors import SpecError
from bridge.lifecycle.admission import Refused, admit
from bridge.lifecycle.fleetview import FleetView
from bridge.model.fleet import QueueSpec
from bridge.model.gang import Gang
from bridge.model.links import LinkModel
from bridge.placement.board import Board
from bridge.placement.fragmentation import Fragmentation, measure
from bridge.placement.quality import Quality, assess
from bridge.placement.request import NodeCapacity, Placed, Request, Unplaceable


class Result(StrEnum):
    """The four kinds of answers."""

    PLACED = "Placed"
    LATER = "Later"
    UNPLACEABLE = "Unplaceable"
    REFUSED = "Refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A gang and everything that decides about it; ``problems`` are what the sources of the fleet have wrong."""

    gang: Gang
    view: FleetView
    queues: Mapping[str, QueueSpec]
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    model: LinkModel = field(default_factory=LinkModel)
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """``nodes`` is the capacity before and ``after`` with the gang (the same unless it starts now), by node name.

    ``placed`` is where the gang runs, now or from ``free_at`` (seconds since the epoch) on; ``reason`` and ``message``
    say why not now. ``domain`` is the path of the domain that came nearest.
    """

    gang: Gang
    result: Result
    levels: tuple[str, ...]
    nodes: Mapping[str, NodeCapacity]
    after: Mapping[str, NodeCapacity]
    before_shape: Fragmentation
    after_shape: Fragmentation
    gpus_per_pod: int = 0
    gpu_type: str = ""
    placed: Placed | None = None
    free_at: int | None = None
    quality: Quality | None = None
    reason: str = ""
    message: str = ""
    domain: str = ""
    problems: tuple[str, ...] = ()

    @property
    def starts_now(self) -> bool:
        """True when the gang would start at once."""
        return self.result is Result.PLACED

    def ranks(self, number: int) -> range:
        """Return the ranks of the pods on the ``number``-th node of the placement."""
        width = self.placed.pods_per_node if self.placed else 0
        return range(number * width, (number + 1) * width)


def answer(question: Question) -> Answer:
    """Answer ``question``. Gangs that wait for nodes themselves are not counted, as they hold none."""
    gang, view = question.gang, question.view
    verdict = admit(gang, view, question.queues, question.namespaces)
    if isinstance(verdict, Refused):
        return _negative(question, _everything(view), Result.REFUSED, str(verdict.reason), verdict.message)
    timeline = view.timeline(verdict.queue.partition)
    nodes = dict(timeline.board.nodes)
    pin = timeline.earliest(verdict.request)
    if isinstance(pin, Unplaceable):
        return _negative(question, nodes, Result.UNPLACEABLE, str(pin.shortage), pin.message, pin.domain)
    return _positive(question, nodes, verdict.request, pin.placed, pin.blocked, pin.free_at)


def _everything(view: FleetView) -> dict[str, NodeCapacity]:
    """Return every node of the fleet as a timeline has it: what is closed has nothing free."""
    closed = {name: node.closed for name, node in view.nodes.items()}
    return {
        name: replace(node, gpus={}, busy_gpus=0, closed=closed[name]) if closed[name] else node
        for name, node in view.free.items()
    }


def _positive(
    question: Question,
    nodes: Mapping[str, NodeCapacity],
    request: Request,
    placed: Placed,
    blocked: Unplaceable | None,
    free_at: int,
) -> Answer:
    levels, gres = request.levels, request.gres
    board = Board(nodes.values(), levels)
    before = measure(nodes.values(), levels)
    if blocked is None:
        for name in placed.nodes:
            board.take(name, gres.times(placed.pods_per_node))
    return Answer(
        gang=question.gang,
        result=Result.PLACED if blocked is None else Result.LATER,
        levels=levels,
        nodes=nodes,
        after=board.nodes,
        before_shape=before,
        after_shape=measure(board.nodes.values(), levels),
        gpus_per_pod=gres.count,
        gpu_type=gres.type,
        placed=placed,
        free_at=None if blocked is None else free_at,
        quality=assess(
            placed,
            [nodes[name].domains for name in placed.nodes],
            gpus_per_pod=gres.count,
            gpus_per_node=max(gres.count, board.largest(gres.type)),
            model=question.model,
        ),
        reason="" if blocked is None else str(blocked.shortage),
        message="" if blocked is None else blocked.message,
        domain="" if blocked is None else blocked.domain,
        problems=question.problems,
    )


def _negative(
    question: Question,
    nodes: Mapping[str, NodeCapacity],
    result: Result,
    reason: str,
    message: str,
    domain: str = "",
) -> Answer:
    levels, spec = question.view.fleet.levels, question.gang.spec
    shape = measure(nodes.values(), levels)
    gres = None if isinstance(spec, SpecError) else spec.role.gres
    return Answer(
        gang=question.gang,
        result=result,
        levels=levels,
        nodes=nodes,
        after=nodes,
        before_shape=shape,
        after_shape=shape,
        gpus_per_pod=gres.count if gres else 0,
        gpu_type=gres.type if gres else "",
        reason=reason,
        message=message,
        domain=domain,
        problems=question.problems,
    )
