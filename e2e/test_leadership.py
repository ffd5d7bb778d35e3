"""Two replicas: one acts, the other takes over, and who was replaced changes nothing that matters when it wakes up.

The hostile case is a leader that is frozen after it has checked that it leads and before its call is sent, as a late
packet would be: its write reaches the server when another leader has long gone on.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from e2e.operator import Operator
from e2e.scenario import audit, batch, fleet, gang
from e2e.scenario.commands import MIRRORS, Object, found, listed
from e2e.scenario.eventually import eventually, stays
from e2e.scenario.gang import Gang

LEASE_S = 3
DEPOSED = 1
"""Exit status of a replica that another has replaced."""

WHILE_STARTING = (
    "checked:patch gangjobs", "checked:allocate", "checked:patch gangjobs/status", "checked:create services",
    "checked:create pods:2", "checked:create resourceclaims:1", "checked:replace resourceclaims/status:1",
    "checked:patch pods:1",
)  # fmt: skip
WHILE_ENDING = ("checked:delete pods:1", "checked:delete resourceclaims:1", "checked:cancel")


@dataclass
class Replicas:
    """The one that leads and the one that follows."""

    leader: Operator
    follower: Operator

    def start(self) -> None:
        """Start what does not run, the leader first: under its own name it takes its Lease back at once."""
        if not self.leader.is_alive:
            self.leader.start()
        eventually(self.leader.leads, f"{self.leader.name} leads")
        if not self.follower.is_alive:
            self.follower.start()

    def arm(self, place: str) -> None:
        """Make the leader one that will freeze at ``place``."""
        self.leader.kill()
        self.leader.env = {"GANGBRIDGE_FREEZE_AT": place}
        self.start()

    def take_over(self) -> Operator:
        """Return who led until now once the other leads, which is the leader from now on."""
        self.leader, self.follower = self.follower, self.leader
        eventually(self.leader.leads, f"{self.leader.name} has taken over")
        self.follower.env = {}
        return self.follower


@pytest.fixture(scope="module")
def pair(installed: None) -> Iterator[Replicas]:  # noqa: ARG001
    first, second = (
        Operator("--lease-duration-s", str(LEASE_S), name=f"replica-{letter}", probe_port=18081 + number)
        for number, letter in enumerate("ab")
    )
    both = Replicas(first, second)
    both.start()
    yield both
    both.follower.kill()
    # Released, so that nobody who comes next has to wait.
    both.leader.stop()


@pytest.fixture
def replicas(pair: Replicas) -> Iterator[Replicas]:
    """Both, with nothing on the fleet before the test and nothing left after it."""
    pair.start()
    fleet.sweep()
    yield pair
    for replica in (pair.leader, pair.follower):
        if replica.is_alive and replica.is_frozen():
            replica.kill()
    pair.start()
    audit.assert_sound()
    fleet.settle()


@pytest.mark.parametrize("place", WHILE_STARTING)
def test_a_late_write_of_a_start_changes_nothing_of_the_gang_that_another_leader_has_started(
    replicas: Replicas, place: str
) -> None:
    with fleet.only(*fleet.KWOK):
        replicas.arm(place)
        late = gang.submit("late", pods=4, gpus=1, per_node=2)
        eventually(replicas.leader.is_frozen, f"the leader is frozen at {place}")
        deposed = replicas.take_over()
        running = late.wait_for("Running")
        assert running["attempt"] == 1
        hold = late.hold()["job_id"]
        before = _versions(late)

        deposed.thaw()
        assert deposed.wait_ended() == DEPOSED
        eventually(lambda: _live(late) == [hold], "one hold is live, the one whose pods run")
        stays(lambda: _versions(late) == before, "the gang, its pods and its claims", for_s=1.5)
        assert batch.job(hold)["job_state"] == ["RUNNING"]
        assert audit.violations() == []


@pytest.mark.parametrize("place", WHILE_ENDING)
def test_a_late_write_of_an_end_does_not_touch_what_has_started_since(replicas: Replicas, place: str) -> None:
    with fleet.only(*fleet.KWOK):
        replicas.arm(place)
        first = gang.submit("same-name", pods=4, gpus=1, per_node=2)
        first.wait_for("Running")
        ended = first.hold()["job_id"]
        first.request_deletion()
        eventually(replicas.leader.is_frozen, f"the leader is frozen at {place}")
        deposed = replicas.take_over()
        eventually(lambda: found("gangjob", "same-name") is None, "the other leader has ended it")
        second = gang.submit("same-name", pods=4, gpus=4, per_node=2)
        second.wait_for("Running")
        before = _versions(second)

        deposed.thaw()
        assert deposed.wait_ended() == DEPOSED
        stays(lambda: _versions(second) == before, "the gang, its pods and its claims", for_s=1.5)
        assert _live(second) == [second.hold()["job_id"]]
    assert batch.ended(ended).state == "CANCELLED"


def test_a_late_completion_leaves_the_accounting_as_it_is(replicas: Replicas) -> None:
    with fleet.only(*fleet.KWOK):
        replicas.arm("checked:complete")
        short = gang.submit("short", pods=2, gpus=1, per_node=1, kwok="succeed")
        eventually(replicas.leader.is_frozen, "the leader is frozen before it completes the hold")
        deposed = replicas.take_over()
        short.wait_for("Succeeded")
        (hold,) = short.holds()
        row = batch.ended(hold["job_id"])
        deposed.thaw()
        assert deposed.wait_ended() == DEPOSED
        assert (row.state, row.exit_code) == ("COMPLETED", "0:0")
        stays(lambda: batch.accounted(hold["job_id"]) == row, "its row in sacct", for_s=1.5, step_s=0.5)


def test_a_second_hold_is_cancelled_even_when_it_runs_first(replicas: Replicas) -> None:
    """As a late submission would be: the marker of the gang, a later id, and free nodes at once."""
    assert replicas.leader.leads()
    with fleet.only("k8s-gpu-2"):
        blocker = batch.sbatch(8, node="gpu2")
        batch.wait_running(blocker)
        waiting = gang.submit("waiting", pods=1, gpus=8)
        waiting.wait_for("Queued")
        older = waiting.hold()
        marked = f"--comment={older['admin_comment']}"
        assert batch.ended(batch.sbatch(8, marked, node="gpu3")).state == "CANCELLED"
        batch.cancel(blocker)
        waiting.wait_for("Running")
        before = _versions(waiting)
        assert batch.ended(batch.sbatch(8, marked, node="gpu3")).state == "CANCELLED"
        assert _live(waiting) == [older["job_id"]]
        assert (_versions(waiting), waiting.status()["attempt"]) == (before, 1)


def test_a_leader_frozen_under_load_changes_nothing_when_it_goes_on(replicas: Replicas) -> None:
    with fleet.only(*fleet.KWOK):
        steady = gang.submit("steady", pods=2, gpus=1, per_node=1)
        steady.wait_for("Running")
        gangs = [gang.submit(f"load-{number}", pods=2, gpus=1, per_node=1, kwok="succeed") for number in range(4)]
        replicas.leader.freeze()
        jobs = [batch.sbatch(2, node=node) for node in ("gpu0", "gpu1")]
        gangs += [gang.submit(f"more-{number}", pods=2, gpus=1, per_node=1, kwok="succeed") for number in range(2)]
        deposed = replicas.take_over()
        for each in gangs:
            each.wait_for("Succeeded", within_s=30)
        for job_id in jobs:
            batch.wait_running(job_id)
        audit.assert_sound()
        before = _everything()

        deposed.thaw()
        assert deposed.wait_ended() == DEPOSED
        assert "leadership_lost" in deposed.log.read_text().splitlines()[-1]
        stays(lambda: _everything() == before, "every object of gangs and mirrors", for_s=2)
        for each in gangs:
            _ended_with_one_hold(each)
        assert _live(steady) == [steady.hold()["job_id"]]


def test_a_leader_that_is_killed_is_replaced_and_its_gangs_run_on(replicas: Replicas) -> None:
    with fleet.only(*fleet.KWOK):
        gangs = [gang.submit(f"orphaned-{number}", pods=2, gpus=1, per_node=1, kwok="succeed") for number in range(4)]
        replicas.leader.kill()
        replicas.take_over()
        for each in gangs:
            each.wait_for("Succeeded", within_s=30)
            _ended_with_one_hold(each)


def test_a_leader_that_is_told_to_stop_hands_over_without_waiting(replicas: Replicas) -> None:
    with fleet.only(*fleet.KWOK):
        gangs = [gang.submit(f"handed-{number}", pods=2, gpus=1, per_node=1, kwok="succeed") for number in range(4)]
        assert replicas.leader.stop(signal.SIGTERM) == 0
        replicas.take_over()
        taken = [
            json.loads(line) for line in replicas.leader.log.read_text().splitlines() if "leadership_taken" in line
        ]
        assert taken[-1]["before"] == "", "it waited until the Lease ran out"
        shown = eventually(lambda: _shown_leader() == taken[-1]["identity"], "the Fleet names its leader")
        assert shown
        for each in gangs:
            each.wait_for("Succeeded", within_s=30)
            _ended_with_one_hold(each)


def _versions(each: Gang) -> dict[str, str]:
    """Return the versions of a gang and of everything of it in Kubernetes, by uid."""
    return {
        obj["metadata"]["uid"]: obj["metadata"]["resourceVersion"] for obj in [each.raw(), *each.pods(), *each.claims()]
    }


def _everything() -> dict[str, str]:
    objects: list[Object] = [
        *listed("gangjobs,pods,resourceclaims,services"),
        *listed("gangjobs,resourceclaims", namespace=MIRRORS),
    ]
    return {obj["metadata"]["uid"]: obj["metadata"]["resourceVersion"] for obj in objects}


def _live(each: Gang) -> list[int]:
    uid = each.uid()
    return [job["job_id"] for job in batch.holds_of(uid, batch.live_jobs())]


def _ended_with_one_hold(each: Gang) -> None:
    """Assert that one hold was completed, and that others, if a submission came twice, were cancelled."""
    rows = [batch.ended(hold["job_id"]) for hold in each.holds()]
    completed = [row for row in rows if row.state == "COMPLETED"]
    assert [row.exit_code for row in completed] == ["0:0"], rows
    assert {row.state for row in rows} <= {"COMPLETED", "CANCELLED"}, rows


def _shown_leader() -> str:
    obj = found("fleet", "main", namespace=None)
    assert obj is not None
    return str(obj["status"].get("leader", {}).get("identity"))
