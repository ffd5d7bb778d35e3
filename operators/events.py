"""Kubernetes events for what people want to see in ``kubectl describe``."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any

import structlog

from auditor.violation import Violation
from bridge import wellknown
from bridge.errors import BridgeError
from bridge.lifecycle.brake import Brake
from bridge.model.gang import Gang, GangStatus, Phase
from operators.kube.client import KubeClient
from operators.kube.resources import EVENTS
from operators.status import timestamp

log = structlog.get_logger()

_WARNINGS = {Phase.FAILED, Phase.PENDING}
_MESSAGE_MAX = 1024


class Recorder:
    """Writes an event when a gang's phase or reason changes. Losing one is no harm: the conditions are the truth."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client
        self._writing: set[asyncio.Task[None]] = set()

    def gang_changed(self, gang: Gang, status: GangStatus) -> None:
        """Record the change from ``gang.status`` to ``status``, if it is one that a person would want to know.

        Nobody waits for it: a gang's next step is worth more than the note on the last one.
        """
        old = gang.status
        if (old.phase, old.reason) == (status.phase, status.reason):
            return
        self._record(_gang_event(gang, status))

    def violation_found(self, fleet: Mapping[str, Any], violation: Violation) -> None:
        """Record on the Fleet that an invariant is broken."""
        self._record(_fleet_event(fleet, "InvariantBroken", f"{violation.invariant} {violation.sentence}"))

    def braked(self, fleet: Mapping[str, Any], brake: Brake) -> None:
        """Record on the Fleet that nothing more is begun or taken for ended."""
        self._record(_fleet_event(fleet, "TooMuchLost", brake.message))

    async def settled(self) -> None:
        """Return when every event so far was written or lost."""
        await asyncio.gather(*self._writing)

    def _record(self, event: dict[str, Any]) -> None:
        task = asyncio.create_task(self._write(event))
        self._writing.add(task)
        task.add_done_callback(self._writing.discard)

    async def _write(self, event: dict[str, Any]) -> None:
        try:
            await self._client.create(EVENTS, event)
        except BridgeError as error:
            log.debug("event_lost", event_name=event["metadata"]["name"], error=str(error))


def _gang_event(gang: Gang, status: GangStatus) -> dict[str, Any]:
    return _event(
        {"kind": "GangJob", "namespace": gang.namespace, "name": gang.name, "uid": gang.uid},
        namespace=gang.namespace,
        type_="Warning" if status.phase in _WARNINGS else "Normal",
        reason=status.reason or str(status.phase),
        message=status.message or str(status.phase),
    )


def _fleet_event(fleet: Mapping[str, Any], reason: str, message: str) -> dict[str, Any]:
    meta = fleet["metadata"]
    return _event(
        {"kind": "Fleet", "name": meta["name"], "uid": meta["uid"]},
        # Where kubectl describe looks for events of objects without a namespace.
        namespace="default",
        type_="Warning",
        reason=reason,
        message=message[:_MESSAGE_MAX],
    )


def _event(about: dict[str, str], *, namespace: str, type_: str, reason: str, message: str) -> dict[str, Any]:
    now = time.time()
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{about['name'][:200]}.{time.time_ns():x}", "namespace": namespace},
        "involvedObject": {"apiVersion": wellknown.API_VERSION, **about},
        "type": type_,
        "reason": reason,
        "message": message,
        "source": {"component": wellknown.FIELD_MANAGER},
        "reportingComponent": wellknown.FIELD_MANAGER,
        "firstTimestamp": timestamp(int(now)),
        "lastTimestamp": timestamp(int(now)),
        "count": 1,
    }
