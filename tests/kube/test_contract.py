"""The API server's rules that gangbridge leans on, asked of the fake and of a real one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest

from bridge import wellknown
from bridge.model.kube import PoolDevice
from operators.kube.claims import allocated, build_claim, mirror_consumer, pod_consumer, released, unprotected
from operators.kube.client import JSON_PATCH, KubeClient
from operators.kube.errors import AlreadyExists, Conflict, Expired, Invalid, KubeError, NotFound
from operators.kube.pods import build_pod, build_service, build_trial_pod, ungate_patch
from operators.kube.resources import GANGJOBS, PODS, RESOURCECLAIMS, RESOURCESLICES, SERVICES
from operators.kube.slices import build_slices
from tests.kube.builders import device, gang, gangjob, member, pod, roster, template

NOW = 1_900_000_000


async def first(events: AsyncIterator[tuple[str, Any]]) -> tuple[str, Any]:
    """Return the next event that is no bookmark."""
    async for event, obj in events:
        if event != "BOOKMARK":
            return event, obj
    raise AssertionError("the watch ended")


async def make_claim(server: KubeClient, name: str, **changes: Any) -> dict[str, Any]:
    return await server.create(RESOURCECLAIMS, build_claim(gang(name), member()) | changes)


async def make_allocated(server: KubeClient, name: str) -> dict[str, Any]:
    claim = await make_claim(server, name)
    consumer = pod_consumer(f"{name}-pod", "uid-1")
    full = allocated(claim, devices=[device(0), device(1)], node="k8s-gpu-0", consumer=consumer, now=NOW)
    return await server.replace_status(RESOURCECLAIMS, full)


async def test_create_drops_status(server: KubeClient, name: str) -> None:
    claim = build_claim(gang(name), member())
    full = allocated(claim, devices=[device(0), device(1)], node="n", consumer=pod_consumer("p", "u"), now=NOW)
    stored = await server.create(RESOURCECLAIMS, full)
    assert not stored.get("status")
    assert stored["metadata"]["finalizers"] == [wellknown.DELETE_PROTECTION]


async def test_create_twice_is_already_exists(server: KubeClient, name: str) -> None:
    await make_claim(server, name)
    with pytest.raises(AlreadyExists):
        await make_claim(server, name)


async def test_dry_run_stores_nothing(server: KubeClient, name: str) -> None:
    trial = build_trial_pod(gang(name), template())
    assert (await server.create(PODS, trial, dry_run=True))["metadata"]["name"] == trial["metadata"]["name"]
    with pytest.raises(NotFound):
        await server.get(PODS, trial["metadata"]["name"], "default")


async def test_dry_run_names_the_wrong_field(server: KubeClient, name: str) -> None:
    bad = template()
    bad["spec"]["containers"][0]["resources"] = {"claims": [{"name": "nothing"}]}
    with pytest.raises(Invalid, match=r"claims.*Not found.*nothing"):
        await server.create(PODS, build_trial_pod(gang(name), bad), dry_run=True)


async def test_stale_write_is_a_conflict(server: KubeClient, name: str) -> None:
    old = await server.create(GANGJOBS, gangjob(name))
    await server.patch(GANGJOBS, name, {"metadata": {"labels": {"a": "b"}}}, namespace="default")
    with pytest.raises(Conflict):
        await server.replace_status(GANGJOBS, old | {"status": {"phase": "Queued"}})


async def test_replace_without_version_is_a_defect_of_ours(server: KubeClient, name: str) -> None:
    claim = await make_claim(server, name)
    del claim["metadata"]["resourceVersion"]
    with pytest.raises(AssertionError, match="resourceVersion"):
        await server.replace_status(RESOURCECLAIMS, claim)


async def test_status_and_spec_do_not_mix(server: KubeClient, name: str) -> None:
    stored = await server.create(GANGJOBS, gangjob(name))
    changed = stored | {"spec": stored["spec"] | {"queue": "other"}, "status": {"phase": "Queued"}}
    after = await server.replace_status(GANGJOBS, changed)
    assert (after["spec"]["queue"], after["status"]["phase"]) == ("gpu", "Queued")
    after["metadata"]["labels"] = {"a": "b"}
    again = await server.replace(GANGJOBS, after | {"status": {"phase": "Failed"}})
    assert again["status"]["phase"] == "Queued"
    assert again["metadata"]["labels"] == {"a": "b"}


async def test_status_write_cannot_touch_metadata_of_a_claim(server: KubeClient, name: str) -> None:
    claim = await make_claim(server, name)
    claim["metadata"] |= {"finalizers": [], "labels": {}}
    after = await server.replace_status(RESOURCECLAIMS, claim)
    assert after["metadata"]["finalizers"] == [wellknown.DELETE_PROTECTION]


async def test_a_write_that_changes_nothing_keeps_the_version(server: KubeClient, name: str) -> None:
    stored = await server.create(GANGJOBS, gangjob(name))
    first = await server.replace_status(GANGJOBS, stored | {"status": {"phase": "Queued"}})
    again = await server.replace_status(GANGJOBS, first)
    assert again["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


async def test_unknown_status_field_is_refused(server: KubeClient, name: str) -> None:
    stored = await server.create(GANGJOBS, gangjob(name))
    with pytest.raises(KubeError, match=r"status\.faze"):
        await server.replace_status(GANGJOBS, stored | {"status": {"faze": "Queued"}})


async def test_defaults_are_filled_in(server: KubeClient, name: str) -> None:
    stored = await server.create(GANGJOBS, gangjob(name))
    assert stored["spec"]["origin"] == "Kubernetes"
    assert stored["spec"]["failurePolicy"] == {"maxRestarts": 0}


async def test_allocation_is_written_once_and_as_planned(server: KubeClient, name: str) -> None:
    claim = await make_allocated(server, name)
    allocation = claim["status"]["allocation"]
    assert [result["device"] for result in allocation["devices"]["results"]] == ["gpu-0", "gpu-1"]
    assert allocation["allocationTimestamp"] == "2030-03-17T17:46:40Z"
    assert claim["status"]["reservedFor"] == [pod_consumer(f"{name}-pod", "uid-1")]
    other = allocated(claim, devices=[device(2), device(3)], node="n", consumer=pod_consumer("p", "u"), now=NOW)
    with pytest.raises(Invalid, match="cannot be modified once set"):
        await server.replace_status(RESOURCECLAIMS, other)


async def test_allocation_can_be_released_and_the_claim_let_go(server: KubeClient, name: str) -> None:
    claim = await make_allocated(server, name)
    free = await server.replace_status(RESOURCECLAIMS, released(claim))
    assert not free.get("status")
    bare = await server.replace(RESOURCECLAIMS, unprotected(free))
    assert "finalizers" not in bare["metadata"]
    meta = bare["metadata"]
    gone = await server.delete(
        RESOURCECLAIMS, meta["name"], namespace="default", uid=meta["uid"], resource_version=meta["resourceVersion"]
    )
    assert gone is None


async def test_claim_is_freed_after_it_was_marked_deleted(server: KubeClient, name: str) -> None:
    claim = await make_allocated(server, name)
    marked = await server.delete(RESOURCECLAIMS, claim["metadata"]["name"], namespace="default")
    assert marked is not None
    assert marked["metadata"]["deletionTimestamp"]
    assert marked["status"] == claim["status"]
    free = await server.replace_status(RESOURCECLAIMS, released(marked))
    await server.replace(RESOURCECLAIMS, unprotected(free))
    with pytest.raises(NotFound):
        await server.get(RESOURCECLAIMS, claim["metadata"]["name"], "default")


async def test_no_new_consumer_once_a_claim_is_being_deleted(server: KubeClient, name: str) -> None:
    claim = await make_claim(server, name)
    marked = await server.delete(RESOURCECLAIMS, claim["metadata"]["name"], namespace="default")
    assert marked is not None
    full = allocated(marked, devices=[device(0), device(1)], node="n", consumer=pod_consumer("p", "u"), now=NOW)
    with pytest.raises(Invalid, match="deletionTimestamp"):
        await server.replace_status(RESOURCECLAIMS, full)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        pytest.param({"reservedFor": [pod_consumer("p", "u")]}, "reservedFor", id="consumer-without-allocation"),
        pytest.param({"results": 33}, "results", id="33-devices"),
        pytest.param({"request": "other"}, "request", id="unknown-request"),
        pytest.param(
            {"consumers": [pod_consumer("p", "u"), pod_consumer("q", "u")]}, "reservedFor", id="one-uid-twice"
        ),
    ],
)
async def test_malformed_allocation_is_refused(server: KubeClient, name: str, change: Any, problem: str) -> None:
    claim = await make_claim(server, name)
    full = allocated(claim, devices=[device(0), device(1)], node="n", consumer=pod_consumer("p", "u"), now=NOW)
    status = full["status"]
    results = status["allocation"]["devices"]["results"]
    if "reservedFor" in change:
        del status["allocation"]
    if "results" in change:
        results[:] = [results[0] | {"device": f"gpu-{index}"} for index in range(change["results"])]
    if "request" in change:
        results[0]["request"] = change["request"]
    status["reservedFor"] = change.get("consumers", status["reservedFor"])
    with pytest.raises(Invalid, match=problem):
        await server.replace_status(RESOURCECLAIMS, full)


async def test_foreign_consumer_is_accepted(server: KubeClient, name: str) -> None:
    claim = await make_claim(server, name)
    consumer = mirror_consumer("slurm-1", "u")
    full = allocated(claim, devices=[device(0), device(1)], node="n", consumer=consumer, now=NOW)
    assert (await server.replace_status(RESOURCECLAIMS, full))["status"]["reservedFor"] == [consumer]


async def test_no_new_finalizer_once_an_object_is_being_deleted(server: KubeClient, name: str) -> None:
    claim = await make_claim(server, name)
    marked = await server.delete(RESOURCECLAIMS, claim["metadata"]["name"], namespace="default")
    assert marked is not None
    marked["metadata"]["finalizers"].append(wellknown.FINALIZER)
    with pytest.raises(KubeError, match="finalizers"):
        await server.replace(RESOURCECLAIMS, marked)


async def test_delete_checks_its_preconditions(server: KubeClient, name: str) -> None:
    stored = await server.create(GANGJOBS, gangjob(name))
    with pytest.raises(Conflict):
        await server.delete(GANGJOBS, name, namespace="default", uid="another")
    await server.patch(GANGJOBS, name, {"metadata": {"labels": {"a": "b"}}}, namespace="default")
    version = stored["metadata"]["resourceVersion"]
    with pytest.raises(Conflict):
        await server.delete(GANGJOBS, name, namespace="default", resource_version=version)
    assert await server.delete(GANGJOBS, name, namespace="default", uid=stored["metadata"]["uid"]) is None
    with pytest.raises(NotFound):
        await server.delete(GANGJOBS, name, namespace="default")


async def test_gated_pod_is_ungated_once(server: KubeClient, name: str) -> None:
    built = build_pod(gang(name, uid=f"uid-{name}"), roster(), member(), template())
    del built["metadata"]["ownerReferences"], built["metadata"]["labels"]
    stored = await server.create(PODS, built)
    meta = stored["metadata"]
    assert stored["spec"]["schedulingGates"] == [{"name": wellknown.GATE}]
    with pytest.raises(Invalid):
        await server.patch(PODS, meta["name"], ungate_patch("another"), namespace="default", content_type=JSON_PATCH)
    patch = ungate_patch(meta["uid"])
    free = await server.patch(PODS, meta["name"], patch, namespace="default", content_type=JSON_PATCH)
    assert not free["spec"].get("schedulingGates")
    with pytest.raises(Invalid):
        await server.patch(PODS, meta["name"], patch, namespace="default", content_type=JSON_PATCH)


async def test_unbound_pod_is_deleted_at_once(server: KubeClient, name: str) -> None:
    await server.create(PODS, pod(name))
    assert await server.delete(PODS, name, namespace="default") is None
    with pytest.raises(NotFound):
        await server.get(PODS, name, "default")


async def test_bound_pod_stays_for_its_grace_period(server: KubeClient, name: str) -> None:
    await server.create(PODS, pod(name, nodeName="n", terminationGracePeriodSeconds=7))
    marked = await server.delete(PODS, name, namespace="default")
    assert marked is not None
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 7
    assert await server.delete(PODS, name, namespace="default", grace_s=0) is None


async def test_ended_pod_is_deleted_at_once(server: KubeClient, admin: KubeClient, name: str) -> None:
    stored = await server.create(PODS, pod(name, nodeName="n"))
    await admin.replace_status(PODS, stored | {"status": {"phase": "Succeeded"}})
    assert await server.delete(PODS, name, namespace="default") is None


async def test_service_is_accepted(server: KubeClient, name: str) -> None:
    built = build_service(gang(f"3d-{name}", uid=f"uid-{name}"))
    stored = await server.create(SERVICES, built)
    assert stored["spec"]["clusterIP"] == "None"
    assert stored["spec"]["publishNotReadyAddresses"] is True


@pytest.mark.parametrize("count", [8, 128, 129], ids=str)
async def test_slices_are_accepted_and_replaced(server: KubeClient, name: str, count: int) -> None:
    devices = [PoolDevice(name=f"gpu-{index}", index=index, type="h100", socket=index % 2) for index in range(count)]
    first = build_slices(kube_node=name, slurm_node="gpu0", devices=devices, generation=1)
    second = build_slices(kube_node=name, slurm_node="gpu0", devices=devices[1:], generation=2)
    for before, after in zip(first, second, strict=False):
        stored = await server.create(RESOURCESLICES, before)
        after["metadata"]["resourceVersion"] = stored["metadata"]["resourceVersion"]
        assert (await server.replace(RESOURCESLICES, after))["spec"]["pool"]["generation"] == 2


async def test_list_pages_and_selects(server: KubeClient, name: str) -> None:
    for index in range(3):
        job = gangjob(f"{name}-{index}")
        job["metadata"]["labels"] = {"test": name, "index": str(index % 2)}
        await server.create(GANGJOBS, job)
    items, version = await server.list(GANGJOBS, label_selector=f"test={name},index=0")
    assert [item["metadata"]["name"] for item in items] == [f"{name}-0", f"{name}-2"]
    assert all(item["kind"] == "GangJob" for item in items)
    assert int(version) >= max(int(item["metadata"]["resourceVersion"]) for item in items)


async def test_watch_goes_on_from_a_list(server: KubeClient, name: str) -> None:
    _, version = await server.list(GANGJOBS, "default")
    seen: list[tuple[str, int]] = []

    async def watch() -> None:
        events = server.watch(GANGJOBS, resource_version=version, namespace="default", label_selector=f"test={name}")
        async with aclosing(events):
            while "DELETED" not in [event for event, _ in seen]:
                event, obj = await first(events)
                seen.append((event, int(obj["metadata"]["resourceVersion"])))

    watching = asyncio.create_task(watch())
    job = gangjob(name)
    job["metadata"]["labels"] = {"test": name}
    stored = await server.create(GANGJOBS, job)
    other = await server.create(GANGJOBS, gangjob(f"{name}-other"))
    assert other
    changed = await server.replace_status(GANGJOBS, stored | {"status": {"phase": "Queued"}})
    await server.delete(GANGJOBS, name, namespace="default")
    await asyncio.wait_for(watching, 20)
    created, modified = (int(obj["metadata"]["resourceVersion"]) for obj in (stored, changed))
    assert seen[:2] == [("ADDED", created), ("MODIFIED", modified)]
    event, version_of_delete = seen[2]
    assert event == "DELETED"
    assert version_of_delete > modified


async def test_object_that_stops_matching_is_deleted_to_its_watcher(server: KubeClient, name: str) -> None:
    job = gangjob(name)
    job["metadata"]["labels"] = {"test": name}
    stored = await server.create(GANGJOBS, job)
    version = stored["metadata"]["resourceVersion"]
    await server.patch(GANGJOBS, name, {"metadata": {"labels": {"test": None}}}, namespace="default")
    events = server.watch(GANGJOBS, resource_version=version, label_selector=f"test={name}")
    async with aclosing(events):
        event, obj = await first(events)
    assert (event, obj["metadata"]["name"]) == ("DELETED", name)
    assert int(obj["metadata"]["resourceVersion"]) > int(version)


async def test_unknown_object_is_not_found(server: KubeClient, name: str) -> None:
    with pytest.raises(NotFound) as raised:
        await server.get(GANGJOBS, name, "default")
    assert raised.value.status == 404


async def test_watch_of_a_compacted_version_is_expired(fake: Any, client: KubeClient) -> None:
    fake.put("pods", pod("a"))
    fake.compact()
    with pytest.raises(Expired):
        async for _ in client.watch(PODS, resource_version="1"):
            pass
