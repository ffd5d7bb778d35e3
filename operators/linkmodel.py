"""``spec.topology.linkModel`` of a Fleet: what the step time estimate assumes at this site."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bridge.model.links import LinkModel

_FIELDS = {
    "nodeGBps": "node",
    "nicGBps": "nic",
    "levelGBps": "bandwidth",
    "oversubscription": "oversubscription",
    "latencyMicroseconds": "latency_us",
    "teraflops": "tflops",
    "layers": "layers",
    "hiddenSize": "hidden",
    "tokensPerStep": "tokens",
    "microbatches": "microbatches",
    "tensorParallel": "tensor_parallel",
    "pipelineParallel": "pipeline_parallel",
}


def read_link_model(item: Mapping[str, Any]) -> LinkModel:
    """Return the model; fields that are absent keep their defaults. The CRD has checked types and ranges."""
    values: dict[str, Any] = {ours: item[theirs] for theirs, ours in _FIELDS.items() if theirs in item}
    if "billionParameters" in item:
        values["parameters"] = item["billionParameters"] * 1e9
    if "overlapPercent" in item:
        values["overlap"] = item["overlapPercent"] / 100
    return LinkModel(**values)
