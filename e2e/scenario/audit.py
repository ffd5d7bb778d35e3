"""The auditor of the scenarios: invariants from the raw answers of both servers, with no code of the product.

Claims are read before and after Slurm is; only those that did not change in between are judged, so that what is found
was true at one moment and is no artefact of reading two servers one after the other.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass

from e2e.scenario import batch
from e2e.scenario.commands import MIRRORS, NAMESPACE, Object, listed
from e2e.scenario.eventually import eventually

DRIVER = "gpu.gangbridge.dev"
MIRROR_LAG_S = 5

Device = tuple[str, int]
"""Slurm node and GRES index."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ownership:
    """One device in one allocated claim."""

    device: Device
    claim: Object

    @property
    def name(self) -> str:
        meta = self.claim["metadata"]
        return f"{meta['namespace']}/{meta['name']}"

    @property
    def is_mirror(self) -> bool:
        return self.claim["metadata"]["namespace"] == MIRRORS

    def belongs_to(self, job: Object) -> bool:
        labels = self.claim["metadata"].get("labels", {})
        if self.is_mirror:
            return labels.get("gangbridge.dev/job-id") == str(job["job_id"])
        try:
            marker = json.loads(job["admin_comment"] or job["comment"])
            key = marker["uid"], str(marker["attempt"])
        except (ValueError, KeyError, TypeError):
            return False
        return key == (labels.get("gangbridge.dev/gang-uid"), labels.get("gangbridge.dev/attempt"))


def claimed() -> list[Ownership]:
    """Return every device in an allocated claim of any namespace."""
    return [owned for claim in listed("resourceclaims", namespace=None) for owned in devices_of(claim)]


def devices_of(claim: Object) -> list[Ownership]:
    """Return the devices in one claim, by Slurm node and index: what the slices and the node's label say they are."""
    results = claim.get("status", {}).get("allocation", {}).get("devices", {}).get("results", [])
    return [
        Ownership(device=_device(result["pool"], result["device"]), claim=claim)
        for result in results
        if result["driver"] == DRIVER
    ]


def held() -> dict[Device, list[Object]]:
    """Return the running jobs that hold each device."""
    holders: dict[Device, list[Object]] = defaultdict(list)
    for record in batch.live_jobs():
        for node, numbers in batch.indices(record).items():
            for number in numbers:
                holders[node, number].append(record)
    return holders


def violations(*, lagging: bool) -> list[str]:
    """Return the broken invariants: those that must never be, or with ``lagging`` those that may be for a moment."""
    before = {item.claim["metadata"]["uid"]: item.claim["metadata"]["resourceVersion"] for item in claimed()}
    holders = held()
    steady = [
        item
        for item in claimed()
        if before.get(item.claim["metadata"]["uid"]) == item.claim["metadata"]["resourceVersion"]
    ]
    problems: list[str] = []
    owners: dict[Device, list[Ownership]] = defaultdict(list)
    for item in steady:
        owners[item.device].append(item)
    if not lagging:
        problems += [
            f"{device} is in {len(items)} claims: {[item.name for item in items]}"
            for device, items in owners.items()
            if len(items) > 1
        ]
        problems += [
            f"{device} is held by jobs {[job['job_id'] for job in jobs]}"
            for device, jobs in holders.items()
            if len(jobs) > 1
        ]
    for item in steady:
        if item.is_mirror is not lagging:
            continue
        jobs = holders.get(item.device, [])
        if not any(item.belongs_to(job) for job in jobs):
            problems.append(f"{item.device} is in claim {item.name}, but held by {[job['job_id'] for job in jobs]}")
    return problems


def assert_sound() -> None:
    """Assert that no device has two owners and that every allocated claim has the job that owns its devices."""
    if not batch.live_jobs() and not claimed():
        return
    assert violations(lagging=False) == []

    def caught_up() -> bool:
        late = violations(lagging=True)
        assert late == [], late
        return True

    eventually(caught_up, "the mirrors' claims are those of running jobs", within_s=MIRROR_LAG_S)


def leftovers() -> list[str]:
    """Return everything of gangs and mirrors that exists on either side."""
    found = [f"job {job['job_id']} {job['job_state']}" for job in batch.live_jobs()]
    for obj in listed("gangjobs,pods,resourceclaims,services", namespace=None):
        where = obj["metadata"]["namespace"]
        if where in {NAMESPACE, MIRRORS}:
            found.append(f"{obj['kind']} {where}/{obj['metadata']['name']}")
    return found


def assert_nothing_left(*, within_s: float = 15) -> None:
    """Assert that no job, GangJob, pod, claim or service is left, in time."""

    def probe() -> bool:
        left = leftovers()
        assert left == [], left[:20]
        return True

    eventually(probe, "nothing is left", within_s=within_s, step_s=0.2)


_known: dict[tuple[str, str], Device] = {}


def _device(pool: str, name: str) -> Device:
    """Devices never change their index in the lab, so the slices are read when a new one is met."""
    if (pool, name) not in _known:
        slurm_names = {
            node["metadata"]["name"]: node["metadata"]["labels"].get("gangbridge.dev/slurm-node", "")
            for node in listed("nodes", namespace=None)
        }
        for obj in listed("resourceslices", namespace=None):
            spec = obj["spec"]
            if spec["driver"] != DRIVER:
                continue
            for device in spec.get("devices", ()):
                index = device["attributes"]["index"]["int"]
                _known[spec["pool"]["name"], device["name"]] = (slurm_names[spec["pool"]["name"]], index)
    return _known[pool, name]
