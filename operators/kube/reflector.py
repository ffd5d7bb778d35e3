"""A local copy of one resource type that stays right through lost connections, expired watches and our own writes.

list, replace at once (objects that vanished meanwhile are reported as deleted), watch from there; every failure leads
back to the last version known or to a new list. The server is never believed to say less than it does: a silent
connection is cut after ``inactivity_s``.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import structlog

from operators.kube.client import KubeClient, Object
from operators.kube.errors import Expired, KubeError, TooManyRequests
from operators.kube.resources import Resource
from operators.kube.store import DELETED, Change, Key, Store, version_of

log = structlog.get_logger()

OnChange = Callable[[str, Object], None]
Trim = Callable[[Object], Object]

_SHORT_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Times of one reflector in seconds; pairs are the bounds of a random choice, so that many do not move as one."""

    watch_s: tuple[float, float] = (240.0, 360.0)
    inactivity_s: float = 70.0
    relist_s: tuple[float, float] = (900.0, 1800.0)
    backoff_s: tuple[float, float] = (0.1, 20.0)


class Reflector:
    """The copy. ``objects`` is live: take what you need before the next ``await``.

    ``trim`` cuts what is kept (managedFields always go). ``on_change`` gets every change after it is in ``objects``; it
    must not raise. Own writes are to be passed through ``observe`` and ``forget``, only if they match the selector.
    """

    def __init__(
        self,
        client: KubeClient,
        resource: Resource,
        *,
        namespace: str | None = None,
        label_selector: str = "",
        trim: Trim | None = None,
        on_change: OnChange | None = None,
        pace: Pace | None = None,
    ) -> None:
        self.resource = resource
        self.synced = asyncio.Event()
        self.drift = 0
        """Objects that a routine list showed newer than the watch had: anything but 0 is a missed event."""
        self._client = client
        self._namespace = namespace
        self._label_selector = label_selector
        self._on_change = on_change
        self._pace = pace or Pace()
        self._store = Store(trim)
        self._heard = time.monotonic()

    @property
    def objects(self) -> Mapping[Key, Object]:
        """Return the objects by (namespace, name); a read-only view that changes as the server speaks."""
        return self._store.objects

    def get(self, namespace: str, name: str) -> Object | None:
        """Return one object, or None."""
        return self._store.objects.get((namespace, name))

    def idle_s(self) -> float:
        """Return the seconds since the server last said anything, bookmarks included."""
        return time.monotonic() - self._heard

    def observe(self, obj: Object) -> None:
        """Take the server's answer to a create, replace, patch or apply of ours before its watch event comes."""
        self._report(self._store.observe(obj))

    def forget(self, obj: Mapping[str, Any]) -> None:
        """Take note that a delete of ours removed ``obj`` (matched by uid)."""
        self._report(self._store.forget(obj))

    async def relist(self) -> None:
        """Return when the copy holds everything that was stored before the call. Raises what the list raises."""
        await self._list(is_routine=False)

    async def run(self) -> None:
        """Keep the copy true until cancelled."""
        failures = 0
        must_list = True
        relist_at = 0.0
        while True:
            started = time.monotonic()
            problem: KubeError | None = None
            try:
                if must_list or started >= relist_at:
                    await self._list(is_routine=not must_list)
                    must_list = False
                    relist_at = started + random.uniform(*self._pace.relist_s)  # noqa: S311 - spreads load
                await self._watch()
            except KubeError as raised:
                problem = raised
                must_list = must_list or isinstance(raised, Expired)
            # An end that comes at once, again and again, is a failure in disguise.
            is_short = time.monotonic() - started < _SHORT_S
            failures = failures + 1 if is_short else int(problem is not None)
            if problem:
                self._complain(problem, failures)
            if failures:
                await asyncio.sleep(self._backoff_s(failures, problem))

    async def _list(self, *, is_routine: bool) -> None:
        # NB: the stream may run on while the list is on its way.
        heard_of = self._store.position
        items, version = await self._client.list(self.resource, self._namespace, label_selector=self._label_selector)
        self._heard = time.monotonic()
        changes: list[Change] = []
        if int(version) < heard_of:
            # A consistent read can only be older than the stream when the server's history was restored from a backup.
            log.warning("history_restarted", resource=self.resource.plural, version=version, known=heard_of)
            changes += self._store.restart()
        changes += self._store.replace(items, int(version))
        if is_routine:
            self.drift += sum(event != DELETED and version_of(obj) <= heard_of for event, obj in changes)
        self._report(changes)
        if not self.synced.is_set():
            log.info("reflector_synced", resource=self.resource.plural, objects=len(self.objects))
            self.synced.set()

    async def _watch(self) -> None:
        events = self._client.watch(
            self.resource,
            resource_version=str(self._store.position),
            namespace=self._namespace,
            label_selector=self._label_selector,
            timeout_s=random.uniform(*self._pace.watch_s),  # noqa: S311 - spreads load
            inactivity_s=self._pace.inactivity_s,
        )
        async with aclosing(events):
            async for event, obj in events:
                self._heard = time.monotonic()
                self._report(self._store.apply(event, obj))

    def _report(self, changes: Iterable[Change]) -> None:
        if self._on_change:
            for event, obj in changes:
                self._on_change(event, obj)

    def _backoff_s(self, failures: int, problem: KubeError | None) -> float:
        least, most = self._pace.backoff_s
        wait_s = min(most, least * 2.0 ** min(failures - 1, 16)) * random.uniform(0.5, 1.0)  # noqa: S311 - jitter
        return max(wait_s, problem.retry_after_s) if isinstance(problem, TooManyRequests) else wait_s

    def _complain(self, problem: KubeError, failures: int) -> None:
        # One lost connection is everyday life.
        say = log.debug if failures == 1 else log.warning
        say("watch_failed", resource=self.resource.plural, failures=failures, error=str(problem))
