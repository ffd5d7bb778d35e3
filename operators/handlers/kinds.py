"""GangJob, GangQueue and Fleet events. Level-triggered: no diffs, no annotations, no per-object tasks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import kopf

from bridge import wellknown

Take = Callable[[str, str, dict[str, Any]], None]
"""Called with the plural of the kind, the type of the event (ADDED, MODIFIED, DELETED) and the object."""

_PLURALS = ("gangjobs", "gangqueues", "fleets")


def build_registry(take: Take) -> kopf.OperatorRegistry:
    """Return the handlers of one operator process; every event goes to ``take``."""
    registry = kopf.OperatorRegistry()
    kopf.on.login(registry=registry, id="service-account", retries=1)(kopf.login_with_service_account)
    kopf.on.login(registry=registry, id="kubeconfig", retries=1)(kopf.login_with_kubeconfig)
    for plural in _PLURALS:
        _follow(registry, take, plural)
    return registry


def _follow(registry: kopf.OperatorRegistry, take: Take, plural: str) -> None:
    @kopf.on.event(wellknown.GROUP, wellknown.VERSION, plural, registry=registry, id=plural)
    async def seen(event: kopf.RawEvent, **_: Any) -> None:  # noqa: ANN401 - kopf passes whatever it has
        # The first list comes without a type.
        take(plural, event["type"] or "ADDED", dict(event["object"]))


def build_settings() -> kopf.OperatorSettings:
    """Return kopf's settings: its finalizers and annotations stay unused because only events are handled."""
    settings = kopf.OperatorSettings()
    settings.watching.server_timeout = 300
    settings.watching.client_timeout = 310
    settings.watching.connect_timeout = 10
    settings.watching.reconnect_backoff = 1
    settings.networking.request_timeout = 30
    settings.peering.standalone = True
    settings.scanning.disabled = True
    settings.process.ultimate_exiting_timeout = 25
    return settings
