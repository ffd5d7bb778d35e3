"""Actions on a world that has moved on: each ends in the state that it names, or says that it is outdated."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace

import pytest

from bridge import wellknown
from bridge.lifecycle import actions as act
from bridge.model.hold import ExitStatus
from bridge.model.slurm import JobState
from operators.apply import Applier
from operators.kube.errors import Conflict, NotFound
from tests.kube.fakepatch import merge
from tests.operators.stand import Stand, job, stand


def applier(on: Stand) -> Applier:
    return Applier(on.client, on.slurm, on.observer)


async def started(on: Stand) -> None:
    await on.settle()
    on.put("gangjobs", job())
    await on.settle(until=lambda: on.status().get("phase") == "Running")
    await on.caught_up()


async def test_an_action_on_what_is_gone_is_done():
    async with stand() as on:
        await started(on)
        seen = on.observer.snapshot(None, {})
        for plural in ("pods", "resourceclaims"):
            for obj in on.api.of(plural):
                on.api.remove(plural, obj["metadata"]["name"], "research")
        on.api.remove("gangjobs", "llm", "research")
        stage = [act.DeletePod(pod=pod) for pod in seen.pods]
        stage += [act.FreeClaim(claim=claim) for claim in seen.claims]
        stage += [act.RemoveFinalizer(gang=gang) for gang in seen.gangs]
        await applier(on).run((stage,))
        left = on.observer.snapshot(None, {})
        assert (left.pods, left.claims) == ((), ())
        await applier(on).run((stage,))


async def test_an_action_on_another_object_of_the_same_name_is_not_carried_out():
    async with stand() as on:
        await started(on)
        seen = on.observer.snapshot(None, {})
        with pytest.raises(Conflict):
            await applier(on).run(([act.DeletePod(pod=replace(seen.pods[0], uid="uid-old"))],))
        await applier(on).run(([act.FreeClaim(claim=replace(seen.claims[0], uid="uid-old"))],))
        old = replace(seen.gangs[0], uid="uid-old")
        await applier(on).run(([act.RemoveFinalizer(gang=old)],))
        with pytest.raises(NotFound):
            await applier(on).run(([act.AddFinalizer(gang=old)],))
        assert len(on.api.of("pods")) == len(on.api.of("resourceclaims")) == 2
        assert wellknown.FINALIZER in on.gang()["metadata"]["finalizers"]


async def test_a_pod_is_ungated_once_and_a_second_time_does_no_harm():
    async with stand() as on:
        await started(on)
        seen = on.observer.snapshot(None, {})
        await applier(on).run(([act.UngatePod(pod=seen.pods[0])],))
        assert on.observer.snapshot(None, {}).pods == seen.pods


async def test_a_stage_is_carried_out_to_its_end_before_its_first_error_is_raised():
    async with stand() as on:
        await started(on)
        first, second = on.observer.snapshot(None, {}).pods
        with pytest.raises(Conflict):
            await applier(on).run(
                ([act.DeletePod(pod=replace(first, uid="x")), act.DeletePod(pod=second)], [UNREACHED])
            )
        deleted = [pod["metadata"]["name"] for pod in on.api.of("pods") if "deletionTimestamp" in pod["metadata"]]
        assert deleted == [second.name]


UNREACHED = act.CompleteHold(gang=None, job_id=1, status=ExitStatus())


async def test_a_call_that_may_change_slurm_is_remembered_even_when_it_fails():
    async with stand() as on:
        does = applier(on)
        await does.run(([act.TaintNode(kube_node="n1")],))
        assert not does.touched_slurm
        on.slurm.down = True
        with suppress(Exception):
            await does.run(([act.CancelHold(job_id=1)],))
        assert does.touched_slurm


async def test_a_claim_that_another_finalizer_keeps_gives_its_devices_back_and_stops_nobody():
    async with stand() as on:
        await started(on)
        name = on.api.of("resourceclaims")[0]["metadata"]["name"]
        extra = {"metadata": {"finalizers": [wellknown.DELETE_PROTECTION, "backup.example/keep"]}}
        on.api.store.modify(("resourceclaims", "research", name), lambda old: merge(old, extra), "")
        await on.caught_up()
        await on.delete()
        await on.settle()
        (left,) = on.api.of("resourceclaims")
        assert left["metadata"]["finalizers"] == ["backup.example/keep"]
        assert not left.get("status")
        assert on.api.of("gangjobs") == []
        assert on.slurm.jobs[1].state is JobState.CANCELLED


async def test_a_mirrors_claim_that_another_finalizer_keeps_gives_its_devices_back():
    async with stand() as on:
        number = on.slurm.sbatch(gpus=2)
        await on.settle()
        (claim,) = on.api.of("resourceclaims")
        kept = [*claim["metadata"]["finalizers"], "backup.example/keep"]
        key = ("resourceclaims", wellknown.MIRROR_NAMESPACE, claim["metadata"]["name"])
        on.api.store.modify(key, lambda old: merge(old, {"metadata": {"finalizers": kept}}), "")
        on.slurm.end(number)
        await on.settle()
        (left,) = on.api.of("resourceclaims")
        assert left["metadata"]["finalizers"] == ["backup.example/keep"]
        assert not left.get("status")
        assert on.api.of("gangjobs") == []


async def test_a_pin_is_moved_in_slurm():
    async with stand() as on:
        await on.settle()
        on.slurm.sbatch(gpus=8, pin=["n1"], time_limit_min=10)
        blocker = on.slurm.sbatch(gpus=8, pin=["n2"], time_limit_min=30)
        on.put("gangjobs", job(replicas=1))
        await on.settle()
        on.slurm.jobs[3].submit_time -= 60
        on.slurm.end(blocker)
        await on.settle(until=lambda: on.status().get("phase") == "Running")
        assert on.slurm.jobs[3].pin == ("n2",)


async def test_the_loop_runs_by_itself_from_wake_to_wake():
    async with stand() as on:
        task = asyncio.create_task(on.loop.run())
        try:
            on.put("gangjobs", job())
            async with asyncio.timeout(10):
                while not any(each.marker for each in on.slurm.jobs.values()):
                    await on.caught_up()
                    on.loop.wake()
                    await asyncio.sleep(0.01)
            beat = on.loop.beat
            assert beat.cycles > 0
            on.loop.wake()
            async with asyncio.timeout(5):
                while on.loop.beat.cycles == beat.cycles:  # noqa: ASYNC110 - counted by the loop
                    await asyncio.sleep(0.01)
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


async def test_what_is_not_the_operators_namespace_is_not_written_by_it():
    async with stand() as on:
        on.api.put("resourceclaims", {"metadata": {"name": "c", "namespace": "other"}, "spec": {"devices": {}}})
        before = on.api.objects["resourceclaims", "other", "c"]
        await started(on)
        on.slurm.sbatch(gpus=1)
        await on.settle()
        assert on.api.objects["resourceclaims", "other", "c"] == before


async def test_a_late_status_of_a_mirror_does_not_stay_under_a_newer_digest():
    async with stand() as on:
        number = on.slurm.sbatch(gpus=1)
        await on.settle()
        mirror = on.observer.snapshot(None, {}).mirrors[0]
        stale = act.WriteMirror(job=replace(on.poller.view.jobs[number], reason="Stale"), digest="old", existing=mirror)
        key = ("gangjobs", wellknown.MIRROR_NAMESPACE, mirror.name)
        patch = on.client.patch
        for late in (1, 2):
            calls = 0

            async def overtaken(*args, late=late, **kwargs):
                nonlocal calls
                calls += 1
                if calls == late:
                    annotations = {wellknown.DIGEST: f"new-{late}"}
                    metadata = on.api.objects[key]["metadata"] | {"annotations": annotations}
                    on.api.put("gangjobs", on.api.objects[key] | {"metadata": metadata})
                return await patch(*args, **kwargs)

            on.client.patch = overtaken
            before = on.api.objects[key]["status"]
            with pytest.raises(Conflict):
                await applier(on).run(([stale],))
            assert on.api.objects[key]["metadata"]["annotations"][wellknown.DIGEST] == f"new-{late}"
            assert late == 2 or on.api.objects[key]["status"] == before
            on.client.patch = patch
            await on.caught_up()
