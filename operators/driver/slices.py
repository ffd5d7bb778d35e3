"""Where a device of this node's pool is: index and minor, as published in the pool's ResourceSlices."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from bridge.wellknown import DRIVER
from operators.driver.errors import ClaimRefused

CACHE_SECONDS = 30.0
"""A gang starts many pods per node within seconds, while a pool changes when an admin changes the node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """``index`` is Slurm's GRES index, ``number`` the N of the device node: the minor where it is published."""

    index: int
    number: int


Pool = Mapping[str, Address]


def read_pool(slices: Iterable[Mapping[str, Any]], pool: str) -> Pool:
    """Addresses by device name, from the newest generation of ``pool``; slices of other pools and drivers are skipped.

    Raises ClaimRefused when the pool is absent or incomplete, or a device has no index or shares it with another.
    """
    specs = [item["spec"] for item in slices if item["spec"]["driver"] == DRIVER]
    specs = [spec for spec in specs if spec["pool"]["name"] == pool]
    if not specs:
        raise ClaimRefused(f"no ResourceSlice of driver {DRIVER} has the pool {pool}")
    generation = max(spec["pool"].get("generation", 0) for spec in specs)
    newest = [spec for spec in specs if spec["pool"].get("generation", 0) == generation]
    expected = newest[0]["pool"]["resourceSliceCount"]
    if len(newest) != expected:
        raise ClaimRefused(f"pool {pool} is incomplete: {len(newest)} of {expected} slices of generation {generation}")
    devices = [device for spec in newest for device in spec.get("devices") or []]
    addresses = {device["name"]: _address(device, pool) for device in devices}
    for what, distinct in (
        ("name", set(addresses)),
        ("index", {address.index for address in addresses.values()}),
        ("device node number", {address.number for address in addresses.values()}),
    ):
        if len(distinct) != len(devices):
            raise ClaimRefused(f"pool {pool} has {len(devices)} devices but {len(distinct)} of them by {what}")
    return addresses


def _address(device: Mapping[str, Any], pool: str) -> Address:
    index = _integer(device, "index")
    if index is None:
        raise ClaimRefused(f"device {pool}/{device['name']} has no integer attribute index in its ResourceSlice")
    minor = _integer(device, "minor")
    return Address(index=index, number=index if minor is None else minor)


def _integer(device: Mapping[str, Any], name: str) -> int | None:
    """An attribute without a domain belongs to the driver's domain (resource.k8s.io/v1 QualifiedName)."""
    attributes = device.get("attributes") or {}
    value = (attributes.get(name) or attributes.get(f"{DRIVER}/{name}") or {}).get("int")
    return value if isinstance(value, int) else None


class PoolReader:
    """The pool of one node, read with ``read`` and kept for CACHE_SECONDS; a device not in it is looked up anew."""

    def __init__(
        self, node: str, read: Callable[[], list[Mapping[str, Any]]], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._node = node
        self._read = read
        self._clock = clock
        self._pool: Pool = {}
        self._fresh_until = clock()

    def address(self, device: str) -> Address:
        """Raises ClaimRefused for a device that the pool does not have, and what reading may raise."""
        pool = self._pool
        if device not in pool or self._clock() >= self._fresh_until:
            pool = read_pool(self._read(), self._node)
            self._pool, self._fresh_until = pool, self._clock() + CACHE_SECONDS
        if device not in pool:
            known = ", ".join(sorted(pool)) or "none"
            raise ClaimRefused(f"device {self._node}/{device} is in no ResourceSlice of the pool; published: {known}")
        return pool[device]
