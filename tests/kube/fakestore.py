"""Objects of the fake API server: versions, subresources, finalizers and the history that watches replay."""

from __future__ import annotations

import asyncio
import itertools
import secrets
import uuid
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from operators.kube import resources
from operators.kube.resources import Resource
from tests.kube.fakepatch import copied
from tests.kube.fakerules import Refused, check, invalid, pod_grace
from tests.kube.structural import fill, schema_of

Object = dict[str, Any]
Key = tuple[str, str, str]

BY_PLURAL = {resource.plural: resource for resource in resources.ALL}
_WITH_STATUS = {"pods", "nodes", "namespaces", "services", "resourceclaims", "gangjobs", "gangqueues", "fleets"}
_KEEP_STATUS_ON_CREATE = {"nodes"}
_UNCONDITIONAL = {"resourceclaims", "resourceslices", "deviceclasses", "pods", "nodes", "services"}
_FIXED = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "namespace",
    "name",
)


class Change(NamedTuple):
    """One entry of the history; ``old`` is what was there before."""

    version: int
    event: str
    plural: str
    obj: Object
    old: Object | None


class Store:
    """``objects`` by (plural, namespace, name); ``history`` has every change since the last compaction."""

    def __init__(self) -> None:
        self.objects: dict[Key, Object] = {}
        self.version = 100
        self.compacted = 0
        self.history: list[Change] = []
        self.changed = asyncio.Event()
        self._uids = itertools.count(1)

    def find(self, key: Key) -> Object:
        """Return the stored object or refuse with 404."""
        if key not in self.objects:
            raise Refused(404, "NotFound", f'{key[0]} "{key[2]}" not found')
        return self.objects[key]

    def create(self, resource: Resource, obj: Object, *, dry_run: bool = False) -> Object:
        new = copied(obj)
        meta = new.setdefault("metadata", {})
        if meta.get("resourceVersion"):
            raise Refused(400, "BadRequest", "resourceVersion should not be set on objects to be created")
        if not meta.get("name"):
            meta["name"] = meta.get("generateName", "") + secrets.token_hex(3)[:5]
        meta.setdefault("namespace", "default") if resource.namespaced else meta.pop("namespace", None)
        key = (resource.plural, meta.get("namespace", ""), meta["name"])
        if key in self.objects:
            raise Refused(409, "AlreadyExists", f'{resource.plural} "{meta["name"]}" already exists')
        for field in ("deletionTimestamp", "managedFields"):
            meta.pop(field, None)
        meta |= {"uid": str(uuid.UUID(int=next(self._uids))), "creationTimestamp": _now(), "generation": 1}
        if resource.plural in _WITH_STATUS - _KEEP_STATUS_ON_CREATE:
            new.pop("status", None)
        if resource.plural == "pods":
            new["status"] = {"phase": "Pending"}
        new = self._checked(resource, new, None, "")
        if not dry_run:
            self._commit("ADDED", resource.plural, new)
        return new

    def replace(self, resource: Resource, key: Key, obj: Object, subresource: str, *, dry_run: bool = False) -> Object:
        """Store ``obj`` in place of the object, as far as the subresource goes."""
        old = self.find(key)
        wanted = obj.get("metadata", {})
        version = wanted.get("resourceVersion")
        if not version and resource.plural not in _UNCONDITIONAL:
            raise invalid("metadata.resourceVersion: Invalid value: 0: must be specified for an update")
        if version and version != old["metadata"]["resourceVersion"]:
            raise Refused(
                409, "Conflict", "the object has been modified; please apply your changes to the latest version"
            )
        if wanted.get("uid", old["metadata"]["uid"]) != old["metadata"]["uid"]:
            raise Refused(409, "Conflict", "Precondition failed: UID in precondition does not match")
        return self._update(resource, old, obj, subresource, dry_run=dry_run)

    def modify(
        self, key: Key, change: Callable[[Object], Object], subresource: str, *, dry_run: bool = False
    ) -> Object:
        """Patch: ``change`` gets a copy of the object and returns the new one."""
        old = self.find(key)
        new = change(copied(old))
        wanted = new.get("metadata", {})
        for field in ("resourceVersion", "uid"):
            if wanted.get(field, old["metadata"][field]) != old["metadata"][field]:
                raise Refused(409, "Conflict", f"the {field} in the patch does not match")
        return self._update(BY_PLURAL[key[0]], old, new, subresource, dry_run=dry_run)

    def delete(self, key: Key, options: Mapping[str, Any]) -> tuple[Object, bool]:
        """Return the object and whether it is gone."""
        old = self.find(key)
        for field, value in (options.get("preconditions") or {}).items():
            if old["metadata"][field] != value:
                raise Refused(409, "Conflict", f"Precondition failed: {field} in precondition: {value}")
        grace = pod_grace(old, options.get("gracePeriodSeconds")) if key[0] == "pods" else 0
        if not old["metadata"].get("finalizers") and grace == 0:
            return self._remove(key), True
        if "deletionTimestamp" in old["metadata"]:
            return old, False
        new = copied(old)
        new["metadata"] |= {"deletionTimestamp": _now(), "deletionGracePeriodSeconds": grace}
        new["metadata"]["generation"] += 1
        self._commit("MODIFIED", key[0], new)
        return new, False

    def _update(self, resource: Resource, old: Object, obj: Object, subresource: str, *, dry_run: bool) -> Object:
        has_status = resource.plural in _WITH_STATUS
        new = copied(old)
        if subresource == "status":
            if not has_status:
                raise Refused(404, "NotFound", "the server could not find the requested resource")
            new["status"] = copied(obj.get("status") or {})
        else:
            kept = {field: old["metadata"][field] for field in _FIXED if field in old["metadata"]}
            status = old.get("status")
            new = copied(obj)
            new["metadata"] = {**new.get("metadata", {}), **kept}
            if has_status:
                new.pop("status", None)
                new |= {"status": status} if status is not None else {}
            self._check_finalizers(old, new)
        new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
        new = self._checked(resource, new, old, subresource)
        if _spec(new) != _spec(old):
            new["metadata"]["generation"] = old["metadata"]["generation"] + 1
        if new == old or dry_run:
            return new
        key = (resource.plural, new["metadata"].get("namespace", ""), new["metadata"]["name"])
        self._commit("MODIFIED", resource.plural, new)
        done = "deletionTimestamp" in new["metadata"] and not new["metadata"].get("finalizers")
        if done and not new["metadata"].get("deletionGracePeriodSeconds"):
            self._remove(key)
        return new

    def _check_finalizers(self, old: Object, new: Object) -> None:
        added = set(new["metadata"].get("finalizers") or []) - set(old["metadata"].get("finalizers") or [])
        if added and "deletionTimestamp" in old["metadata"]:
            raise invalid(
                "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted"
            )

    def _checked(self, resource: Resource, new: Object, old: Object | None, subresource: str) -> Object:
        new["apiVersion"], new["kind"] = resource.api_version, resource.kind
        schema = schema_of(resource.plural)
        if schema:
            new = fill(new, schema)
        if not new["metadata"].get("finalizers"):
            new["metadata"].pop("finalizers", None)
        check(resource.plural, new, old, subresource=subresource)
        return new

    def _commit(self, event: str, plural: str, obj: Object) -> None:
        self.version += 1
        obj["metadata"]["resourceVersion"] = str(self.version)
        key = (plural, obj["metadata"].get("namespace", ""), obj["metadata"]["name"])
        old = self.objects.get(key)
        self.objects[key] = obj
        self._record(event, plural, obj, old)

    def _remove(self, key: Key) -> Object:
        gone = copied(self.objects.pop(key))
        self.version += 1
        gone["metadata"]["resourceVersion"] = str(self.version)
        self._record("DELETED", key[0], gone, gone)
        return gone

    def _record(self, event: str, plural: str, obj: Object, old: Object | None) -> None:
        self.history.append(Change(self.version, event, plural, copied(obj), copied(old)))
        self.wake()

    def wake(self) -> None:
        """Let every watch look again."""
        self.changed.set()
        self.changed = asyncio.Event()


def _spec(obj: Object) -> Object:
    return {key: value for key, value in obj.items() if key not in {"metadata", "status"}}


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
