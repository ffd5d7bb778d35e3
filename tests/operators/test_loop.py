"""A gang from apply to its end through ``Loop.cycle`` on fakes of both servers."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from bridge import wellknown
from bridge.lifecycle.actions import Decision
from bridge.model.gang import Phase
from bridge.model.slurm import JobState
from operators.kube.resources import PODS
from tests.kube import actors
from tests.operators.stand import Stand, job, stand


def endings(on: Stand) -> list[tuple[JobState, int]]:
    return [(each.state, each.exit_status.code) for each in on.slurm.jobs.values()]


async def test_a_gang_goes_from_apply_to_success():
    async with stand() as on:
        on.put("gangjobs", job())
        await on.settle()
        assert on.status()["phase"] == "Running"
        assert (on.status()["pods"], on.status()["readyPods"]) == ("2/2", 2)
        assert [pod["spec"]["nodeName"] for pod in on.api.of("pods")] == ["n1", "n2"]
        on.end_pods()
        await on.settle()
        assert (on.status()["phase"], on.status()["exitCode"]) == ("Succeeded", 0)
        assert on.condition("Finished")["status"] == "True"
        assert on.api.of("resourceclaims", "research") == []
        assert endings(on) == [(JobState.COMPLETED, 0)]


async def test_a_gang_of_eight_pods_starts_and_ends_with_so_many_writes_and_no_more():
    """Writes decide how many gangs per second an API server takes; a change of these numbers is to be meant."""
    nodes = [f"n{number}" for number in range(1, 9)]
    async with stand(*nodes) as on:
        await on.settle()
        before = on.writes()
        on.put("gangjobs", job(replicas=8))
        await on.settle()
        assert on.status()["phase"] == "Running"
        started = on.writes() - before
        assert started == Counter(
            {
                "PATCH gangjobs": 1,  # the finalizer
                "PATCH gangjobs/status": STATUSES_TO_START,
                "POST pods": 9,  # one of them a dry run
                "POST services": 1,
                "POST resourceclaims": 8,
                "PUT resourceclaims/status": 8,
                "PATCH pods": 8,  # the gates
            }
        )
        on.end_pods()
        actors.settle(on.api)
        await on.settle()
        assert on.status()["phase"] == "Succeeded"
        ended = on.writes() - before - started
        assert ended == Counter(
            {
                "PATCH gangjobs/status": STATUSES_TO_END,
                "PUT resourceclaims": 8,  # the finalizers
                "DELETE resourceclaims": 8,
                "PATCH pods": 8,  # the finalizer that kept the pod as evidence
            }
        )
        assert [name for name, _ in on.slurm.calls] == ["allocate", "set_extra", "set_extra", "complete"]


STATUSES_TO_START = 4
STATUSES_TO_END = 2


async def test_a_cycle_without_news_writes_nothing():
    async with stand() as on:
        on.put("gangjobs", job())
        await on.settle()
        before = on.writes()
        assert not await on.cycle()
        assert on.writes() == before


async def test_a_failed_gang_keeps_its_exit_code_in_both_worlds():
    async with stand() as on:
        on.put("gangjobs", job())
        await on.settle()
        actors.set_phase(on.api, on.api.of("pods")[1], "Failed", exit_code=3)
        await on.settle()
        assert (on.status()["phase"], on.status()["reason"], on.status()["exitCode"]) == ("Failed", "PodFailed", 3)
        assert endings(on) == [(JobState.FAILED, 3)]
        assert [pod["status"]["phase"] for pod in on.api.of("pods")] == ["Failed"]


async def test_a_deleted_gang_goes_when_nothing_is_left():
    async with stand() as on:
        on.put("gangjobs", job())
        await on.settle()
        assert wellknown.FINALIZER in on.gang()["metadata"]["finalizers"]
        await on.delete()
        await on.settle()
        for plural in ("gangjobs", "pods", "resourceclaims"):
            assert on.api.of(plural) == []
        assert endings(on) == [(JobState.CANCELLED, 0)]


async def test_the_pods_of_a_gang_know_their_ranks_and_hold_what_their_claims_say():
    async with stand() as on:
        on.put("gangjobs", job(replicas=4, gres="gpu:h100:4"))
        await on.settle()
        held = []
        for rank, pod in enumerate(on.api.of("pods")):
            assert pod["metadata"]["labels"][wellknown.RANK] == str(rank)
            (reference,) = pod["spec"]["resourceClaims"]
            claim = on.api.objects["resourceclaims", "research", reference["resourceClaimName"]]
            assert [each["uid"] for each in claim["status"]["reservedFor"]] == [pod["metadata"]["uid"]]
            results = claim["status"]["allocation"]["devices"]["results"]
            assert {each["pool"] for each in results} == {pod["spec"]["nodeName"]}
            held += [(each["pool"], each["device"]) for each in results]
        assert sorted(held) == [(f"n{node}", f"gpu-{index}") for node in (1, 2) for index in range(8)]


async def test_an_sbatch_job_is_shown_and_its_devices_are_taken_until_it_ends():
    async with stand() as on:
        number = on.slurm.sbatch(gpus=3)
        await on.settle()
        where = (wellknown.MIRROR_NAMESPACE, f"slurm-{number}")
        assert on.api.objects["gangjobs", *where]["status"]["phase"] == "Running"
        (claim,) = on.api.of("resourceclaims")
        results = claim["status"]["allocation"]["devices"]["results"]
        assert [each["device"] for each in results] == ["gpu-0", "gpu-1", "gpu-2"]
        on.slurm.end(number)
        await on.settle()
        assert on.api.of("resourceclaims") == []
        assert on.api.of("gangjobs") == []


async def test_the_fleets_dashboard_says_what_there_is():
    async with stand() as on:
        on.slurm.sbatch(gpus=3)
        await on.settle()
        on.put("gangjobs", job(replicas=1, gres="gpu:h100:5"))
        await on.settle()
        on.loop._fleet_published = 0.0
        await on.cycle()
        status = on.api.objects["fleets", "", "main"]["status"]
        assert status["gpus"] == {"total": 16, "free": 8, "pods": 5, "sbatch": 3, "outOfService": 0}
        assert (status["nodes"], status["slurmVersion"]) == ("2/2", "26.05.5")
        assert status["gangs"]["summary"] == "1 running"


async def test_what_happens_to_a_gang_is_told_in_events():
    async with stand() as on:
        await on.settle()
        on.put("gangjobs", job())
        await on.settle()
        on.end_pods()
        await on.settle()
        told = [event["reason"] for event in on.api.of("events", "research")]
        assert told[0] == "HoldSubmitted"
        assert told[-1] == "Succeeded"
        assert all(event["involvedObject"]["uid"] == on.gang()["metadata"]["uid"] for event in on.api.of("events"))


async def test_a_pod_that_kubernetes_loses_ends_the_gang():
    async with stand() as on:
        on.put("gangjobs", job())
        await on.settle()
        lost = on.api.of("pods")[0]["metadata"]
        await on.client.delete(PODS, lost["name"], namespace="research", grace_s=0)
        await on.settle()
        assert (on.status()["phase"], on.status()["reason"]) == ("Failed", "PodLost")
        assert on.api.of("pods") == []


async def test_a_published_pool_and_the_taint_are_written_once():
    async with stand() as on:
        await on.settle()
        assert [each["metadata"]["name"] for each in on.api.of("resourceslices")] == [
            "gangbridge-n1-0",
            "gangbridge-n2-0",
        ]
        taints = [each["spec"]["taints"] for each in on.api.of("nodes")]
        assert taints == [[{"key": wellknown.TAINT, "effect": "NoSchedule"}]] * 2
        assert on.writes() == Counter({"PATCH resourceslices": 2, "PATCH nodes": 2})


async def test_counts_of_pods_alone_are_published_once_a_second():
    async with stand() as on:
        on.put("gangjobs", job())
        await on.settle()
        actors.set_phase(on.api, on.api.of("pods")[0], "Succeeded", exit_code=0)
        before = on.writes()
        await on.cycle()
        assert on.writes() == before
        assert on.status()["readyPods"] == 2
        on.loop._published.clear()
        await on.cycle()
        assert on.status()["readyPods"] == 1


async def test_a_status_is_not_written_to_another_gang_of_the_same_name():
    async with stand() as on:
        on.put("gangjobs", job())
        await on.settle()
        old = replace(on.observer.snapshot(None, {}).gangs[0], uid="uid-old")
        before = on.status()
        assert not await on.loop._publish(Decision(gang=old), replace(old.status, phase=Phase.FAILED))
        assert on.status() == before


async def test_a_brake_is_told_loudly_once():
    async with stand("n1", "n2", "n3", "n4") as on:
        for number in range(4):
            on.put("gangjobs", job(f"g{number}", replicas=1))
        await on.settle()
        kept = dict(on.slurm.jobs)
        on.slurm.jobs.clear()
        await on.settle()
        events = [each for each in on.api.of("events", "default") if each["reason"] == "TooMuchLost"]
        assert [each["message"] for each in events] == ["4 of 4 gangs look lost at once, research/g0 for one"]
        assert on.loop.is_braked
        assert all(on.status(f"g{number}")["phase"] == "Running" for number in range(4))
        on.slurm.jobs.update(kept)
        await on.settle()
        assert not on.loop.is_braked
