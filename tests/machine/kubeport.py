"""KubeClient's calls on the store of the fake API server, without HTTP, each at the mercy of a network."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from operators.kube.client import JSON_PATCH, MERGE, Guard
from operators.kube.errors import Expired, KubeError, error_from, unavailable
from operators.kube.resources import Resource
from tests.kube.fakeapi import _as_selected, _selected
from tests.kube.fakepatch import copied, json_patch, merge
from tests.kube.fakerules import Refused
from tests.kube.fakestore import Change, Object, Store
from tests.machine.network import Network


def silence() -> KubeError:
    """Return the error of a call that got no answer."""
    return unavailable("no answer")


class Stream:
    """One open watch. Nothing of the history is told before ``deliver``."""

    def __init__(self, resource: Resource, position: int, selector: str) -> None:
        self.resource = resource
        self.position = position
        self._selector = selector
        self._told: deque[tuple[str, Object]] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._end: Exception | None = None

    def deliver(self, store: Store, most: int | None = None) -> bool:
        """Tell up to ``most`` changes more, in order; return whether anything was told. A broken one tells nothing."""
        if self.is_broken:
            return False
        news = _since(store.history, self.position)
        told = 0
        for change in news:
            if told == most:
                break
            self.position = change.version
            if change.plural == self.resource.plural and (event := _as_selected(change, self._selector)):
                self._told.append((event, change.obj))
                told += 1
        if told:
            self._wake()
        return bool(told)

    @property
    def is_broken(self) -> bool:
        """True until its reader has found out, and opens another."""
        return self._end is not None

    def fail(self, error: Exception) -> None:
        """Break the connection."""
        self._end = error
        self._wake()

    async def next(self) -> tuple[str, Object]:
        """Return the next event that was told."""
        while not self._told:
            if self._end is not None:
                raise self._end
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        return self._told.popleft()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


def _since(history: Sequence[Change], position: int) -> Sequence[Change]:
    """Return the changes after ``position``; versions ascend."""
    start = len(history)
    while start and history[start - 1].version > position:
        start -= 1
    return history[start:]


class KubePort:
    """The methods of ``operators.kube.client.KubeClient``. ``who`` is entered while a call is carried out."""

    def __init__(
        self,
        store: Store,
        network: Network,
        who: Callable[[], AbstractContextManager[None]],
        *,
        deadline_s: float = 15.0,
        guard: Guard | None = None,
    ) -> None:
        self.streams: list[Stream] = []
        self._store = store
        self._network = network
        self._who = who
        self._deadline_s = deadline_s
        self._guard = guard or (lambda _: None)

    async def list(
        self, resource: Resource, namespace: str | None = None, *, label_selector: str = ""
    ) -> tuple[list[Object], str]:
        def work() -> tuple[list[Object], str]:
            items = [
                dict(obj)
                for key, obj in sorted(self._store.objects.items())
                if key[0] == resource.plural and namespace in {None, key[1]} and _selected(obj, label_selector)
            ]
            return items, str(self._store.version)

        found: tuple[list[Object], str] = await self._call(f"list {resource.plural}", work, is_write=False)
        return found

    async def watch(
        self, resource: Resource, *, resource_version: str, label_selector: str = "", **_: object
    ) -> AsyncGenerator[tuple[str, Object], None]:
        if int(resource_version) < self._store.compacted:
            raise Expired(410, "Expired", "too old resource version")
        stream = Stream(resource, int(resource_version), label_selector)
        self.streams.append(stream)
        try:
            while True:
                yield await stream.next()
        finally:
            self.streams.remove(stream)

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> Object:
        key = (resource.plural, namespace or "", name)
        return await self._call(f"get {'/'.join(key)}", lambda: self._store.find(key), is_write=False)

    async def create(self, resource: Resource, obj: Mapping[str, Any], *, dry_run: bool = False) -> Object:
        name = f"create {resource.plural}/{obj['metadata']['name']}"
        sent = copied(dict(obj))
        return await self._call(name, lambda: self._store.create(resource, sent, dry_run=dry_run), is_write=True)

    async def replace(self, resource: Resource, obj: Mapping[str, Any]) -> Object:
        return await self._replace(resource, obj, "")

    async def replace_status(self, resource: Resource, obj: Mapping[str, Any]) -> Object:
        return await self._replace(resource, obj, "status")

    async def patch(
        self,
        resource: Resource,
        name: str,
        patch: Any,
        *,
        namespace: str | None = None,
        content_type: str = MERGE,
        subresource: str = "",
        dry_run: bool = False,
    ) -> Object:
        key = (resource.plural, namespace or "", name)
        change = json_patch if content_type == JSON_PATCH else merge

        def work() -> Object:
            return self._store.modify(key, lambda old: change(old, patch), subresource, dry_run=dry_run)

        return await self._call(f"patch {'/'.join(key)} {subresource}", work, is_write=True)

    async def apply(
        self, resource: Resource, obj: Mapping[str, Any], *, force: bool = False, subresource: str = ""
    ) -> Object:
        meta = obj["metadata"]
        key = (resource.plural, meta.get("namespace", ""), meta["name"])
        sent = copied(dict(obj))

        def work() -> Object:
            if key not in self._store.objects:
                return self._store.create(resource, sent)
            return self._store.modify(key, lambda old: merge(old, sent), subresource)

        return await self._call(f"apply {'/'.join(key)}", work, is_write=True)

    async def delete(
        self,
        resource: Resource,
        name: str,
        *,
        namespace: str | None = None,
        uid: str | None = None,
        resource_version: str | None = None,
        grace_s: int | None = None,
    ) -> Object | None:
        key = (resource.plural, namespace or "", name)
        wanted = {"uid": uid, "resourceVersion": resource_version}
        options: Object = {"preconditions": {field: value for field, value in wanted.items() if value is not None}}
        options["gracePeriodSeconds"] = grace_s

        def work() -> Object | None:
            obj, gone = self._store.delete(key, options)
            return None if gone else obj

        found: Object | None = await self._call(f"delete {'/'.join(key)}", work, is_write=True)
        return found

    def writes(self) -> dict[tuple[str, str], int]:
        return {}

    async def _replace(self, resource: Resource, obj: Mapping[str, Any], subresource: str) -> Object:
        meta = obj["metadata"]
        assert meta.get("resourceVersion"), f"{resource.plural}/{meta['name']}: replace without resourceVersion"
        key = (resource.plural, meta.get("namespace", ""), meta["name"])
        sent = copied(dict(obj))
        return await self._call(
            f"replace {'/'.join(key)} {subresource}",
            lambda: self._store.replace(resource, key, sent, subresource),
            is_write=True,
        )

    async def _call(self, name: str, work: Callable[[], Any], *, is_write: bool) -> Any:
        def carried_out() -> Any:
            with self._who():
                try:
                    return work()
                except Refused as refused:
                    status = {"reason": refused.reason, "message": refused.message}
                    raise error_from(refused.code, status) from None

        if is_write:
            self._guard(name)
        return await self._network.send(name, carried_out, silence, is_write=is_write, deadline_s=self._deadline_s)
