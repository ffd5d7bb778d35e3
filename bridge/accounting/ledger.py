"""Who holds which device. Derived from slurmctld and the claims at every cycle; never the source of truth."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from bridge.accounting.devicemap import GPU
from bridge.model.gres import Gres
from bridge.model.kube import ClaimView, Device
from bridge.model.slurm import SlurmJob


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """``slurm`` maps (Slurm node, GPU index) to the live job that holds it, ``claims`` a device to its claims."""

    slurm: Mapping[tuple[str, int], int]
    claims: Mapping[Device, tuple[ClaimView, ...]]

    def used_indices(self, node: str) -> frozenset[int]:
        """Return the indices of ``node`` that live Slurm jobs hold."""
        return frozenset(index for name, index in self.slurm if name == node)

    def other_claims(self, devices: Iterable[Device], mine: str) -> list[ClaimView]:
        """Return the allocated claims, but the one with uid ``mine``, that hold any of ``devices``."""
        return [claim for device in devices for claim in self.claims.get(device, ()) if claim.uid != mine]


def build_ledger(jobs: Iterable[SlurmJob], claims: Iterable[ClaimView]) -> Ledger:
    """Build the ledger of the moment."""
    slurm = {
        (node, index): job.job_id
        for job in jobs
        if job.holds_devices
        for node, held in job.gres.items()
        for index in gpu_indices(held)
    }
    by_device: dict[Device, tuple[ClaimView, ...]] = {}
    for claim in claims:
        for device in claim.devices:
            by_device[device] = (*by_device.get(device, ()), claim)
    return Ledger(slurm=slurm, claims=by_device)


def gpu_indices(held: Iterable[Gres]) -> tuple[int, ...]:
    """Return the GPU indices in an allocation's GRES of one node, ascending."""
    return tuple(sorted(index for gres in held if gres.name == GPU for index in gres.indices or ()))
