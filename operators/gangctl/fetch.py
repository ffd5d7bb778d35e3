"""Reads what the answers are made of, as much of it as the user may read."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from bridge import wellknown
from operators.gangctl.facts import Objects, read_facts
from operators.gangctl.ledger import Ledger, World, build_ledger
from operators.gangctl.notes import notes
from operators.kube.client import KubeClient
from operators.kube.errors import Forbidden, NotFound
from operators.kube.resources import FLEETS, GANGJOBS, NODES, PODS, RESOURCECLAIMS, RESOURCESLICES, Resource

Object = dict[str, Any]
_OURS = f"{wellknown.MANAGED_BY}={wellknown.FIELD_MANAGER}"


class Fetcher:
    """Lists, cluster-wide where that is allowed, else in ``namespace`` and that of the mirrors. Raises KubeError."""

    def __init__(self, client: KubeClient, namespace: str) -> None:
        self._client = client
        self._places = dict.fromkeys((namespace, wellknown.MIRROR_NAMESPACE))
        self._seen: dict[str, frozenset[str]] = {}

    async def ledger(self) -> tuple[Ledger, list[str]]:
        """Return the ledger of the moment and what a person should know about it."""
        nodes, slices, gangjobs, fleets, claims = await asyncio.gather(
            self._list(NODES),
            self._list(RESOURCESLICES),
            self._list(GANGJOBS),
            self._list(FLEETS),
            self._list(RESOURCECLAIMS),
        )
        # NB: pods after claims. A claim is freed before its pod goes: one that held devices before its pod was found
        # missing, and does so after, is quarantined; a gang that ended meanwhile is not.
        pods = await self._list(PODS, _OURS)
        objects = Objects(
            nodes=nodes, slices=slices, gangjobs=gangjobs, fleets=fleets, claims=claims, pods=pods, seen=self._seen
        )
        ledger = build_ledger(read_facts(objects))
        if any(entry.world is World.QUARANTINED for entry in ledger.entries):
            still = {_uid(claim) for claim in await self._list(RESOURCECLAIMS) if _is_allocated(claim)}
            objects = replace(objects, claims=[claim for claim in claims if _uid(claim) in still])
            ledger = build_ledger(read_facts(objects))
        return ledger, notes(objects, ledger.facts)

    async def _list(self, resource: Resource, selector: str = "") -> list[Object]:
        try:
            return (await self._client.list(resource, label_selector=selector))[0]
        except NotFound:
            return []  # the kinds of gangbridge are not installed
        except Forbidden:
            found: dict[str, list[Object]] = {}
            for namespace in self._places if resource.namespaced else ():
                try:
                    found[namespace] = (await self._client.list(resource, namespace, label_selector=selector))[0]
                except Forbidden:
                    continue
            self._seen[resource.plural] = frozenset(found)
            return [obj for items in found.values() for obj in items]


def _uid(obj: Object) -> str:
    return str(obj["metadata"]["uid"])


def _is_allocated(claim: Object) -> bool:
    return bool((claim.get("status") or {}).get("allocation"))
