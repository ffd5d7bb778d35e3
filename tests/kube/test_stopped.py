"""What a pod's object proves. The statuses are those of kubelet 1.37 and of pod garbage collection."""

from __future__ import annotations

from typing import Any

import pytest

from operators.kube.stopped import is_stopped

RUNS = {"name": "train", "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}
ENDED = {"name": "train", "state": {"terminated": {"exitCode": 143}}}
ENDED_BY_KWOK = {"name": "train", "state": {"running": None, "terminated": {"exitCode": 143}}}
WAITS = {"name": "train", "state": {"waiting": {"reason": "ContainerCreating"}}}
BY_GC = {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC"}
BY_TAINT = {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager"}


def pod(*, node: str = "n1", deleted: bool = False, **status: Any) -> dict[str, Any]:
    meta = {"name": "p"} | ({"deletionTimestamp": "2026-01-01T00:00:00Z"} if deleted else {})
    return {"metadata": meta, "spec": {"nodeName": node} if node else {}, "status": status}


@pytest.mark.parametrize(
    ("seen", "proven"),
    [
        pytest.param(pod(phase="Running", containerStatuses=[RUNS]), False, id="runs"),
        pytest.param(pod(phase="Running", containerStatuses=[RUNS], deleted=True), False, id="terminating"),
        pytest.param(pod(phase="Succeeded", containerStatuses=[ENDED]), True, id="succeeded"),
        pytest.param(pod(phase="Failed", containerStatuses=[ENDED], deleted=True), True, id="terminated"),
        pytest.param(pod(phase="Failed", containerStatuses=[ENDED_BY_KWOK]), True, id="null states are none"),
        pytest.param(pod(phase="Failed", containerStatuses=[ENDED, RUNS]), False, id="one container runs"),
        pytest.param(
            pod(phase="Failed", containerStatuses=[ENDED], initContainerStatuses=[RUNS]), False, id="a sidecar runs"
        ),
        pytest.param(
            pod(phase="Failed", containerStatuses=[ENDED], ephemeralContainerStatuses=[RUNS]), False, id="kubectl debug"
        ),
        pytest.param(pod(phase="Failed", reason="UnexpectedAdmissionError"), True, id="refused by its kubelet"),
        pytest.param(pod(phase="Failed", conditions=[BY_GC]), False, id="said by garbage collection"),
        pytest.param(pod(phase="Failed", containerStatuses=[WAITS], conditions=[BY_GC]), False, id="likewise, bound"),
        pytest.param(
            pod(phase="Failed", containerStatuses=[ENDED], conditions=[BY_TAINT], deleted=True), True, id="evicted"
        ),
        pytest.param(pod(phase="Unknown", deleted=True), False, id="unknown"),
        pytest.param(pod(phase="Pending", deleted=True), False, id="bound, not yet seen by its kubelet"),
        pytest.param(pod(node="", phase="Pending", deleted=True), True, id="never bound, and never will be"),
        pytest.param(pod(node="", phase="Pending"), False, id="may be bound any moment"),
    ],
)
def test_a_pod_is_proven_stopped(seen: dict[str, Any], proven: bool) -> None:
    assert is_stopped(seen) is proven
