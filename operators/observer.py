"""Everything the API server says, kept as the model's values, and the snapshot of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

import structlog

from bridge import wellknown
from bridge.errors import SpecError
from bridge.model.fleet import FleetSpec, QueueSpec
from bridge.model.gang import Gang
from bridge.model.kube import ClaimView, KubeNode, MirrorView, PodView, Pool
from bridge.model.slurm import SlurmView
from bridge.model.snapshot import Snapshot
from bridge.model.topology import Topology
from bridge.topology.fleet import fleet_topology
from operators import reading
from operators.kube.client import KubeClient
from operators.kube.errors import KubeError
from operators.kube.reflector import Reflector
from operators.kube.resources import (
    FLEETS,
    GANGJOBS,
    GANGQUEUES,
    NAMESPACES,
    NODES,
    PODS,
    RESOURCECLAIMS,
    RESOURCESLICES,
    SERVICES,
    Resource,
)
from operators.kube.store import DELETED, Store

log = structlog.get_logger()

View = TypeVar("View")
Object = dict[str, Any]
RELIST_S = 60.0
"""kopf never tells that an object vanished while its watch was down: so often the three kinds are listed."""


class Views(Generic[View]):
    """Model values of one resource type, parsed once per change and not once per cycle."""

    def __init__(self, read: Callable[[Object], View | None]) -> None:
        self.by_key: dict[tuple[str, str], View] = {}
        self.changes = 0
        self._read = read

    def take(self, event: str, obj: Object) -> None:
        """Follow one change of a store."""
        self.changes += 1
        meta = obj["metadata"]
        key = (meta.get("namespace", ""), meta["name"])
        view = None if event == DELETED else self._read(obj)
        if view is None:
            self.by_key.pop(key, None)
        else:
            self.by_key[key] = view


class Observer:
    """Reflectors for what kopf does not handle, stores for the three kinds that it does."""

    def __init__(self, client: KubeClient, on_change: Callable[[], None]) -> None:
        self._client = client
        self._on_change = on_change
        self.pods: Views[PodView] = Views(reading.read_pod)
        self.claims: Views[ClaimView] = Views(reading.read_claim)
        self.nodes: Views[KubeNode] = Views(reading.read_node)
        self.namespaces: Views[Mapping[str, str]] = Views(lambda obj: obj["metadata"].get("labels") or {})
        self.services: Views[tuple[str, str]] = Views(_service_owner)
        self.slices: Views[Object] = Views(lambda obj: obj)
        self.gangs: Views[Gang] = Views(_gang_or_none)
        self.mirrors: Views[MirrorView] = Views(_mirror_or_none)
        self.queues: Views[QueueSpec] = Views(_queue_or_none)
        self.fleets: Views[FleetSpec] = Views(reading.read_fleet)
        ours = f"{wellknown.MANAGED_BY}={wellknown.FIELD_MANAGER}"
        self._reflectors = {
            PODS: self._reflector(PODS, self.pods, ours),
            RESOURCECLAIMS: self._reflector(RESOURCECLAIMS, self.claims),
            NODES: self._reflector(NODES, self.nodes, wellknown.SLURM_NODE),
            NAMESPACES: self._reflector(NAMESPACES, self.namespaces),
            SERVICES: self._reflector(SERVICES, self.services, ours),
            RESOURCESLICES: self._reflector(RESOURCESLICES, self.slices),
        }
        self._kinds = {GANGJOBS: Store(), GANGQUEUES: Store(), FLEETS: Store()}
        self._kind_views: dict[Resource, tuple[Views[Any], ...]] = {
            GANGJOBS: (self.gangs, self.mirrors),
            GANGQUEUES: (self.queues,),
            FLEETS: (self.fleets,),
        }
        self._pools: tuple[int, tuple[Pool, ...]] = (0, ())
        self._topology: tuple[object, Topology] | None = None
        self._listed = asyncio.Event()
        self._read_since = 0.0

    async def run(self) -> None:
        """Keep everything true until cancelled."""
        self._read_since = time.monotonic()
        async with asyncio.TaskGroup() as tasks:
            for reflector in self._reflectors.values():
                tasks.create_task(reflector.run())
            tasks.create_task(self._relist())

    async def synced(self) -> None:
        """Return when every list has been read once."""
        for reflector in self._reflectors.values():
            await reflector.synced.wait()
        await self._listed.wait()

    async def read_since(self, moment: float) -> None:
        """Return when all lists were read after ``moment`` (monotonic seconds), anew if they were not.

        Watches tell of a moment ago, and each of its own: together they may show a state that never was.
        """
        if self._read_since > moment:
            return
        began = time.monotonic()
        await asyncio.gather(self._list_kinds(), *(reflector.relist() for reflector in self._reflectors.values()))
        self._read_since = began

    def raw(self, resource: Resource, namespace: str, name: str) -> Object | None:
        """Return an object as the API server sent it."""
        if resource in self._kinds:
            return self._kinds[resource].objects.get((namespace, name))
        return self._reflectors[resource].get(namespace, name)

    def take(self, resource: Resource, event: str, obj: Object) -> None:
        """Take a watch event of one of the three kinds (from kopf)."""
        self._follow(resource, self._kinds[resource].apply(event, obj))

    def observe(self, resource: Resource, obj: Object) -> None:
        """Take the server's answer to a write of ours."""
        if resource in self._kinds:
            self._follow(resource, self._kinds[resource].observe(obj))
        elif resource in self._reflectors:
            self._reflectors[resource].observe(obj)

    def forget(self, resource: Resource, obj: Mapping[str, Any]) -> None:
        """Take note that a delete of ours removed ``obj``."""
        if resource in self._kinds:
            self._follow(resource, self._kinds[resource].forget(obj))
        else:
            self._reflectors[resource].forget(obj)

    def snapshot(self, slurm: SlurmView | None, held_back: frozenset[str], slurm_topology: str = "") -> Snapshot:
        """Return the frozen input of a cycle."""
        fleet = min(self.fleets.by_key.values(), key=lambda fleet: fleet.name, default=None)
        system = self._reflectors[NAMESPACES].get("", "kube-system")
        return Snapshot(
            now=int(time.time()),
            cluster=system["metadata"]["uid"] if system else "",
            fleet=fleet,
            topology=self._read_topology(fleet, slurm_topology) if fleet else None,
            queues={queue.name: queue for queue in self.queues.by_key.values()},
            namespaces={name: labels for (_, name), labels in self.namespaces.by_key.items()},
            gangs=tuple(self.gangs.by_key.values()),
            mirrors=tuple(self.mirrors.by_key.values()),
            pods=tuple(self.pods.by_key.values()),
            claims=tuple(self.claims.by_key.values()),
            services=frozenset(self.services.by_key.values()),
            nodes=tuple(self.nodes.by_key.values()),
            pools=self._read_pools(),
            slurm=slurm,
            held_back=held_back,
        )

    def _read_topology(self, fleet: FleetSpec, slurm_text: str) -> Topology:
        """Return the fleet's topology, read again only when something that it is made of has changed."""
        facts = (fleet, self.nodes.changes, slurm_text)
        if self._topology is None or self._topology[0] != facts:
            self._topology = (facts, fleet_topology(fleet, self.nodes.by_key.values(), slurm_text))
        return self._topology[1]

    def _read_pools(self) -> tuple[Pool, ...]:
        """Return the pools, read again only after a slice has changed: a pool may span several slices."""
        if self._pools[0] != self.slices.changes:
            self._pools = (self.slices.changes, reading.read_pools(self.slices.by_key.values()))
        return self._pools[1]

    def _reflector(self, resource: Resource, views: Views[Any], selector: str = "") -> Reflector:
        def changed(event: str, obj: Object) -> None:
            views.take(event, obj)
            self._on_change()

        return Reflector(self._client, resource, label_selector=selector, on_change=changed)

    def _follow(self, resource: Resource, changes: list[tuple[str, Object]]) -> None:
        for event, obj in changes:
            for views in self._kind_views[resource]:
                views.take(event, obj)
            self._on_change()

    async def _relist(self) -> None:
        while True:
            try:
                await self._list_kinds()
            except KubeError as error:
                log.warning("relist_failed", error=str(error))
                await asyncio.sleep(1)
                continue
            self._listed.set()
            await asyncio.sleep(RELIST_S)

    async def _list_kinds(self) -> None:
        for resource, store in self._kinds.items():
            items, version = await self._client.list(resource)
            self._follow(resource, store.replace(items, int(version)))


def _service_owner(obj: Object) -> tuple[str, str]:
    meta = obj["metadata"]
    return meta["namespace"], (meta.get("labels") or {}).get(wellknown.GANG_UID, "")


def _gang_or_none(obj: Object) -> Gang | None:
    return None if reading.is_mirror(obj) else reading.read_gang(obj)


def _mirror_or_none(obj: Object) -> MirrorView | None:
    return reading.read_mirror(obj) if reading.is_mirror(obj) else None


def _queue_or_none(obj: Object) -> QueueSpec | None:
    try:
        return reading.read_queue(obj)
    except SpecError as error:
        log.warning("queue_ignored", queue=obj["metadata"]["name"], error=str(error))
        return None
