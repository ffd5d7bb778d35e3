"""A small strict API server for tests: real HTTP on loopback, versions, subresources, watches, and faults on demand.

What it promises is held against a real kube-apiserver by the same tests. It has no RBAC, no policies, no controllers;
``tests.kube.actors`` plays those that matter.
"""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Self

from aiohttp import web

from operators.kube import resources
from operators.kube.connection import Connection
from operators.kube.resources import Resource
from tests.kube.fakepatch import json_patch, merge
from tests.kube.fakerules import Refused
from tests.kube.fakestore import BY_PLURAL, Change, Key, Object, Store

_BY_ROUTE = {(resource.group, resource.version, resource.plural): resource for resource in resources.ALL}


@dataclass
class Fault:
    """The next ``left`` requests that ``match`` fail; with ``after`` they are carried out first."""

    left: int
    status: int
    match: str
    after: bool


class FakeApi:
    """Use as ``async with FakeApi() as api``; then ``KubeClient(api.connection())``.

    ``objects`` is live and may be read at any time; write through ``put`` and ``remove`` (another user's hand) so that
    watches see it. ``requests`` lists what was asked, as ``POST pods`` or ``PUT resourceclaims/status``.
    """

    def __init__(self, *, bookmark_s: float = 0.2) -> None:
        self.store = Store()
        self.requests: list[str] = []
        self.faults: list[Fault] = []
        self.bookmark_s = bookmark_s
        self.stalled = False
        self.url = ""
        self._epoch = 0
        self._runner: web.AppRunner | None = None

    @property
    def objects(self) -> dict[Key, Object]:
        """Objects by (plural, namespace or "", name)."""
        return self.store.objects

    def connection(self) -> Connection:
        return Connection(server=self.url)

    def of(self, plural: str, namespace: str | None = None) -> list[Object]:
        """Return the objects of a type, sorted by key."""
        return [obj for key, obj in sorted(self.objects.items()) if key[0] == plural and namespace in (None, key[1])]

    async def __aenter__(self) -> Self:
        application = web.Application(client_max_size=64 * 2**20)
        application.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        host, port = self._runner.addresses[0][:2]
        self.url = f"http://{host}:{port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self.drop_watches()
        await asyncio.sleep(0)
        if self._runner:
            await self._runner.cleanup()

    # -- faults and other users --------------------------------------------------------------------------------------

    def fail(self, times: int = 1, *, status: int = 500, match: str = "", after: bool = False) -> None:
        """Fail the next requests whose ``METHOD plural[/sub]`` contains ``match``; status 0 drops the connection.

        ``after`` carries the request out first, so that the caller cannot know.
        """
        self.faults.append(Fault(times, status, match, after))

    def drop_watches(self) -> None:
        """Break every open watch."""
        self._epoch += 1
        self.store.wake()

    def compact(self) -> None:
        """Forget history: watches from before get 410."""
        self.store.compacted = self.store.version
        self.store.history.clear()

    def put(self, plural: str, obj: Object, *, status: bool = False) -> Object:
        """Create or overwrite as somebody else, status included when ``status``."""
        resource = BY_PLURAL[plural]
        meta = obj["metadata"]
        namespace = meta.get("namespace", "default") if resource.namespaced else ""
        key = (plural, namespace, meta["name"])
        if key not in self.objects:
            self.store.create(resource, obj)
        else:
            fresh = merge(obj, {"metadata": {"resourceVersion": None, "uid": None}})
            self.store.modify(key, lambda _: fresh, "")
        if status and key in self.objects:
            self.store.modify(key, lambda old: {**old, "status": obj.get("status") or {}}, "status")
        return self.objects.get(key, obj)

    def remove(self, plural: str, name: str, namespace: str = "") -> None:
        """Make an object vanish as somebody else, whatever protects it."""
        self.store._remove((plural, namespace, name))

    # -- HTTP --------------------------------------------------------------------------------------------------------

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        try:
            resource, namespace, name, subresource = _route(request.path)
        except Refused as refused:
            return _refusal(refused)
        said = f"{request.method} {resource.plural}" + (f"/{subresource}" if subresource else "")
        if "watch" in request.query:
            said = f"WATCH {resource.plural}"
        self.requests.append(said)
        fault = next((fault for fault in self.faults if fault.left > 0 and fault.match in said), None)
        if fault:
            fault.left -= 1
        body = await request.json() if request.can_read_body else None
        if fault and not fault.after:
            return self._break(request, fault)
        try:
            if "watch" in request.query:
                return await self._watch(request, resource, namespace)
            answer = self._carry_out(request, resource, (resource.plural, namespace, name), subresource, body)
        except Refused as refused:
            return _refusal(refused)
        return self._break(request, fault) if fault else answer

    def _carry_out(
        self, request: web.Request, resource: Resource, key: Key, subresource: str, body: Any
    ) -> web.StreamResponse:
        dry_run = request.query.get("dryRun") == "All"
        match request.method, bool(key[2]):
            case "GET", True:
                return _json(self.store.find(key))
            case "GET", False:
                return _json(self._list(resource, key[1], request.query))
            case "POST", False:
                placed = copy.deepcopy(body)
                if resource.namespaced:
                    placed["metadata"]["namespace"] = key[1]
                return _json(self.store.create(resource, placed, dry_run=dry_run), 201)
            case "PUT", True:
                return _json(self.store.replace(resource, key, body, subresource, dry_run=dry_run))
            case "PATCH", True:
                return _json(self._patch(request, resource, key, subresource, body, dry_run=dry_run))
            case "DELETE", True:
                obj, gone = self.store.delete(key, body or {})
                status = {"kind": "Status", "apiVersion": "v1", "status": "Success", "details": {"uid": _uid(obj)}}
                return _json(status if gone else obj)
            case _:
                raise Refused(405, "MethodNotAllowed", request.method)

    def _patch(
        self, request: web.Request, resource: Resource, key: Key, subresource: str, body: Any, *, dry_run: bool
    ) -> Object:
        kind = request.headers.get("Content-Type", "")
        if kind.startswith("application/apply-patch") and key not in self.objects:
            return self.store.create(resource, body, dry_run=dry_run)
        if kind.startswith("application/json-patch"):
            return self.store.modify(key, lambda old: json_patch(old, body), subresource, dry_run=dry_run)
        if not kind.startswith(("application/merge-patch", "application/apply-patch")):
            raise Refused(415, "UnsupportedMediaType", kind)
        return self.store.modify(key, lambda old: merge(old, body), subresource, dry_run=dry_run)

    def _list(self, resource: Resource, namespace: str, query: Mapping[str, str]) -> Object:
        start = int(query["continue"].split("@")[0]) if "continue" in query else 0
        version = int(query["continue"].split("@")[1]) if "continue" in query else self.store.version
        if version < self.store.compacted:
            raise Refused(410, "Expired", "The provided continue parameter is too old")
        found = [
            obj for obj in self.of(resource.plural, namespace or None) if _selected(obj, query.get("labelSelector", ""))
        ]
        limit = int(query.get("limit") or len(found) or 1)
        page = [{k: v for k, v in obj.items() if k not in {"kind", "apiVersion"}} for obj in found[start:][:limit]]
        meta: Object = {"resourceVersion": str(version)}
        if start + limit < len(found):
            meta["continue"] = f"{start + limit}@{version}"
        return {"kind": f"{resource.kind}List", "apiVersion": resource.api_version, "metadata": meta, "items": page}

    async def _watch(self, request: web.Request, resource: Resource, namespace: str) -> web.StreamResponse:
        position = int(request.query.get("resourceVersion") or 0)
        if position < self.store.compacted:
            raise Refused(410, "Expired", f"too old resource version: {position}")
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        epoch = self._epoch
        end = asyncio.get_running_loop().time() + float(request.query.get("timeoutSeconds") or 300)
        selector = request.query.get("labelSelector", "")
        with suppress(ConnectionError):
            while asyncio.get_running_loop().time() < end:
                if self._epoch != epoch:
                    if request.transport:
                        request.transport.abort()
                    break
                changed = self.store.changed
                if not self.stalled:
                    position = await self._send_since(response, position, resource, namespace, selector)
                with suppress(TimeoutError):
                    async with asyncio.timeout(self.bookmark_s):
                        await changed.wait()
        return response

    async def _send_since(
        self, response: web.StreamResponse, position: int, resource: Resource, namespace: str, selector: str
    ) -> int:
        version = self.store.version
        for change in [change for change in self.store.history if position < change.version <= version]:
            if change.plural == resource.plural and namespace in ("", change.obj["metadata"].get("namespace", "")):
                event = _as_selected(change, selector)
                if event:
                    await _send(response, event, change.obj)
        mark = {
            "kind": resource.kind,
            "apiVersion": resource.api_version,
            "metadata": {"resourceVersion": str(version)},
        }
        await _send(response, "BOOKMARK", mark)
        return version

    def _break(self, request: web.Request, fault: Fault) -> web.StreamResponse:
        if fault.status == 0:
            if request.transport:
                request.transport.abort()
            return web.Response(status=500)
        reason = {429: "TooManyRequests", 409: "Conflict", 403: "Forbidden", 410: "Expired"}.get(
            fault.status, "InternalError"
        )
        return _refusal(Refused(fault.status, reason, "fault on demand"))


def _route(path: str) -> tuple[Resource, str, str, str]:
    parts = path.strip("/").split("/")
    group, rest = ("", parts[1:]) if parts[0] == "api" else ("/".join(parts[1:2]), parts[2:])
    version, rest = (rest[0], rest[1:]) if rest else ("", [])
    namespace = ""
    if len(rest) > 2 and rest[0] == "namespaces":
        namespace, rest = rest[1], rest[2:]
    plural, name, subresource = [*rest, "", "", ""][:3]
    resource = _BY_ROUTE.get((group, version, plural))
    if resource is None or subresource not in {"", "status"}:
        raise Refused(404, "NotFound", "the server could not find the requested resource")
    return resource, namespace, name, subresource


def _as_selected(change: Change, selector: str) -> str | None:
    """Return the event as a watcher with this selector sees it."""
    was = change.old is not None and _selected(change.old, selector)
    now = _selected(change.obj, selector)
    if change.event == "DELETED" or (was and not now):
        return "DELETED" if was else None
    return None if not now else "MODIFIED" if was else "ADDED"


def _selected(obj: Object, selector: str) -> bool:
    labels = obj["metadata"].get("labels") or {}
    for term in filter(None, selector.split(",")):
        key, equals, value = term.partition("=")
        if (equals and labels.get(key) != value.lstrip("=")) or (not equals and key not in labels):
            return False
    return True


def _uid(obj: Object) -> str:
    return str(obj["metadata"]["uid"])


async def _send(response: web.StreamResponse, event: str, obj: Object) -> None:
    await response.write(json.dumps({"type": event, "object": obj}).encode() + b"\n")


def _json(value: Object, status: int = 200) -> web.Response:
    return web.json_response(value, status=status)


def _refusal(refused: Refused) -> web.Response:
    status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": refused.code}
    headers = {"Retry-After": "1"} if refused.code == 429 else None
    body = status | {"reason": refused.reason, "message": refused.message}
    return web.json_response(body, status=refused.code, headers=headers)
