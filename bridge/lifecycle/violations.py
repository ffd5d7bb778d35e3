"""Devices with two owners, as far as one cycle can see: the number in the Fleet's status (I1)."""

from __future__ import annotations

from bridge.lifecycle.fleetview import FleetView
from bridge.model.kube import ClaimView
from bridge.model.slurm import SlurmJob


def violations(view: FleetView) -> list[str]:
    """Return a sentence for every device that two claims hold, or a claim and somebody else's Slurm job."""
    found = [
        f"{device.pool}/{device.device} is in claims {', '.join(f'{claim.namespace}/{claim.name}' for claim in claims)}"
        for device, claims in sorted(view.ledger.claims.items())
        if len(claims) > 1
    ]
    for (name, index), job_id in sorted(view.ledger.slurm.items()):
        node = view.nodes.get(name)
        device = node.map.devices.get(index) if node is not None and node.map is not None else None
        claims = view.ledger.claims.get(device, ()) if device is not None else ()
        found += [
            f"{name} index {index} is held by job {job_id} and in claim {claim.namespace}/{claim.name}"
            for claim in claims
            if not _belongs(claim, view.slurm.jobs[job_id])
        ]
    return found


def _belongs(claim: ClaimView, job: SlurmJob) -> bool:
    if claim.gang_uid:
        return job.marker is not None and job.marker.key.uid == claim.gang_uid
    return claim.job_id == job.job_id
