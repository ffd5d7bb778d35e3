"""What a reflector knows of one resource type: objects by key, kept true by lists, watch events and our own writes.

Pure. Resource versions of one type are compared as numbers (KEP-5504). ``position`` is how far the server has told us
everything; our own writes may run ahead of it, and what the server then says of the past must not undo them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

Object = dict[str, Any]
Key = tuple[str, str]
Change = tuple[str, Object]

ADDED, MODIFIED, DELETED = "ADDED", "MODIFIED", "DELETED"

_MAX_GONE = 20_000
"""Most deleted uids that are remembered: those of the time that a list takes are enough."""


def key_of(obj: Mapping[str, Any]) -> Key:
    """Return (namespace, name); the namespace of cluster-scoped objects is ``""``."""
    return obj["metadata"].get("namespace", ""), obj["metadata"]["name"]


def version_of(obj: Mapping[str, Any]) -> int:
    """Return the object's resource version as a number."""
    return int(obj["metadata"]["resourceVersion"])


def _uid(obj: Mapping[str, Any]) -> str:
    return str(obj["metadata"]["uid"])


class Store:
    """Objects of one type. Methods return the changes that they made, in order; ``trim`` cuts what is kept.

    A list may be taken while events go on coming: each object is judged by its own version.
    """

    def __init__(self, trim: Callable[[Object], Object] | None = None) -> None:
        self.position = 0
        self._listed = 0
        self._trim = trim
        self._objects: dict[Key, Object] = {}
        self._gone: dict[str, float] = {}
        """Deleted uids and the version up to which news of them is old; what a delete of ours removed never returns."""
        self.objects: Mapping[Key, Object] = MappingProxyType(self._objects)

    def replace(self, items: Iterable[Object], version: int) -> list[Change]:
        """Take a list read at ``version`` for the truth, but for what is known from later."""
        listed = {key_of(item): item for item in items}
        self._gone = {uid: until for uid, until in self._gone.items() if until > version}
        changes: list[Change] = []
        for key, known in list(self._objects.items()):
            listed_uid = _uid(listed[key]) if key in listed else None
            if listed_uid != _uid(known) and version_of(known) <= version:
                del self._objects[key]
                changes.append((DELETED, known))
        for item in listed.values():
            changes += self._put(item)
        self._listed = max(self._listed, version)
        self.position = max(self.position, version)
        return changes

    def restart(self) -> list[Change]:
        """Forget everything: the server's history was restored from a backup and versions mean nothing any more."""
        changes = [(DELETED, known) for known in self._objects.values()]
        self._objects.clear()
        self._gone.clear()
        self.position = self._listed = 0
        return changes

    def apply(self, event: str | None, obj: Object) -> list[Change]:
        """Take one watch event; BOOKMARK only moves the position, and what a list has shown is old."""
        if version_of(obj) <= self._listed:
            return []
        self.position = max(self.position, version_of(obj))
        if event == DELETED:
            return self._drop(obj)
        return [] if event == "BOOKMARK" else self._put(obj)

    def observe(self, obj: Object) -> list[Change]:
        """Take the server's answer to a write of ours. Older than the stream means the stream knows better."""
        return [] if version_of(obj) <= self.position else self._put(obj)

    def forget(self, obj: Mapping[str, Any]) -> list[Change]:
        """Take note that ``obj`` (its uid), and with it whatever had its name before, is gone because we deleted it."""
        self._bury(_uid(obj), math.inf)
        known = self._objects.get(key_of(obj))
        if known is None or (_uid(known) != _uid(obj) and version_of(known) > version_of(obj)):
            return []
        self._bury(_uid(known), math.inf)
        del self._objects[key_of(obj)]
        return [(DELETED, known)]

    def _put(self, obj: Object) -> list[Change]:
        key = key_of(obj)
        known = self._objects.get(key)
        version = version_of(obj)
        if version <= self._gone.get(_uid(obj), -1) or (known is not None and version_of(known) >= version):
            return []
        kept = self._trimmed(obj)
        self._objects[key] = kept
        if known is None:
            return [(ADDED, kept)]
        if _uid(known) == _uid(kept):
            return [(MODIFIED, kept)]
        # Deleted and made anew under one name, with the delete unseen.
        return [(DELETED, known), (ADDED, kept)]

    def _drop(self, obj: Object) -> list[Change]:
        known = self._objects.get(key_of(obj))
        # NB: with a selector this may only mean that the object stopped matching; a later version may match again.
        self._bury(_uid(obj), max(version_of(obj), self._gone.get(_uid(obj), -1)))
        if known is None or version_of(known) > version_of(obj):
            return []
        del self._objects[key_of(obj)]
        return [(DELETED, self._trimmed(obj))]

    def _bury(self, uid: str, until: float) -> None:
        self._gone.pop(uid, None)
        self._gone[uid] = until
        if len(self._gone) > _MAX_GONE:
            del self._gone[next(iter(self._gone))]

    def _trimmed(self, obj: Object) -> Object:
        meta = {key: value for key, value in obj["metadata"].items() if key != "managedFields"}
        kept = obj | {"metadata": meta}
        return self._trim(kept) if self._trim else kept
