"""sbatch jobs in Kubernetes: one GangJob per job, one allocated claim per node it holds devices on."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bridge.accounting.devicemap import GPU
from bridge.accounting.ledger import gpu_indices
from bridge.lifecycle.actions import (
    Action,
    AllocateClaim,
    CreateMirrorClaim,
    DeleteMirror,
    FreeClaim,
    Stages,
    WriteMirror,
)
from bridge.lifecycle.admission import MAX_DEVICES_PER_POD
from bridge.lifecycle.fleetview import FleetView
from bridge.lifecycle.names import mirror_claim_name, mirror_claim_stem
from bridge.lifecycle.observed import own_holds
from bridge.model.kube import ClaimView, Device, MirrorView
from bridge.model.slurm import SlurmJob
from bridge.model.snapshot import Snapshot
from bridge.wellknown import MIRROR_NAMESPACE


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What a job holds on one node, as much of it as one claim can show."""

    claim_name: str
    kube_node: str
    device_class: str
    devices: tuple[Device, ...]


def mirror_jobs(snapshot: Snapshot, view: FleetView) -> dict[int, Stages]:
    """Return what to do for every mirrored job, by job id. Only called while slurmctld answers."""
    mirrors = {mirror.job_id: mirror for mirror in snapshot.mirrors if mirror.namespace == MIRROR_NAMESPACE}
    claims: dict[int, list[ClaimView]] = {}
    for claim in snapshot.claims:
        if claim.job_id:
            claims.setdefault(claim.job_id, []).append(claim)
    ours = {job.job_id for jobs in own_holds(snapshot).values() for job in jobs}
    wanted = {
        job_id: job
        for job_id, job in view.slurm.jobs.items()
        # NB: a completing job shows no GRES any more; that it has a mirror says that it had GPUs.
        if job_id not in ours and (is_mirrored(job) or (job.completing and job_id in mirrors))
    }
    work: dict[int, Stages] = {}
    for job_id in sorted(wanted.keys() | mirrors.keys() | claims.keys()):
        job, mirror = wanted.get(job_id), mirrors.get(job_id)
        stages = _mirror(job, mirror, sorted(claims.get(job_id, []), key=lambda claim: claim.name), view)
        if any(stages):
            work[job_id] = stages
    return work


def is_mirrored(job: SlurmJob) -> bool:
    """Return whether a job of somebody else is to be shown: not yet over, and about GPUs."""
    if not job.is_live:
        return False
    held = any(gres.name == GPU for gres_list in job.gres.values() for gres in gres_list)
    return held or f"gres/{GPU}" in job.gres_requested or f"{GPU}:" in job.gres_requested


def digest(job: SlurmJob) -> str:
    """Return what identifies the image of ``job``: it changes when anything that is shown changes."""
    shown = (
        job.job_id, job.submit_time, job.start_time, job.restart_count, job.state, job.completing, job.reason,
        job.time_limit_min, job.user, job.account, job.partition, job.qos, job.nodes, job.name, job.gres_requested,
        sorted((node, gres) for node, gres in job.gres.items()),
    )  # fmt: skip
    return hashlib.sha256(repr(shown).encode()).hexdigest()[:16]


def shares(job: SlurmJob, view: FleetView) -> list[Share]:
    """Return the claims that ``job`` should have: nodes whose indices cannot be mapped get none, never a guess."""
    found: list[Share] = []
    if not job.holds_devices:
        return found
    for name in sorted(job.gres):
        node = view.nodes.get(name)
        if node is None or node.map is None:
            continue
        by_class: dict[str, list[Device]] = {}
        for index in gpu_indices(job.gres[name]):
            if index in node.map.devices:
                by_class.setdefault(node.map.classes[index], []).append(node.map.devices[index])
        chunks = [(class_, part) for class_ in sorted(by_class) for part in _chunks(by_class[class_])]
        found += [
            Share(
                claim_name=mirror_claim_name(job, name, ordinal),
                kube_node=node.kube.name,
                device_class=class_,
                devices=tuple(part),
            )
            for ordinal, (class_, part) in enumerate(chunks)
        ]
    return found


def _chunks(devices: Sequence[Device]) -> list[Sequence[Device]]:
    return [devices[start : start + MAX_DEVICES_PER_POD] for start in range(0, len(devices), MAX_DEVICES_PER_POD)]


def _mirror(job: SlurmJob | None, mirror: MirrorView | None, claims: list[ClaimView], view: FleetView) -> Stages:
    wanted = {share.claim_name: share for share in shares(job, view)} if job is not None else {}
    unsure = _unreadable(job, view) if job is not None else frozenset()
    stale: list[Action] = [
        FreeClaim(claim=claim)
        for claim in claims
        if claim.name not in wanted and claim.name.rpartition("-")[0] not in unsure
    ]
    if stale:
        return (stale,)
    recycled = job is not None and mirror is not None and mirror.submit_time != (job.submit_time or 0)
    if mirror is not None and (job is None or recycled):
        return ([DeleteMirror(mirror=mirror)],) if not claims else ([FreeClaim(claim=claim) for claim in claims],)
    if job is None:
        return ()
    write: list[Action] = []
    if mirror is None or mirror.digest != digest(job):
        write = [WriteMirror(job=job, digest=digest(job), existing=mirror)]
    if mirror is None or mirror.deleting:
        return (write,)
    return (write, _claim_actions(job, mirror, {claim.name: claim for claim in claims}, wanted, view))


def _unreadable(job: SlurmJob, view: FleetView) -> frozenset[str]:
    """Return the stems of the claims on nodes of which it cannot be told what ``job`` holds there: they are kept.

    slurmctld shows no indices while an epilog runs; a pool may be incomplete, or a Node object away, for a moment.
    """
    if not job.holds_devices:
        return frozenset()
    return frozenset(mirror_claim_stem(job, name) for name in job.nodes if view.devices_of(job, name) is None)


def _claim_actions(
    job: SlurmJob, mirror: MirrorView, have: Mapping[str, ClaimView], wanted: Mapping[str, Share], view: FleetView
) -> list[Action]:
    actions: list[Action] = []
    for name, share in wanted.items():
        claim = have.get(name)
        if claim is None:
            actions.append(
                CreateMirrorClaim(
                    mirror=mirror, job=job, name=name, device_class=share.device_class, count=len(share.devices)
                )
            )
        elif claim.deleting and not claim.is_allocated:
            # Nothing can be reserved in it any more; only our finalizer keeps it.
            actions.append(FreeClaim(claim=claim))
        elif not claim.is_allocated and not view.ledger.other_claims(share.devices, claim.uid):
            actions.append(AllocateClaim(claim=claim, node=share.kube_node, devices=share.devices, consumer=mirror))
    return actions
