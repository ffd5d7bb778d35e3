"""What the estimate of step times assumes about a site's links and its typical training job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkModel:
    """Links and the training job that the estimate assumes. Bandwidths are GB/s of one GPU in an all-reduce.

    ``bandwidth`` is inside one domain of a level, ``nic`` where it is not given: an NVLink domain has its own.
    ``oversubscription`` is between domains of a level, 1 or more; where it is not given, 1 at the finest level and
    twice as much at each coarser one. ``tokens`` is per step and model replica; ``overlap`` the part of the data
    parallel all-reduce that hides behind the computation.
    """

    node: float = 360.0
    nic: float = 45.0
    bandwidth: Mapping[str, float] = field(default_factory=dict)
    oversubscription: Mapping[str, float] = field(default_factory=dict)
    latency_us: float = 5.0
    tflops: float = 400.0
    parameters: float = 13e9
    layers: int = 40
    hidden: int = 5120
    tokens: int = 32768
    microbatches: int = 8
    overlap: float = 0.5
    tensor_parallel: int = 8
    pipeline_parallel: int = 1

    def slowdown(self, levels: Sequence[str], depth: int) -> float:
        """Return the oversubscription between domains of ``levels[depth]``."""
        return max(1.0, self.oversubscription.get(levels[depth], 2.0 ** (len(levels) - 1 - depth)))

    def inside(self, levels: Sequence[str], depth: int) -> float:
        """Return the bandwidth in a domain of ``levels[depth]``, for -1 in the fleet; never more than further down."""
        own = self.bandwidth.get(levels[depth], self.nic) if depth >= 0 else self.nic
        return min([own, *(self.bandwidth[level] for level in levels[depth + 1 :] if level in self.bandwidth)])
