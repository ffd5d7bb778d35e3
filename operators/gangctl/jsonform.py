"""Answers as plain values for ``-o json``: every field is there, null where nothing is known; times in RFC 3339."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from operators.gangctl.ledger import Entry, Owner, World
from operators.gangctl.nodes import NodeRow
from operators.status import timestamp

Object = dict[str, Any]


def who_json(entries: Sequence[Entry], notes: Sequence[str]) -> Object:
    """Return the entries."""
    return {"devices": [_entry(entry) for entry in entries], "notes": list(notes)}


def nodes_json(rows: Sequence[NodeRow], notes: Sequence[str]) -> Object:
    """Return the rows."""
    return {"nodes": [_node(row) for row in rows], "notes": list(notes)}


def _entry(entry: Entry) -> Object:
    return {
        "node": entry.node,
        "slurmNode": entry.slurm_node or None,
        "driver": entry.device.driver,
        "pool": entry.device.pool,
        "device": entry.device.device,
        "index": entry.index,
        "uuid": entry.uuid or None,
        "world": str(entry.world),
        "owner": _owner(entry.owner) if entry.owner else None,
        "since": timestamp(entry.since),
        "until": timestamp(entry.until),
        "reason": entry.reason or None,
    }


def _owner(owner: Owner) -> Object:
    return {
        "namespace": owner.namespace or None,
        "name": owner.name,
        "rank": owner.rank,
        "jobId": owner.job_id or None,
        "user": owner.user or None,
        "account": owner.account or None,
        "partition": owner.partition or None,
        "pod": owner.pod or None,
        "claim": owner.claim,
    }


def _node(row: NodeRow) -> Object:
    return {
        "node": row.name,
        "slurmNode": row.slurm_node or None,
        "state": row.condition.state,
        "reason": row.condition.reason or None,
        "gpus": {str(world): row.gpus.get(world, 0) for world in World} | {"total": row.total},
        "domains": dict(row.domains),
        "gangs": list(row.gangs),
        "jobs": [{"jobId": number, "name": name} for number, name in sorted(row.jobs.items())],
    }
