"""Carry out actions. Each ends in the state it names, even if an earlier life of ours was there first."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any, assert_never

import structlog

from bridge import wellknown
from bridge.lifecycle import actions as act
from bridge.lifecycle.actions import Action, Stages
from bridge.lifecycle.names import mirror_name
from bridge.model.gang import Gang
from bridge.model.kube import PodView
from bridge.slurm.port import SlurmPort
from operators import failpoints
from operators.kube.claims import (
    allocated,
    build_claim,
    build_mirror_claim,
    mirror_consumer,
    pod_consumer,
    released,
    unprotected,
)
from operators.kube.client import JSON_PATCH, KubeClient
from operators.kube.errors import AlreadyExists, Invalid, NotFound
from operators.kube.mirrors import build_mirror_job
from operators.kube.pods import build_pod, build_service, build_trial_pod, ungate_patch
from operators.kube.resources import (
    GANGJOBS,
    NODES,
    PODS,
    RESOURCECLAIMS,
    RESOURCESLICES,
    SERVICES,
    Resource,
)
from operators.kube.slices import build_slices
from operators.observer import Observer
from operators.status import mirror_status

log = structlog.get_logger()

Object = dict[str, Any]

_SLURM_WRITES = (
    act.SubmitHold,
    act.RepinHold,
    act.CompleteHold,
    act.CancelHold,
    act.SetGuard,
    act.DrainNodes,
    act.ResumeNodes,
)


def _count(claim: Mapping[str, Any]) -> int:
    requests = claim["spec"]["devices"].get("requests") or []
    return sum(int((request.get("exactly") or {}).get("count") or 0) for request in requests)


def _at(raw: Mapping[str, Any]) -> Object:
    """Return the metadata of a patch that holds only for the version that was read."""
    return {"resourceVersion": raw["metadata"]["resourceVersion"]}


class Applier:
    """Effects on both servers; what they answer goes straight to the observer, ahead of its watches."""

    def __init__(self, client: KubeClient, slurm: SlurmPort, observer: Observer) -> None:
        self._client = client
        self._slurm = slurm
        self._observer = observer
        self.touched_slurm = False
        """Set when a call that changes slurmctld was begun; whoever reads it clears it."""

    async def run(self, stages: Stages) -> None:
        """Carry out ``stages`` in order; the first error of a stage is raised when all of its actions have ended."""
        for stage in stages:
            results = await asyncio.gather(*(self._one(action) for action in stage), return_exceptions=True)
            for result in results:
                if isinstance(result, BaseException):
                    raise result

    async def _one(self, action: Action) -> None:
        name = type(action).__name__
        if isinstance(action, _SLURM_WRITES):
            self.touched_slurm = True
        failpoints.reach(f"before:{name}")
        await self._do(action)
        failpoints.reach(f"after:{name}")

    async def _do(self, action: Action) -> None:  # noqa: C901, PLR0912, PLR0915 - a few lines per action
        match action:
            case act.AddFinalizer():
                await self._add_finalizer(action.gang)
            case act.RemoveFinalizer():
                await self._remove_finalizer(action.gang)
            case act.DryRunPod():
                pod = build_trial_pod(action.gang, self._template(action.gang))
                await self._client.create(PODS, pod, dry_run=True)
            case act.SubmitHold():
                await self._submit(action)
            case act.RepinHold():
                await self._slurm.repin(action.job_id, action.nodes)
                log.info("hold_repinned", job_id=action.job_id, nodes=action.nodes)
            case act.CompleteHold():
                await self._slurm.complete(action.job_id, action.status)
                log.info("hold_completed", job_id=action.job_id, exit_code=action.status.code)
            case act.CancelHold():
                await self._slurm.cancel(action.job_id)
                log.info("hold_cancelled", job_id=action.job_id)
            case act.SetGuard():
                await self._slurm.set_extra(action.nodes, action.text)
            case act.DrainNodes():
                await self._slurm.drain(action.nodes, action.reason)
                log.warning("nodes_fenced", nodes=action.nodes, reason=action.reason)
            case act.ResumeNodes():
                await self._slurm.resume(action.nodes, action.reason)
                log.info("nodes_resumed", nodes=action.nodes, reason=action.reason)
            case act.CreateService():
                await self._create(SERVICES, build_service(action.gang))
            case act.CreatePod():
                template = self._template(action.gang)
                await self._create(PODS, build_pod(action.gang, action.roster, action.member, template))
            case act.CreateClaim():
                await self._create(RESOURCECLAIMS, build_claim(action.gang, action.member))
            case act.AllocateClaim():
                await self._allocate(action)
            case act.UngatePod():
                await self._ungate(action.pod)
            case act.DeletePod():
                await self._delete(PODS, action.pod.namespace, action.pod.name, action.pod.uid)
            case act.ReleasePod():
                await self._release(action.pod)
            case act.FreeClaim():
                await self._free(action)
            case act.WriteMirror():
                await self._write_mirror(action)
            case act.DeleteMirror():
                mirror = action.mirror
                await self._delete(GANGJOBS, mirror.namespace, mirror.name, mirror.uid)
            case act.CreateMirrorClaim():
                claim = build_mirror_claim(
                    action.name, job_id=action.job.job_id, device_class=action.device_class, count=action.count
                )
                await self._create(RESOURCECLAIMS, claim)
            case act.PublishPool():
                await self._publish(action)
            case act.TaintNode():
                await self._taint(action.kube_node)
            case _:
                assert_never(action)

    def _gang(self, gang: Gang) -> Object:
        raw = self._observer.raw(GANGJOBS, gang.namespace, gang.name)
        if raw is None or raw["metadata"]["uid"] != gang.uid:
            raise NotFound(404, "NotFound", f"gangjob {gang.namespace}/{gang.name} is gone")
        return raw

    def _template(self, gang: Gang) -> Mapping[str, Any]:
        template: Mapping[str, Any] = self._gang(gang)["spec"]["roles"][0]["template"]
        return template

    async def _create(self, resource: Resource, obj: Object) -> None:
        meta = obj["metadata"]
        try:
            stored = await self._client.create(resource, obj)
        except AlreadyExists:
            # Names carry uid and attempt: what exists is what an earlier life of ours made.
            stored = await self._client.get(resource, meta["name"], meta.get("namespace"))
            if not meta["labels"].items() <= (stored["metadata"].get("labels") or {}).items():
                problem = f"{resource.plural} {meta['name']} exists and is not ours"
                raise Invalid(422, "Invalid", problem) from None
        self._observer.observe(resource, stored)

    async def _delete(self, resource: Resource, namespace: str, name: str, uid: str) -> Object | None:
        """Delete exactly this object; return it when a finalizer or a grace period keeps it."""
        known = {"metadata": {"namespace": namespace, "name": name, "uid": uid}}
        try:
            stays = await self._client.delete(resource, name, namespace=namespace, uid=uid)
        except NotFound:
            stays = None
        if stays is None:
            self._observer.forget(resource, known)
        else:
            self._observer.observe(resource, stays)
        return stays

    async def _add_finalizer(self, gang: Gang) -> None:
        """Raise ``NotFound`` for a gang that went meanwhile: nothing may be submitted for it."""
        raw = self._gang(gang)
        finalizers = [*raw["metadata"].get("finalizers", ()), wellknown.FINALIZER]
        self._observer.observe(GANGJOBS, await self._patch_finalizers(raw, finalizers))

    async def _remove_finalizer(self, gang: Gang) -> None:
        raw = self._observer.raw(GANGJOBS, gang.namespace, gang.name)
        if raw is None or raw["metadata"]["uid"] != gang.uid:
            return
        kept = [name for name in raw["metadata"].get("finalizers", ()) if name != wellknown.FINALIZER]
        try:
            stored = await self._patch_finalizers(raw, kept)
        except NotFound:
            # Its end went by unseen; the list that would tell comes once a minute.
            self._observer.forget(GANGJOBS, raw)
            return
        if kept:
            self._observer.observe(GANGJOBS, stored)
        else:
            self._observer.forget(GANGJOBS, stored)

    async def _patch_finalizers(self, raw: Object, finalizers: list[str]) -> Object:
        meta = raw["metadata"]
        patch = {"metadata": {**_at(raw), "finalizers": finalizers}}
        return await self._client.patch(GANGJOBS, meta["name"], patch, namespace=meta["namespace"])

    async def _submit(self, action: act.SubmitHold) -> None:
        job_id = await self._slurm.allocate(action.request)
        log.info(
            "hold_submitted",
            gang=f"{action.gang.namespace}/{action.gang.name}",
            attempt=action.request.marker.key.attempt,
            job_id=job_id,
            nodes=action.request.nodes,
        )

    async def _allocate(self, action: act.AllocateClaim) -> None:
        raw = self._observer.raw(RESOURCECLAIMS, action.claim.namespace, action.claim.name)
        if raw is None or raw["metadata"]["uid"] != action.claim.uid:
            raise NotFound(404, "NotFound", f"claim {action.claim.name} is gone")
        asked = _count(raw)
        if asked != len(action.devices):
            problem = f"claim {action.claim.name} asks for {asked} devices, {len(action.devices)} are to be given"
            raise Invalid(422, "Invalid", problem)
        build = pod_consumer if isinstance(action.consumer, PodView) else mirror_consumer
        consumer = build(action.consumer.name, action.consumer.uid)
        claim = allocated(raw, devices=action.devices, node=action.node, consumer=consumer, now=int(time.time()))
        self._observer.observe(RESOURCECLAIMS, await self._client.replace_status(RESOURCECLAIMS, claim))

    async def _ungate(self, pod: PodView) -> None:
        try:
            stored = await self._client.patch(
                PODS, pod.name, ungate_patch(pod.uid), namespace=pod.namespace, content_type=JSON_PATCH
            )
        except Invalid:
            stored = await self._client.get(PODS, pod.name, pod.namespace)
        self._observer.observe(PODS, stored)

    async def _release(self, pod: PodView) -> None:
        """Take our finalizer off exactly this pod; one that was deleted before goes with it."""
        raw = self._observer.raw(PODS, pod.namespace, pod.name)
        if raw is None or raw["metadata"]["uid"] != pod.uid:
            return
        meta = raw["metadata"]
        kept = [name for name in meta.get("finalizers", ()) if name != wellknown.FINALIZER]
        patch = {"metadata": _at(raw) | {"finalizers": kept}}
        try:
            stored = await self._client.patch(PODS, pod.name, patch, namespace=pod.namespace)
        except NotFound:
            self._observer.forget(PODS, raw)
            return
        if not kept and meta.get("deletionGracePeriodSeconds") == 0:
            self._observer.forget(PODS, stored)
        else:
            self._observer.observe(PODS, stored)

    async def _free(self, action: act.FreeClaim) -> None:
        """Delete the claim, then drop the finalizers that keep it: its devices are free with the last write."""
        view = action.claim
        raw = self._observer.raw(RESOURCECLAIMS, view.namespace, view.name)
        if raw is None or raw["metadata"]["uid"] != view.uid:
            return
        if "deletionTimestamp" not in raw["metadata"]:
            stays = await self._delete(RESOURCECLAIMS, view.namespace, view.name, view.uid)
            if stays is None:
                return
            raw = stays
        try:
            raw = await self._client.replace(RESOURCECLAIMS, unprotected(raw))
        except NotFound:
            self._observer.forget(RESOURCECLAIMS, raw)
            return
        if not raw["metadata"].get("finalizers"):
            self._observer.forget(RESOURCECLAIMS, raw)
            return
        self._observer.observe(RESOURCECLAIMS, raw)
        if raw.get("status"):
            # Somebody else's finalizer keeps the object; it is not to keep the devices.
            self._observer.observe(RESOURCECLAIMS, await self._client.replace_status(RESOURCECLAIMS, released(raw)))

    async def _write_mirror(self, action: act.WriteMirror) -> None:
        name, where = mirror_name(action.job), wellknown.MIRROR_NAMESPACE
        if action.existing is None:
            # The digest is written last: a crash in between leaves a mirror that is written again.
            await self._create(GANGJOBS, build_mirror_job(action.job, ""))
        raw = self._observer.raw(GANGJOBS, where, name)
        if raw is None:
            raise NotFound(404, "NotFound", f"mirror {name} is gone")
        patch = {"metadata": _at(raw), "status": mirror_status(action.job)}
        raw = await self._client.patch(GANGJOBS, name, patch, namespace=where, subresource="status")
        # Each at the version of the one before: else a late status could stay under a newer digest.
        digest = {"metadata": {**_at(raw), "annotations": {wellknown.DIGEST: action.digest}}}
        self._observer.observe(GANGJOBS, await self._client.patch(GANGJOBS, name, digest, namespace=where))

    async def _publish(self, action: act.PublishPool) -> None:
        for obj in build_slices(
            kube_node=action.kube_node,
            slurm_node=action.slurm_node,
            devices=action.devices,
            generation=action.generation,
        ):
            stored = await self._client.apply(RESOURCESLICES, obj, force=True)
            self._observer.observe(RESOURCESLICES, stored)

    async def _taint(self, node: str) -> None:
        raw = self._observer.raw(NODES, "", node)
        if raw is None:
            return
        taints = [*(raw["spec"].get("taints") or []), {"key": wellknown.TAINT, "effect": "NoSchedule"}]
        patch = {"metadata": _at(raw), "spec": {"taints": taints}}
        self._observer.observe(NODES, await self._client.patch(NODES, node, patch))
