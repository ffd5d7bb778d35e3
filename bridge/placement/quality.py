"""How good a placement is: domains against the optimum, boundaries on the ring of ranks, estimated step time.

The step time is a model of one training step of a dense transformer, good for comparing placements, not for more::

    compute + tensor parallel all-reduces, times (1 + pipeline bubble)
    + the part of the data parallel all-reduce that does not overlap
    + a latency for every domain boundary on the ring

With the defaults of ``LinkModel`` (H100, 13 B parameters) data parallelism across spines oversubscribed 2:1 costs
6 %, tensor parallel groups split over two nodes 70 %. Ranks are tensor parallel first, then data, then pipeline.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from math import gcd

from bridge.model.links import LinkModel
from bridge.placement.request import Placed
from bridge.placement.tree import domain_keys

_GIGA = 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class Quality:
    """Of one placement. ``optimum`` has the fewest domains that any placement has, level by level from coarse to fine;
    ``boundaries`` counts neighbours on the ring of nodes that lie in different domains; ``step_time`` is a ratio to the
    same gang in one finest domain, 1.0 or more.
    """

    domains: Mapping[str, int]
    optimum: Mapping[str, int]
    boundaries: Mapping[str, int]
    step_time: float

    @property
    def is_optimal(self) -> bool:
        """True when no placement has fewer domains."""
        return self.domains == self.optimum

    def describe(self) -> str:
        """Return ``1 spine, 2 racks (optimum 1, 2), step time x1.03``."""
        step_time = f"step time x{self.step_time:.2f}"
        if not self.domains:
            return step_time
        counts = ", ".join(f"{count} {level}{'' if count == 1 else 's'}" for level, count in self.domains.items())
        best = ", ".join(str(self.optimum.get(level, "?")) for level in self.domains)
        return f"{counts} (optimum {best}), {step_time}"


def assess(
    placed: Placed,
    domains: Sequence[Sequence[str]],
    *,
    gpus_per_pod: int,
    gpus_per_node: int,
    model: LinkModel | None = None,
    optimum: Mapping[str, int] | None = None,
) -> Quality:
    """Return the quality of ``placed``.

    ``domains`` has the domain paths of each node of ``placed``, in rank order. Without ``optimum`` the placement is the
    optimum, as it always is for a single gang of identical pods. ``gpus_per_node`` is what the largest node has.
    """
    levels, used = tuple(placed.domains), model or LinkModel()
    keys = [domain_keys(paths, name) for name, paths in zip(placed.nodes, domains, strict=True)]
    ring = _Ring(levels, keys, width=placed.pods_per_node * gpus_per_pod)
    return Quality(
        domains=placed.domains,
        optimum=placed.domains if optimum is None else optimum,
        boundaries={level: ring.boundaries(depth) for depth, level in enumerate(levels)},
        step_time=max(1.0, _step_time(ring, used) / _step_time(_packed(ring, gpus_per_node), used)),
    )


class _Ring:
    """The gang's nodes in rank order, by what tells their domains apart, with ``width`` consecutive GPUs on each."""

    def __init__(self, levels: Sequence[str], domains: Sequence[Sequence[str]], *, width: int) -> None:
        self.levels = levels
        self.width = width
        self.gpus = len(domains) * width
        neighbours = list(pairwise(domains))
        self._before = [
            list(accumulate((one[depth] != other[depth] for one, other in neighbours), initial=0))
            for depth in range(len(levels))
        ]
        self._closing = [domains[-1][depth] != domains[0][depth] for depth in range(len(levels))]

    def boundaries(self, depth: int) -> int:
        """Return how many neighbours lie in different domains of ``levels[depth]``, last and first included."""
        return self._before[depth][-1] + self._closing[depth]

    def bandwidth(self, model: LinkModel, first: int, last: int, share: int) -> float:
        """Return the bandwidth of a group on GPUs ``first`` to ``last`` of the gang, at least ``share`` on each node.

        It leaves a node over as many NICs; an all-reduce puts half of them to use, but never less than one.
        """
        start, end = first // self.width, last // self.width
        if start == end:
            return model.node
        crossed = [depth for depth, before in enumerate(self._before) if before[end] > before[start]]
        # The finest level at which the group is in one domain; -1 when it is in none.
        within = max((depth for depth in range(len(self.levels)) if depth not in crossed), default=-1)
        slowdown = max((model.slowdown(self.levels, depth) for depth in crossed), default=1.0)
        return min(model.node, model.inside(self.levels, within) * max(1.0, share / 2) / slowdown)


def _packed(ring: _Ring, gpus_per_node: int) -> _Ring:
    """Return the same gang on as few nodes of one finest domain as it divides over."""
    most = min(ring.gpus, max(ring.width, gpus_per_node))
    width = next(width for width in range(most, 0, -1) if ring.gpus % width == 0)
    return _Ring(ring.levels, [("one",) * len(ring.levels)] * (ring.gpus // width), width=width)


def _step_time(ring: _Ring, model: LinkModel) -> float:
    """Return the seconds of one step. The slowest group of each kind decides."""
    tensor = gcd(model.tensor_parallel, ring.gpus)
    pipeline = gcd(model.pipeline_parallel, ring.gpus // tensor)
    data = ring.gpus // (tensor * pipeline)
    compute = 6 * model.parameters * model.tokens / (tensor * pipeline * model.tflops * 1e12)
    # Four all-reduces of the activations per layer, of 2 bytes each; a ring moves 2 (n - 1) / n of the message.
    activations = 4 * model.layers / pipeline * model.tokens * model.hidden * 2
    tensor_time = activations * 2 * (tensor - 1) / tensor / (_GIGA * _tensor_bandwidth(ring, model, tensor))
    gradients = 2 * model.parameters / (tensor * pipeline)
    data_time = gradients * 2 * (data - 1) / data / (_GIGA * _data_bandwidth(ring, model, tensor, data))
    bubble = (pipeline - 1) / model.microbatches
    latency = model.latency_us * 1e-6 * sum(ring.boundaries(depth) for depth in range(len(ring.levels)))
    return (compute + tensor_time) * (1 + bubble) + (1 - model.overlap) * data_time + latency


def _tensor_bandwidth(ring: _Ring, model: LinkModel, size: int) -> float:
    """Return the bandwidth of the slowest group of ``size`` consecutive GPUs."""
    width = ring.width
    if width % size == 0:
        return model.node
    found = []
    for first in range(0, ring.gpus, size):
        # What the group has on its first node and on its last; the nodes between are full.
        head, tail = width - first % width, (first + size - 1) % width + 1
        found.append(ring.bandwidth(model, first, first + size - 1, min(head, tail)))
    return min(found)


def _data_bandwidth(ring: _Ring, model: LinkModel, stride: int, size: int) -> float:
    """Return the bandwidth of the slowest group of ``size`` GPUs that are ``stride`` apart."""
    span, share = stride * size, max(1, ring.width // stride)
    return min(ring.bandwidth(model, first, first + span - 1, share) for first in range(0, ring.gpus, span))
