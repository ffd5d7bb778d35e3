"""What is told although no invariant is broken."""

from __future__ import annotations

import pytest

from auditor.notes import notes
from auditor.rules import judge
from bridge import wellknown
from tests.auditor.world import HOLD, JOB, World


def no_jobs(world: World) -> None:
    world.jobs.clear()


def no_objects(world: World) -> None:
    for plural in ("pods", "resourceclaims", "gangjobs"):
        world.objects[plural].clear()


def no_nodes(world: World) -> None:
    world.objects["nodes"].clear()


def no_slice(world: World) -> None:
    world.objects["resourceslices"].pop("k8s-gpu0")


def stray_claim(world: World) -> None:
    twin = world.copied(world.claim(0), "stray")
    twin["metadata"] |= {"labels": {}, "managedFields": []}
    results = twin["status"]["allocation"]["devices"]["results"]
    results[:] = [results[0] | {"device": "gpu-7"}]


def drained_in_our_name(world: World) -> None:
    world.nodes["gpu0"] |= {"reason": "gangbridge: because", "reason_set_by_user": "mallory"}


def foreign_extra(world: World) -> None:
    world.without_gang()
    world.nodes["gpu0"]["extra"] = "asset=4711"


def quarantine(world: World) -> None:
    world.jobs.pop(HOLD)
    drain = {"state": ["IDLE", "DRAIN"], "reason": "gangbridge: not proven gone", "reason_set_by_user": "root"}
    world.nodes["gpu0"] |= drain
    world.nodes["ext0"] |= drain | {"reason": "broken fan"}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (no_jobs, ["suspicious: slurmctld shows no live job, but Kubernetes has 3 allocated claims"]),
        (no_objects, ["suspicious: Kubernetes shows no GangJob, pod or claim, but Slurm has 1 live holds"]),
        (
            no_nodes,
            [
                "suspicious: no Node of Kubernetes is one of Slurm's 2 nodes",
                "claim research/llm-1-0-gpu has 2 devices that are in no ResourceSlice",
                "claim research/llm-1-1-gpu has 2 devices",
                "claim gangbridge-mirror/slurm-200-a-0 has 2 devices",
            ],
        ),
        (
            no_slice,
            [
                "job 100 holds gpu0 index 0-1, which no ResourceSlice has",
                "job 200 holds gpu0 index 4-5, which no ResourceSlice has",
                "claim research/llm-1-1-gpu has 2 devices that are in no ResourceSlice",
                "claim gangbridge-mirror/slurm-200-a-0 has 2 devices that are in no ResourceSlice",
            ],
        ),
        (stray_claim, ["claim research/stray is not gangbridge's and has ext0 index 7, unknown to Slurm"]),
        (drained_in_our_name, ['node gpu0: the reason "gangbridge: because" looks like ours, but mallory set it']),
        (foreign_extra, ['node gpu0 has somebody else\'s Extra "asset=4711": it is closed for gangs']),
        (
            quarantine,
            [
                "pod research/llm-1-0 may still run on ext0, and only a drain keeps its devices; the drain is not",
                "pod research/llm-1-1 may still run on gpu0, and only a drain keeps its devices",
            ],
        ),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_a_note_says_what_a_person_should_know(change, expected):
    world = World()
    assert notes(world.evidence()) == ()
    change(world)
    told = notes(world.evidence())
    assert len(told) == len(expected)
    for line in expected:
        assert any(note.startswith(line) for note in told), (line, told)


def test_a_fleet_without_work_is_not_suspicious():
    world = World()
    no_objects(world)
    no_jobs(world)
    assert notes(world.evidence()) == ()


@pytest.mark.parametrize("kept", ["pods", "resourceclaims", "gangjobs"])
def test_a_server_that_shows_something_is_not_suspicious(kept):
    world = World()
    objects = world.objects[kept].copy()
    no_objects(world)
    world.objects[kept] = objects
    assert not any(note.startswith("suspicious") for note in notes(world.evidence()))


def test_a_claim_on_a_device_that_slurm_holds_is_a_matter_of_the_rules():
    world = World()
    stray_claim(world)
    for result in world.objects["resourceclaims"]["stray"]["status"]["allocation"]["devices"]["results"]:
        result["device"] = "gpu-0"
    assert notes(world.evidence()) == ()
    assert [violation.subject for violation in judge(world.evidence())] == ["ext0 index 0"]


def test_claims_of_others_say_nothing_of_slurm():
    world = World()
    no_jobs(world)
    for claim in world.objects["resourceclaims"].values():
        claim["metadata"]["labels"] = {}
    assert not any(note.startswith("suspicious") for note in notes(world.evidence()))


@pytest.mark.parametrize("change", [no_slice, no_nodes])
def test_devices_that_cannot_be_compared_are_no_violation(change):
    world = World()
    change(world)
    assert judge(world.evidence()) == ()
    assert world.jobs[JOB]["gres_detail"], "a job that holds devices is what this is about"


def test_an_external_node_needs_no_guard_and_its_extra_is_nobodys_business():
    world = World()
    world.nodes["ext0"]["extra"] = "asset=4711"
    assert notes(world.evidence()) == ()
    assert world.nodes["gpu0"]["extra"].startswith(wellknown.GUARD)
    assert judge(world.evidence()) == ()
