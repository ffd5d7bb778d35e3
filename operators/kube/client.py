"""The one way to the API server: raw JSON objects, a deadline per call, errors by name.

Nothing is retried here and nothing is throttled by rate; a semaphore bounds how many calls are open at once.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Self

import aiohttp
from prometheus_client import CollectorRegistry

from bridge import wellknown
from operators.kube.connection import Connection, load_connection
from operators.kube.errors import error_from, unavailable
from operators.kube.resources import Resource
from operators.kube.traffic import READS, Traffic

Object = dict[str, Any]
Guard = Callable[[str], None]

MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
_APPLY = "application/apply-patch+yaml"
_JSON = "application/json"
_PAGE = 500
_NO_ANSWER = (aiohttp.ClientError, TimeoutError, OSError)


class KubeClient:
    """Calls to one API server. Each may raise a ``KubeError``; a write that raises ``KubeUnavailable`` is ambiguous.

    ``concurrency`` bounds open calls (watches not counted), ``deadline_s`` each of them from the moment it is sent.
    ``guard`` is called with verb and resource right before a write is sent; what it raises keeps the write from being.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        concurrency: int = 32,
        deadline_s: float = 15.0,
        registry: CollectorRegistry | None = None,
        guard: Guard | None = None,
    ) -> None:
        self.traffic = Traffic(registry)
        self._connection = connection
        self._guard = guard
        self._deadline_s = deadline_s
        self._slots = asyncio.Semaphore(concurrency)
        self._session: aiohttp.ClientSession | None = None

    @classmethod
    async def connect(
        cls,
        kubeconfig: str | None = None,
        context: str | None = None,
        *,
        concurrency: int = 32,
        deadline_s: float = 15.0,
        registry: CollectorRegistry | None = None,
        guard: Guard | None = None,
    ) -> Self:
        """Return a client for ``kubeconfig``, or for the pod's service account without one."""
        connection = await load_connection(kubeconfig, context)
        return cls(connection, concurrency=concurrency, deadline_s=deadline_s, registry=registry, guard=guard)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections."""
        if self._session:
            await self._session.close()
            self._session = None

    def writes(self) -> dict[tuple[str, str], int]:
        """Return the writes so far by (verb, resource); see ``Traffic``."""
        return self.traffic.writes()

    async def list(
        self, resource: Resource, namespace: str | None = None, *, label_selector: str = ""
    ) -> tuple[list[Object], str]:
        """Return all objects and the resource version of that consistent read; a watch goes on from there."""
        query = {"limit": str(_PAGE)} | ({"labelSelector": label_selector} if label_selector else {})
        items: list[Object] = []
        while True:
            page = await self._call("list", resource, resource.path(namespace), query=query)
            items += page.get("items") or []
            token = page["metadata"].get("continue")
            if not token:
                break
            query["continue"] = token
        for item in items:
            # Lists of typed objects leave these out of each item.
            item.setdefault("apiVersion", resource.api_version)
            item.setdefault("kind", resource.kind)
        return items, str(page["metadata"]["resourceVersion"])

    async def watch(
        self,
        resource: Resource,
        *,
        resource_version: str,
        namespace: str | None = None,
        label_selector: str = "",
        timeout_s: float = 300.0,
        inactivity_s: float = 70.0,
    ) -> AsyncGenerator[tuple[str, Object], None]:
        """Yield (type, object) after ``resource_version``, BOOKMARK included, until the server ends the watch.

        Use within ``contextlib.aclosing`` when it may be left early.

        Raises ``Expired`` when the version is too old and ``KubeUnavailable`` when the connection breaks or nothing,
        not even a bookmark, comes for ``inactivity_s``.
        """
        query = {"watch": "1", "allowWatchBookmarks": "true", "resourceVersion": resource_version}
        query["timeoutSeconds"] = str(max(1, int(timeout_s)))
        if label_selector:
            query["labelSelector"] = label_selector
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=self._deadline_s, sock_read=inactivity_s)
        try:
            async with await self._send("GET", resource.path(namespace), query=query, timeout=timeout) as answer:
                self.traffic.count("watch", resource.plural, answer.status)
                await _raise_for(answer)
                try:
                    async for line in _lines(answer):
                        event = json.loads(line)
                        if event["type"] == "ERROR":
                            raise error_from(int(event["object"].get("code") or 500), event["object"])
                        yield event["type"], event["object"]
                finally:
                    _cut(answer)
        except _NO_ANSWER as problem:
            raise unavailable(problem) from problem
        except ValueError as problem:
            raise unavailable(f"watch of {resource.plural} is not JSON: {problem}") from problem

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> Object:
        """Return the object; a quorum read."""
        return await self._call("get", resource, resource.path(namespace, name))

    async def create(self, resource: Resource, obj: Mapping[str, Any], *, dry_run: bool = False) -> Object:
        """Create ``obj`` and return it as stored. The server drops ``status`` of types with that subresource."""
        path = resource.path(obj["metadata"].get("namespace"))
        return await self._call("create", resource, path, body=obj, query=_write_query(dry_run=dry_run))

    async def replace(self, resource: Resource, obj: Mapping[str, Any]) -> Object:
        """Replace all but the status, if the object is still at ``obj``'s resource version, else ``Conflict``."""
        return await self._replace(resource, obj, "")

    async def replace_status(self, resource: Resource, obj: Mapping[str, Any]) -> Object:
        """Replace the status alone, if the object is still at ``obj``'s resource version, else ``Conflict``."""
        return await self._replace(resource, obj, "status")

    async def patch(
        self,
        resource: Resource,
        name: str,
        patch: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        *,
        namespace: str | None = None,
        content_type: str = MERGE,
        subresource: str = "",
        dry_run: bool = False,
    ) -> Object:
        """Patch one object and return it. A list needs ``JSON_PATCH``, whose failed ``test`` is ``Invalid``."""
        path = resource.path(namespace, name, subresource)
        query = _write_query(dry_run=dry_run)
        return await self._call(
            "patch", resource, path, body=patch, query=query, content_type=content_type, subresource=subresource
        )

    async def apply(
        self, resource: Resource, obj: Mapping[str, Any], *, force: bool = False, subresource: str = ""
    ) -> Object:
        """Server-side apply ``obj`` as the project's field manager; ``Conflict`` when another manager owns a field."""
        meta = obj["metadata"]
        path = resource.path(meta.get("namespace"), meta["name"], subresource)
        query = _write_query() | ({"force": "true"} if force else {})
        return await self._call(
            "apply", resource, path, body=obj, query=query, content_type=_APPLY, subresource=subresource
        )

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
        """Delete one object: return it while finalizers or its grace period keep it, None when it is gone.

        ``uid`` and ``resource_version`` are preconditions (``Conflict``).
        """
        preconditions = {"uid": uid, "resourceVersion": resource_version}
        options: Object = {"kind": "DeleteOptions", "apiVersion": "v1"}
        options["preconditions"] = {key: value for key, value in preconditions.items() if value is not None}
        options["gracePeriodSeconds"] = grace_s
        body = {key: value for key, value in options.items() if value not in (None, {})}
        answer = await self._call("delete", resource, resource.path(namespace, name), body=body)
        # NB: a pod that is deleted at once comes back as an object too, with a grace period of 0.
        stays = answer.get("kind") != "Status" and _is_held(answer["metadata"])
        return answer if stays else None

    async def _replace(self, resource: Resource, obj: Mapping[str, Any], subresource: str) -> Object:
        meta = obj["metadata"]
        # Claims and slices allow unconditional updates: without a version the last writer would win in silence.
        if not meta.get("resourceVersion"):
            raise AssertionError(f"{resource.plural}/{meta['name']}: replace without resourceVersion")
        path = resource.path(meta.get("namespace"), meta["name"], subresource)
        return await self._call("replace", resource, path, body=obj, query=_write_query(), subresource=subresource)

    async def _call(
        self,
        verb: str,
        resource: Resource,
        path: str,
        *,
        body: object = None,
        query: Mapping[str, str] | None = None,
        content_type: str = _JSON,
        subresource: str = "",
    ) -> Object:
        counted = "/".join(part for part in (resource.plural, subresource) if part)
        async with self._slots:
            code = 0
            try:
                async with asyncio.timeout(self._deadline_s):
                    write = "" if verb in READS else f"{verb} {counted}"
                    sent = self._send(
                        _METHODS[verb], path, query=query, body=body, content_type=content_type, write=write
                    )
                    async with await sent as answer:
                        code = answer.status
                        await _raise_for(answer)
                        return _parsed(await answer.read())
            except _NO_ANSWER as problem:
                raise unavailable(problem) from problem
            finally:
                self.traffic.count(verb, counted, code)

    async def _send(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None,
        body: object = None,
        content_type: str = _JSON,
        write: str = "",
        timeout: aiohttp.ClientTimeout | None = None,  # noqa: ASYNC109 - aiohttp's own, per read
    ) -> aiohttp.ClientResponse:
        if self._session is None:
            connector = aiohttp.TCPConnector(limit=0)
            self._session = aiohttp.ClientSession(connector=connector, auto_decompress=True)
        headers = {"Accept": _JSON, "User-Agent": wellknown.FIELD_MANAGER}
        if authorization := await self._connection.authorization():
            headers["Authorization"] = authorization
        data = None
        if body is not None:
            headers["Content-Type"] = content_type
            data = json.dumps(body, separators=(",", ":")).encode()
        if write and self._guard:
            self._guard(write)
        return await self._session.request(
            method,
            self._connection.server + path,
            params=query,
            data=data,
            headers=headers,
            ssl=self._connection.tls or True,
            proxy=self._connection.proxy,
            timeout=timeout or aiohttp.ClientTimeout(total=None),
        )


_METHODS = {
    "list": "GET",
    "get": "GET",
    "create": "POST",
    "replace": "PUT",
    "patch": "PATCH",
    "apply": "PATCH",
    "delete": "DELETE",
}


def _write_query(*, dry_run: bool = False) -> dict[str, str]:
    query = {"fieldManager": wellknown.FIELD_MANAGER, "fieldValidation": "Strict"}
    return query | ({"dryRun": "All"} if dry_run else {})


def _is_held(meta: Mapping[str, Any]) -> bool:
    return bool(meta.get("finalizers")) or meta.get("deletionGracePeriodSeconds", 0) > 0


def _parsed(text: bytes) -> Object:
    try:
        value = json.loads(text)
    except ValueError as problem:
        raise unavailable(f"answer is not JSON: {problem}") from problem
    if not isinstance(value, dict):
        raise unavailable("answer is not an object")
    return value


async def _raise_for(answer: aiohttp.ClientResponse) -> None:
    if answer.status < 400:
        return
    text = await answer.text(errors="replace")
    try:
        status = json.loads(text)
    except ValueError:
        status = {}
    if not isinstance(status, dict) or status.get("kind") != "Status":
        status = {"reason": answer.reason, "message": text[:1024]}
    raise error_from(answer.status, status, retry_after=answer.headers.get("Retry-After"))


def _cut(answer: aiohttp.ClientResponse) -> None:
    """Drop a connection that still has an answer under way; a polite TLS goodbye would outlive the session."""
    connection = answer.connection
    if connection and connection.transport:
        connection.transport.abort()


async def _lines(answer: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """Yield complete lines of any length; what a broken connection cut short is dropped."""
    rest = b""
    async for chunk in answer.content.iter_any():
        rest += chunk
        *lines, rest = rest.split(b"\n")
        for line in lines:
            yield line
