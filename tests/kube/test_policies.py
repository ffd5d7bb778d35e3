"""Rights and admission policies on a real API server: who may write what down."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from bridge import wellknown
from bridge.model.slurm import JobState, SlurmJob
from operators.kube.claims import (
    allocated,
    build_claim,
    build_mirror_claim,
    mirror_consumer,
    pod_consumer,
    released,
    unprotected,
)
from operators.kube.client import KubeClient
from operators.kube.errors import Forbidden, Invalid
from operators.kube.mirrors import build_mirror_job
from operators.kube.pods import build_pod
from operators.kube.resources import GANGJOBS, PODS, RESOURCECLAIMS
from tests.kube.builders import device, gang, gangjob, member, pod, roster, template
from tests.kube.realapi import RealApi

As = Callable[[str], KubeClient]
ALONE = "gangbridge alone"
NOW = 1_900_000_000


@pytest.fixture
async def by(real: RealApi) -> AsyncIterator[As]:
    """Return clients by identity; alice and the scheduler may do anything here that RBAC can give them."""
    clients: dict[str, KubeClient] = {}

    def client(user: str) -> KubeClient:
        if user not in clients:
            clients[user] = KubeClient(real.connection(user))
        return clients[user]

    for user in ("alice", "system:kube-scheduler", "system:serviceaccount:kube-system:resource-claim-controller"):
        binding = f"all-{user.replace(':', '-')}"
        real.kubectl("create", "clusterrolebinding", binding, "--clusterrole=cluster-admin", f"--user={user}")
    yield client
    for opened in clients.values():
        await opened.close()


async def gang_claim(by: As, name: str) -> dict[str, Any]:
    claim = await by("operator").create(RESOURCECLAIMS, build_claim(gang(name, uid=f"u-{name}"), member()))
    consumer = pod_consumer(claim["metadata"]["name"].removesuffix("-gpu"), "pod-uid")
    full = allocated(claim, devices=[device(0), device(1)], node="k8s-gpu-0", consumer=consumer, now=NOW)
    return await by("operator").replace_status(RESOURCECLAIMS, full)


async def mirror_claim(by: As, name: str) -> dict[str, Any]:
    built = build_mirror_claim(name, job_id=7, device_class=wellknown.DRIVER, count=1)
    claim = await by("operator").create(RESOURCECLAIMS, built)
    full = allocated(claim, devices=[device(0)], node="n", consumer=mirror_consumer("slurm-7", "u"), now=NOW)
    return await by("operator").replace_status(RESOURCECLAIMS, full)


async def stray_claim(by: As, name: str) -> dict[str, Any]:
    claim = build_mirror_claim(name, job_id=7, device_class=wellknown.DRIVER, count=1)
    claim["metadata"] = {"name": name, "namespace": "default", "finalizers": [wellknown.DELETE_PROTECTION]}
    return await by("alice").create(RESOURCECLAIMS, claim)


@pytest.mark.parametrize("user", ["scheduler", "alice", "admin", "claim-controller"])
async def test_nobody_else_allocates_our_devices(by: As, name: str, user: str) -> None:
    claim = await stray_claim(by, name)
    full = allocated(claim, devices=[device(3)], node="n", consumer=pod_consumer("p", "u"), now=NOW)
    with pytest.raises(Invalid, match=f"status.allocation.*{ALONE}"):
        await by(user).replace_status(RESOURCECLAIMS, full)


async def test_devices_of_other_drivers_are_nobodys_business(by: As, name: str) -> None:
    claim = await stray_claim(by, name)
    full = allocated(claim, devices=[device(3)], node="n", consumer=pod_consumer("p", "u"), now=NOW)
    full["status"]["allocation"]["devices"]["results"][0]["driver"] = "nic.example.com"
    stored = await by("scheduler").replace_status(RESOURCECLAIMS, full)
    await by("scheduler").replace_status(RESOURCECLAIMS, released(stored))


async def test_scheduler_cannot_deallocate_a_gangs_claim(by: As, name: str) -> None:
    """Its PostFilter does that to claims of pods that it cannot place."""
    claim = await gang_claim(by, name)
    with pytest.raises(Invalid, match="cleared by gangbridge"):
        await by("scheduler").replace_status(RESOURCECLAIMS, released(claim))


async def test_claim_controller_does_not_free_the_devices_of_a_pod_that_vanished(by: As, name: str) -> None:
    claim = await gang_claim(by, name)
    with pytest.raises(Invalid, match="proven to have stopped"):
        await by("claim-controller").replace_status(RESOURCECLAIMS, released(claim))


async def test_scheduler_may_take_the_pod_out_and_put_it_back(by: As, name: str) -> None:
    claim = await gang_claim(by, name)
    (entry,) = claim["status"]["reservedFor"]
    without = claim | {"status": {"allocation": claim["status"]["allocation"]}}
    stored = await by("scheduler").replace_status(RESOURCECLAIMS, without)
    again = stored | {"status": {**stored["status"], "reservedFor": [entry]}}
    assert (await by("scheduler").replace_status(RESOURCECLAIMS, again))["status"]["reservedFor"] == [entry]


async def test_another_pod_cannot_share_a_gangs_claim(by: As, name: str) -> None:
    claim = await gang_claim(by, name)
    both = [*claim["status"]["reservedFor"], pod_consumer("stray", "other")]
    with pytest.raises(Invalid, match=r"status\.reservedFor"):
        await by("scheduler").replace_status(
            RESOURCECLAIMS, claim | {"status": {**claim["status"], "reservedFor": both}}
        )


@pytest.mark.parametrize("user", ["scheduler", "alice", "claim-controller"])
async def test_status_of_a_mirror_claim_is_ours(by: As, name: str, user: str) -> None:
    claim = await mirror_claim(by, name)
    with pytest.raises(Invalid, match="gangbridge"):
        await by(user).replace_status(RESOURCECLAIMS, released(claim))


@pytest.mark.parametrize("user", ["alice", "admin"])
async def test_users_cannot_strip_or_delete_claims_of_ours(by: As, name: str, user: str) -> None:
    for claim in (await gang_claim(by, name), await mirror_claim(by, f"{name}-m")):
        meta = claim["metadata"]
        with pytest.raises(Invalid, match=ALONE):
            await by(user).replace(RESOURCECLAIMS, unprotected(claim))
        with pytest.raises(Invalid, match=ALONE):
            await by(user).patch(
                RESOURCECLAIMS, meta["name"], {"metadata": {"labels": None}}, namespace=meta["namespace"]
            )
        with pytest.raises(Invalid, match=ALONE):
            await by(user).delete(RESOURCECLAIMS, meta["name"], namespace=meta["namespace"])


async def test_namespace_can_be_deleted(by: As, name: str) -> None:
    claim = await gang_claim(by, name)
    marked = await by("namespace-controller").delete(RESOURCECLAIMS, claim["metadata"]["name"], namespace="default")
    assert marked is not None
    assert marked["status"]["allocation"], "the finalizer keeps the devices"


async def test_users_cannot_pass_claims_off_as_ours(by: As, name: str) -> None:
    with pytest.raises(Invalid, match=ALONE):
        await by("alice").create(RESOURCECLAIMS, build_claim(gang(name), member()))
    await stray_claim(by, name)
    label = {"metadata": {"labels": {wellknown.MANAGED_BY: "gangbridge"}}}
    with pytest.raises(Invalid, match=ALONE):
        await by("alice").patch(RESOURCECLAIMS, name, label, namespace="default")


async def test_users_do_as_they_like_with_their_own_claims(by: As, name: str) -> None:
    claim = await stray_claim(by, name)
    bare = await by("alice").replace(RESOURCECLAIMS, unprotected(claim))
    assert await by("alice").delete(RESOURCECLAIMS, bare["metadata"]["name"], namespace="default") is None


async def make_mirror(by: As, job_id: int) -> dict[str, Any]:
    job = SlurmJob(job_id=job_id, state=JobState.RUNNING, user="bob", partition="gpu")
    return await by("operator").create(GANGJOBS, build_mirror_job(job, "d"))


async def test_mirror_can_be_edited_by_nobody_else(by: As) -> None:
    mirror = await make_mirror(by, 1001)
    name, space = mirror["metadata"]["name"], wellknown.MIRROR_NAMESPACE
    for user in ("alice", "admin"):
        with pytest.raises(Invalid, match=ALONE):
            await by(user).patch(GANGJOBS, name, {"spec": {"queue": "other"}}, namespace=space)
        with pytest.raises(Invalid, match=ALONE):
            await by(user).patch(GANGJOBS, name, {"metadata": {"labels": {"a": "b"}}}, namespace=space)
        with pytest.raises(Invalid, match=ALONE):
            await by(user).patch(GANGJOBS, name, {"status": {"phase": "Failed"}}, namespace=space, subresource="status")
        with pytest.raises(Invalid, match=ALONE):
            await by(user).delete(GANGJOBS, name, namespace=space)
    status = {"status": {"phase": "Running"}}
    assert await by("operator").patch(GANGJOBS, name, status, namespace=space, subresource="status")
    assert await by("operator").patch(GANGJOBS, name, {"spec": {"queue": "moved"}}, namespace=space)
    assert await by("operator").delete(GANGJOBS, name, namespace=space) is None


async def test_mirrors_cannot_be_forged(by: As, name: str) -> None:
    with pytest.raises(Invalid, match=ALONE):
        await by("alice").create(GANGJOBS, gangjob(name, origin="Slurm"))
    with pytest.raises(Invalid, match=ALONE):
        await by("alice").create(GANGJOBS, gangjob(name, wellknown.MIRROR_NAMESPACE))
    await by("alice").create(GANGJOBS, gangjob(name))
    with pytest.raises(Invalid):
        await by("alice").patch(GANGJOBS, name, {"spec": {"origin": "Slurm"}}, namespace="default")
    assert await by("alice").delete(GANGJOBS, name, namespace="default") is None


async def test_origin_of_a_mirror_stays(by: As) -> None:
    mirror = await make_mirror(by, 1002)
    name = mirror["metadata"]["name"]
    with pytest.raises(Invalid, match=r"spec\.origin"):
        await by("operator").patch(
            GANGJOBS, name, {"spec": {"origin": "Kubernetes"}}, namespace=wellknown.MIRROR_NAMESPACE
        )


async def test_users_cannot_pass_pods_off_as_a_gangs(by: As, name: str) -> None:
    forged = pod(name)
    forged["metadata"]["labels"] = {wellknown.GANG_UID: "u"}
    with pytest.raises(Invalid, match=ALONE):
        await by("alice").create(PODS, forged)
    await by("alice").create(PODS, pod(name))
    label = {"metadata": {"labels": {wellknown.GANG_UID: "u"}}}
    with pytest.raises(Invalid, match=ALONE):
        await by("alice").patch(PODS, name, label, namespace="default")


async def test_users_may_touch_a_gangs_pod_but_not_its_identity(by: As, name: str) -> None:
    built = build_pod(gang(name, uid=f"u-{name}"), roster(), member(), template())
    stored = await by("operator").create(PODS, built)
    where = stored["metadata"]["name"]
    for label in (wellknown.GANG_UID, wellknown.RANK, wellknown.ATTEMPT):
        with pytest.raises(Invalid, match=ALONE):
            await by("alice").patch(PODS, where, {"metadata": {"labels": {label: None}}}, namespace="default")
    await by("alice").patch(PODS, where, {"metadata": {"annotations": {"note": "mine"}}}, namespace="default")
    stays = await by("alice").delete(PODS, where, namespace="default")
    assert stays["metadata"]["finalizers"] == [wellknown.FINALIZER]
    for user in ("alice", "admin"):
        with pytest.raises(Invalid, match="proven to have stopped"):
            await by(user).patch(PODS, where, {"metadata": {"finalizers": None}}, namespace="default")
    await by("operator").patch(PODS, where, {"metadata": {"finalizers": None}}, namespace="default")


async def test_allocating_needs_the_binding_right(real: RealApi, by: As, name: str) -> None:
    """Since 1.36 a right on resourceclaims/status is not enough; the refusal is Invalid, not Forbidden."""
    role = f"status-only-{name}"
    rules = ("create", "clusterrole", role, "--verb=get,update", "--resource=resourceclaims.resource.k8s.io/status")
    assert real.kubectl(*rules).returncode == 0
    bound = real.kubectl("create", "clusterrolebinding", role, f"--clusterrole={role}", "--user=bob")
    assert bound.returncode == 0
    claim = await stray_claim(by, name)
    full = allocated(claim, devices=[device(3)], node="n", consumer=pod_consumer("p", "u"), now=NOW)
    full["status"]["allocation"]["devices"]["results"][0]["driver"] = "nic.example.com"
    with pytest.raises(Invalid, match="resourceclaims/binding"):
        await by("bob").replace_status(RESOURCECLAIMS, full)


async def test_driver_reads_claims_and_writes_nothing(by: As, name: str) -> None:
    claim = await gang_claim(by, name)
    where = claim["metadata"]["name"]
    assert await by("driver").get(RESOURCECLAIMS, where, "default")
    with pytest.raises(Forbidden):
        await by("driver").delete(RESOURCECLAIMS, where, namespace="default")
    with pytest.raises(Forbidden):
        await by("driver").replace_status(RESOURCECLAIMS, released(claim))
