"""The Lease that says which replica acts: as candidates read it and as its holder writes it. Pure.

The times in it are for people. Those that decide are measured by each process on a clock of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

Object = dict[str, Any]

NAME = "gangbridge"


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What a Lease says. ``holder`` is empty for a Lease that was released; ``version`` changes with every renewal."""

    holder: str
    epoch: int
    duration_s: int
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """One leadership, from its take to its end; ``since`` is in seconds since the epoch, ``taken_at`` monotonic."""

    identity: str
    epoch: int
    since: float
    taken_at: float


def read(lease: Mapping[str, Any]) -> Record:
    """Return what the Lease says; one that nobody has held yet has no spec."""
    spec = lease.get("spec") or {}
    return Record(
        holder=spec.get("holderIdentity") or "",
        epoch=spec.get("leaseTransitions") or 0,
        duration_s=spec.get("leaseDurationSeconds") or 0,
        version=lease["metadata"]["resourceVersion"],
    )


def may_take(record: Record | None, *, identity: str, unchanged_s: float, duration_s: float) -> bool:
    """Return whether a candidate that has seen ``record`` unchanged for ``unchanged_s`` may take the Lease.

    At once when it was released, or when an earlier life held it under our own name: no two processes that live at one
    time share a name. From another holder only after the longer of its duration and ours. A Lease that does not exist
    may have been deleted under its holder's hands, so it is waited for just as long.
    """
    if record is None:
        return unchanged_s >= duration_s
    return record.holder in {"", identity} or unchanged_s >= max(record.duration_s, duration_s)


def held(lease: Mapping[str, Any] | None, term: Term, *, namespace: str, duration_s: int, now: float) -> Object:
    """Return the Lease as the holder of ``term`` writes it; ``lease`` is what was read, None to create it."""
    base = lease or {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": NAME, "namespace": namespace},
    }
    spec = {
        "holderIdentity": term.identity,
        "leaseDurationSeconds": duration_s,
        "leaseTransitions": term.epoch,
        "acquireTime": _micro_time(term.since),
        "renewTime": _micro_time(now),
    }
    return {**base, "spec": {**(base.get("spec") or {}), **spec}}


def released(lease: Mapping[str, Any]) -> Object:
    """Return the Lease held by nobody; its epoch stays, for the next holder to go on from."""
    return {**lease, "spec": {**lease["spec"], "holderIdentity": ""}}


def _micro_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
