"""Refusals, conflicts and lost answers of either server: the end is the same, or the status says why not."""

from __future__ import annotations

import time

import pytest

from bridge.errors import SlurmRejected
from bridge.lifecycle.actions import Member
from bridge.lifecycle.names import pod_name
from bridge.model.slurm import JobState
from bridge.slurm.fake import Fault
from operators.kube.claims import build_claim
from operators.reading import read_gang
from tests.builders import devices
from tests.kube import actors
from tests.operators.objects import gangqueue
from tests.operators.stand import Stand, bare, job, stand


def live(on: Stand) -> list[int]:
    return [each.job_id for each in on.slurm.jobs.values() if each.marker and each.seen().is_live]


def forget_pauses(on: Stand) -> None:
    """Let the time pass for which the loop holds a gang back."""
    on.loop._held_back.clear()


WRITES = (
    "PATCH gangjobs/status",
    "PATCH gangjobs",
    "POST pods",
    "POST services",
    "POST resourceclaims",
    "PUT resourceclaims/status",
    "PATCH pods",
    "DELETE resourceclaims",
    "PATCH resourceslices",
    "PATCH nodes",
)


@pytest.mark.parametrize(
    ("status", "after"),
    [(0, False), (0, True), (500, False), (409, False), (429, False)],
    ids=["connection lost before", "connection lost after", "internal error", "conflict", "too many requests"],
)
@pytest.mark.parametrize("write", WRITES)
async def test_a_write_that_fails_once_changes_nothing_about_the_end(write, after, status):
    async with stand() as on:
        on.api.fail(1, status=status, match=write, after=after)
        on.put("gangjobs", job())
        await on.settle(until=lambda: len(on.api.of("pods")) == 2 and on.status().get("phase") == "Running")
        on.end_pods()
        await on.settle(until=lambda: on.status().get("phase") == "Succeeded")
        assert on.api.faults[0].left == 0, "the fault was never met"
        assert len(on.slurm.jobs) == 1
        assert on.slurm.jobs[1].state is JobState.COMPLETED
        assert on.api.of("resourceclaims") == []


async def test_a_hold_whose_submission_got_no_answer_is_found_and_not_submitted_again():
    async with stand() as on:
        await on.settle()
        on.put("gangjobs", job())
        on.slurm.fail("allocate", Fault.AFTER)
        await on.settle(until=lambda: on.status().get("phase") == "Running")
        assert [name for name, _ in on.slurm.calls] == ["allocate", "set_extra"]


async def test_a_hold_whose_submission_got_no_answer_is_found_after_slurmctld_was_away():
    async with stand() as on:
        await on.settle()
        on.put("gangjobs", job())
        on.slurm.fail("allocate", Fault.AFTER)
        await on.cycle()
        on.slurm.down = True
        for _ in range(3):
            await on.cycle()
        on.loop = on.new_loop()
        on.slurm.down = False
        await on.settle(until=lambda: on.status().get("phase") == "Running")
        assert [name for name, _ in on.slurm.calls] == ["allocate", "set_extra"]


async def test_a_submission_that_was_lost_is_repeated_but_not_at_once():
    async with stand() as on:
        await on.settle()
        on.put("gangjobs", job())
        on.slurm.fail("allocate", Fault.BEFORE)
        for _ in range(4):
            await on.cycle()
        assert on.slurm.calls == []
        forget_pauses(on)
        await on.settle(until=lambda: on.status().get("phase") == "Running")
        assert len(live(on)) == 1


async def test_a_submission_that_is_carried_out_late_leaves_one_live_hold():
    async with stand("n1", "n2", "n3", "n4") as on:
        await on.settle()
        on.put("gangjobs", job())
        await on.settle()
        first = on.slurm.jobs[1]
        late = type(first)(
            name=first.name, user=first.user, account=first.account, partition="gpu", qos="normal", shape=first.shape,
            count=2, pin=("n3", "n4"), time_limit_min=60, marker=first.marker,
        )  # fmt: skip
        on.slurm._submit(late)
        assert len(live(on)) == 2
        await on.settle()
        assert live(on) == [1]
        assert on.status()["phase"] == "Running"


async def test_a_pod_that_exists_already_is_adopted():
    """An earlier life made it and its watch event has not come yet."""
    async with stand() as on:
        await on.settle()
        on.put("gangjobs", job())
        await on.settle(until=lambda: bool(live(on)))
        await on.caught_up()
        on.api.fail(2, status=0, match="POST pods", after=True)
        on.api.stalled = True
        await on.loop.cycle()
        made = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in on.api.of("pods")}
        assert len(made) == 2
        asked = on.api.requests.count("GET pods")
        await on.loop.cycle()
        on.api.stalled = False
        assert on.api.requests.count("GET pods") == asked + 2
        await on.settle(until=lambda: on.status().get("phase") == "Running")
        assert {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in on.api.of("pods")} == made


BAD_CLAIM = {"template": {"spec": {"containers": [{"name": "a", "resources": {"claims": [{"name": "none"}]}}]}}}
OWN_NODE = {"template": {"spec": {"nodeName": "n1", "containers": [{"name": "a"}]}}}


@pytest.mark.parametrize(
    ("role", "reason", "words"),
    [
        pytest.param(BAD_CLAIM, "PodRejected", "Not found: 'none'", id="by the API server"),
        pytest.param(OWN_NODE, "InvalidSpec", "spec.roles[0].template.spec.nodeName", id="by gangbridge"),
    ],
)
async def test_a_gang_whose_pods_are_refused_is_parked_before_it_asks_slurm_for_anything(role, reason, words):
    async with stand() as on:
        await on.settle()
        on.put("gangjobs", job(role=role))
        await on.settle()
        accepted = on.condition("Accepted")
        assert (accepted["status"], accepted["reason"]) == ("False", reason)
        assert words in accepted["message"]
        assert on.status()["phase"] == "Pending"
        assert on.slurm.jobs == {}
        before = on.writes()
        await on.cycle()
        assert on.writes() == before, "not asked again at once"
        forget_pauses(on)
        await on.settle()
        assert on.slurm.jobs == {}


async def test_a_gang_that_slurm_refuses_is_parked_with_slurms_own_words():
    async with stand() as on:
        slurm = {"partition": "gpu", "account": "nobodys", "qos": ["normal"], "user": "alice"}
        on.put("gangqueues", bare(gangqueue(slurm=slurm)))
        await on.settle()
        on.put("gangjobs", job())
        await on.settle()
        accepted = on.condition("Accepted")
        assert (accepted["status"], accepted["reason"]) == ("False", "SlurmRejected")
        assert "Invalid account" in accepted["message"]
        assert on.status()["phase"] == "Pending"


async def test_a_pin_that_slurm_refuses_to_move_is_not_tried_in_a_circle(monkeypatch):
    async with stand() as on:
        await on.settle()
        on.slurm.sbatch(gpus=8, pin=["n1"], time_limit_min=10)
        blocker = on.slurm.sbatch(gpus=8, pin=["n2"], time_limit_min=30)
        on.put("gangjobs", job(replicas=1))
        await on.settle()
        assert on.slurm.jobs[3].pin == ("n1",)
        on.slurm.jobs[3].submit_time -= 60
        on.slurm.end(blocker)
        tries = []

        async def refuse(job_id, nodes):
            tries.append(nodes)
            raise SlurmRejected("Requested node configuration is not available", 2014)

        monkeypatch.setattr(on.slurm, "repin", refuse)
        await on.cycle()
        assert "not available" in on.status()["message"]
        assert on.condition("Accepted")["status"] == "True"
        for _ in range(5):
            await on.cycle()
        assert len(tries) == 1
        forget_pauses(on)
        await on.cycle()
        assert len(tries) == 2


async def test_a_claim_that_somebody_changed_meanwhile_is_read_again():
    async with stand() as on:
        await on.settle()
        on.put("gangjobs", job())
        await on.settle(until=lambda: len(on.api.of("resourceclaims")) == 2)
        await on.caught_up()
        on.api.stalled = True
        for claim in on.api.of("resourceclaims"):
            key = ("resourceclaims", "research", claim["metadata"]["name"])
            on.api.store.modify(
                key, lambda old: {**old, "metadata": {**old["metadata"], "annotations": {"a": "b"}}}, ""
            )
        await on.loop.cycle()
        assert not any(claim.get("status", {}).get("allocation") for claim in on.api.of("resourceclaims"))
        on.api.stalled = False
        await on.settle(until=lambda: on.status().get("phase") == "Running")


async def test_somebody_elses_object_of_the_same_name_is_not_taken_over():
    async with stand() as on:
        await on.settle()
        on.put("gangjobs", job())
        await on.settle(until=lambda: bool(live(on)))
        name = pod_name(read_gang(on.gang()), 0)
        theirs = {"metadata": {"name": name, "namespace": "research"}, "spec": {"containers": [{"name": "x"}]}}
        on.api.put("pods", theirs)
        for _ in range(4):
            await on.cycle()
        assert "not ours" in on.status()["message"]
        on.api.remove("pods", name, "research")
        forget_pauses(on)
        await on.settle(until=lambda: on.status().get("phase") == "Running")


async def test_a_claim_that_asks_for_another_number_of_devices_stops_its_gang_and_nothing_else():
    """Anybody with rights in the namespace may make a claim that looks like ours."""
    async with stand() as on:
        await on.settle()
        on.put("gangjobs", job(replicas=1))
        await on.settle(until=lambda: bool(live(on)))
        owner = read_gang(on.gang())
        member = Member(
            rank=0,
            kube_node="n1",
            slurm_node="n1",
            node_rank=0,
            local_rank=0,
            devices=devices("n1", [0]),
            device_class="x",
        )
        on.api.put("resourceclaims", build_claim(owner, member))
        on.put("gangjobs", job("other", replicas=1))
        await on.settle(until=lambda: on.status("other").get("phase") == "Running")
        assert "asks for 1 devices, 8 are to be given" in on.status()["message"]
        assert on.status()["phase"] == "Starting"


async def test_a_loop_that_forgets_everything_between_any_two_cycles_comes_to_the_same_end():
    async with stand() as on:
        on.put("gangjobs", job())
        for _ in range(30):
            on.loop = on.new_loop()
            await on.cycle()
            if on.status().get("phase") == "Running":
                break
            actors.settle(on.api)
        assert on.status()["phase"] == "Running"
        assert len(on.slurm.jobs) == 1
        assert time.time() - on.slurm.jobs[1].submit_time < 60
