from __future__ import annotations

from bridge import wellknown
from operators.kube.resources import FLEETS, GANGJOBS, GANGQUEUES, PODS, RESOURCECLAIMS
from tests.operators import objects
from tests.operators.stand import bare, job, stand

OURS = {wellknown.MANAGED_BY: wellknown.FIELD_MANAGER}
NEW = {"resourceVersion": "9000"}
"""Of something that happened after everything was listed."""


async def test_a_snapshot_has_what_the_server_has():
    async with stand() as on:
        on.put("gangjobs", job())
        on.api.put("pods", bare(objects.pod("p", labels=OURS)) | {"spec": {"containers": [{"name": "a"}]}})
        await on.caught_up()
        seen = on.observer.snapshot(None, frozenset({"uid"}))
        assert [gang.name for gang in seen.gangs] == ["llm"]
        assert [node.name for node in seen.nodes] == ["n1", "n2"]
        assert [pod.name for pod in seen.pods] == ["p"]
        assert (seen.fleet.name, list(seen.queues)) == ("main", ["gpu"])
        assert set(seen.namespaces) == {"research", wellknown.MIRROR_NAMESPACE}
        assert (seen.slurm, seen.held_back) == (None, {"uid"})


async def test_somebody_elses_pods_and_nodes_are_not_looked_at():
    async with stand() as on:
        on.api.put(
            "pods", {"metadata": {"name": "x", "namespace": "research"}, "spec": {"containers": [{"name": "a"}]}}
        )
        on.api.put("nodes", {"metadata": {"name": "cpu1"}, "spec": {}})
        await on.caught_up()
        seen = on.observer.snapshot(None, {})
        assert seen.pods == ()
        assert [node.name for node in seen.nodes] == ["n1", "n2"]


async def test_a_mirror_is_no_gang_and_a_gang_no_mirror():
    async with stand() as on:
        await on.caught_up()
        on.observer.take(GANGJOBS, "ADDED", objects.gangjob("slurm-7", origin="Slurm", metadata=NEW))
        on.observer.take(GANGJOBS, "ADDED", objects.gangjob("llm", metadata=NEW))
        seen = on.observer.snapshot(None, {})
        assert [mirror.name for mirror in seen.mirrors] == ["slurm-7"]
        assert [gang.name for gang in seen.gangs] == ["llm"]


async def test_an_event_of_the_past_does_not_undo_what_is_known():
    async with stand() as on:
        new = objects.gangjob(metadata={"resourceVersion": "9000", "generation": 2})
        old = objects.gangjob(metadata={"resourceVersion": "8000", "generation": 1})
        on.observer.take(GANGJOBS, "MODIFIED", new)
        on.observer.take(GANGJOBS, "MODIFIED", old)
        assert [gang.generation for gang in on.observer.snapshot(None, {}).gangs] == [2]
        on.observer.take(GANGJOBS, "DELETED", objects.gangjob(metadata={"resourceVersion": "9001"}))
        assert on.observer.snapshot(None, {}).gangs == ()


async def test_a_queue_that_cannot_be_read_is_ignored_and_the_others_are_not():
    async with stand() as on:
        bad = objects.gangqueue(limits={"maxTimeLimit": "ages"})
        on.observer.take(GANGQUEUES, "ADDED", bad | {"metadata": objects.meta("bad", **NEW)})
        assert list(on.observer.snapshot(None, {}).queues) == ["gpu"]


async def test_of_two_fleets_the_first_by_name_counts():
    async with stand() as on:
        for name in ("zoo", "alpha"):
            on.observer.take(FLEETS, "ADDED", objects.fleet() | {"metadata": objects.meta(name, **NEW)})
        assert on.observer.snapshot(None, {}).fleet.name == "alpha"


async def test_our_own_writes_are_seen_at_once():
    async with stand() as on:
        on.api.stalled = True
        pod = bare(objects.pod("p", labels=OURS)) | {"spec": {"containers": [{"name": "a"}]}}
        stored = await on.client.create(PODS, pod)
        on.observer.observe(PODS, stored)
        assert [each.name for each in on.observer.snapshot(None, {}).pods] == ["p"]
        on.observer.forget(PODS, stored)
        assert on.observer.snapshot(None, {}).pods == ()


async def test_every_change_wakes_the_loop():
    async with stand() as on:
        before = on.wakes
        on.api.put("resourceclaims", {"metadata": {"name": "c", "namespace": "research"}, "spec": {"devices": {}}})
        await on.caught_up()
        assert on.wakes > before
        assert on.observer.raw(RESOURCECLAIMS, "research", "c")["metadata"]["name"] == "c"
        assert on.observer.raw(RESOURCECLAIMS, "research", "d") is None


async def test_pools_follow_their_slices():
    async with stand() as on:
        assert on.observer.snapshot(None, {}).pools == ()
        made = bare(objects.resource_slice("s", pool="n1", devices=(objects.device("gpu-0"),)))
        made["spec"]["devices"] = [{"name": "gpu-0", "attributes": {"index": {"int": 0}}}]
        on.api.put("resourceslices", made)
        await on.caught_up()
        assert [pool.name for pool in on.observer.snapshot(None, {}).pools] == ["n1"]
        on.api.remove("resourceslices", "s")
        await on.caught_up()
        assert on.observer.snapshot(None, {}).pools == ()


async def test_any_label_on_anybodys_claim_is_survived():
    async with stand() as on:
        labels = {wellknown.GANG_UID: "x", wellknown.RANK: "first", wellknown.ATTEMPT: "one"}
        on.api.put(
            "resourceclaims",
            {"metadata": {"name": "c", "namespace": "research", "labels": labels}, "spec": {"devices": {}}},
        )
        on.put("gangjobs", job())
        await on.settle(until=lambda: on.status().get("phase") == "Running")
