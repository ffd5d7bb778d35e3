"""What the scenarios ask the auditor, and what they look up themselves: who has which device, and what is left."""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass

from auditor.audit import audit, read_servers
from auditor.report import Report
from e2e.scenario import batch
from e2e.scenario.commands import MIRRORS, NAMESPACE, STATE, Object, listed
from e2e.scenario.eventually import eventually

DRIVER = "gpu.gangbridge.dev"

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


def report() -> Report:
    """Return what ``gangbridge audit`` finds."""
    kubeconfig = str(STATE / "kubeconfig" / "admin.kubeconfig")
    prefix = shlex.split(os.environ["GANGBRIDGE_SLURM_EXEC"])
    return audit(lambda: read_servers(kubeconfig, prefix))


def violations() -> list[str]:
    """Return the broken invariants."""
    return [f"{each.invariant} {each.sentence}: {each.slurm}; {each.kubernetes}" for each in report().violations]


def assert_sound() -> None:
    """Assert that no invariant is broken, or only for the moment between two readings."""
    found = violations()
    assert found == [], found[:20]


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
