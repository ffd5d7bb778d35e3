"""Kubernetes events for what people want to see in ``kubectl describe``."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import structlog

from bridge import wellknown
from bridge.errors import BridgeError
from bridge.model.gang import Gang, GangStatus, Phase
from operators.kube.client import KubeClient
from operators.kube.resources import EVENTS
from operators.status import timestamp

log = structlog.get_logger()

_WARNINGS = {Phase.FAILED, Phase.PENDING}


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
        task = asyncio.create_task(self._write(gang, status))
        self._writing.add(task)
        task.add_done_callback(self._writing.discard)

    async def settled(self) -> None:
        """Return when every event so far was written or lost."""
        await asyncio.gather(*self._writing)

    async def _write(self, gang: Gang, status: GangStatus) -> None:
        try:
            await self._client.create(EVENTS, _event(gang, status))
        except BridgeError as error:
            log.debug("event_lost", gang=f"{gang.namespace}/{gang.name}", error=str(error))


def _event(gang: Gang, status: GangStatus) -> dict[str, Any]:
    now = time.time()
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{gang.name[:200]}.{time.time_ns():x}", "namespace": gang.namespace},
        "involvedObject": {
            "apiVersion": wellknown.API_VERSION,
            "kind": "GangJob",
            "namespace": gang.namespace,
            "name": gang.name,
            "uid": gang.uid,
        },
        "type": "Warning" if status.phase in _WARNINGS else "Normal",
        "reason": status.reason or str(status.phase),
        "message": status.message or str(status.phase),
        "source": {"component": wellknown.FIELD_MANAGER},
        "reportingComponent": wellknown.FIELD_MANAGER,
        "firstTimestamp": timestamp(int(now)),
        "lastTimestamp": timestamp(int(now)),
        "count": 1,
    }
