"""Every end of a gang: what sacct says of it, and that nothing of it stays."""

from __future__ import annotations

import pytest

from e2e.scenario import audit, batch, fleet, gang
from e2e.scenario.commands import Object
from e2e.scenario.eventually import eventually
from e2e.scenario.gang import Gang

pytestmark = pytest.mark.usefixtures("bridge")

STUCK_IN_INIT: Object = {
    "initContainers": [
        {"name": "slow", "image": gang.IMAGE, "imagePullPolicy": "Never", "command": ["sh", "-c", gang.FOREVER]}
    ]
}
"""The pod is on its node, with its devices, but its containers do not start."""


def test_success_is_completed_in_sacct_with_the_gangs_user_and_account() -> None:
    with fleet.only("k8s-gpu-0"):
        good = gang.submit("good", pods=2, gpus=3, script="sleep 1")
        status = good.wait_for("Succeeded")
    assert status["exitCode"] == 0
    _assert_accounted(good, "COMPLETED", "0:0")
    _assert_released(good)
    assert [pod["status"]["phase"] for pod in good.pods()] == ["Succeeded", "Succeeded"]


def test_exit_code_3_of_one_pod_ends_the_whole_gang_as_failed_3_in_sacct() -> None:
    with fleet.only("k8s-gpu-0"):
        bad = gang.submit("bad", pods=2, gpus=2, script=f'[ "$RANK" = 1 ] && sleep 1 && exit 3; {gang.FOREVER}')
        status = bad.wait_for("Failed")
    assert (status["reason"], status["exitCode"]) == ("PodFailed", 3)
    assert "(rank 1) failed with exit code 3" in status["message"]
    _assert_accounted(bad, "FAILED", "3:0")
    _assert_released(bad)


def test_max_restarts_gives_that_many_more_attempts_each_a_failed_job_of_its_own() -> None:
    with fleet.only(*fleet.KWOK):
        again = gang.submit("again", pods=2, gpus=2, kwok="fail", failurePolicy={"maxRestarts": 1})
        status = again.wait_for("Failed", within_s=40)
    assert (status["attempt"], status["restarts"]) == (2, 1)
    holds = sorted(hold["job_id"] for hold in again.holds())
    assert len(holds) == 2
    for job_id in holds:
        row = batch.ended(job_id)
        assert (row.state, row.exit_code, row.user, row.account) == ("FAILED", "1:0", "alice", "physics")
    _assert_released(again)


def test_a_gang_that_is_parked_can_be_deleted() -> None:
    parked = gang.submit("parked", queue="nowhere")
    parked.parked("UnknownQueue")
    parked.delete()
    audit.assert_nothing_left()


def test_deleting_a_queued_gang_cancels_its_pending_hold() -> None:
    fleet.fill(nodes=("k8s-gpu-0",))
    with fleet.only("k8s-gpu-0"):
        queued = gang.submit("queued", gpus=2)
        queued.wait_for("Queued")
        hold = queued.hold()
        assert hold["job_state"] == ["PENDING"]
        queued.delete()
    _assert_cancelled(hold["job_id"])


def test_deleting_a_starting_gang_undoes_it() -> None:
    with fleet.only("k8s-gpu-0"):
        starting = gang.submit("starting", pods=2, gpus=3, pod_spec=STUCK_IN_INIT)
        starting.wait_for("Starting")
        hold = starting.hold()
        eventually(lambda: len(audit.claimed()) == 6, "the claims are allocated")
        audit.assert_sound()
        starting.delete()
    _assert_cancelled(hold["job_id"])
    audit.assert_nothing_left()


def test_deleting_a_running_gang_ends_its_pods_before_its_hold() -> None:
    with fleet.only("k8s-gpu-0"):
        running = gang.submit(
            "running", pods=2, gpus=2, script="trap 'sleep 2; exit 0' TERM; sleep 600 & wait", grace_s=9
        )
        running.wait_for("Running")
        hold, uid = running.hold(), running.uid()
        running.request_deletion()
        eventually(lambda: all("deletionTimestamp" in pod["metadata"] for pod in running.pods()), "the pods are ending")
        assert batch.job(hold["job_id"])["job_state"] == ["RUNNING"], "the hold lives while a pod does"
        audit.assert_sound()
        eventually(lambda: batch.job(hold["job_id"])["job_state"] != ["RUNNING"], "the hold has ended")
    assert [
        owned for owned in audit.claimed() if owned.claim["metadata"]["labels"].get("gangbridge.dev/gang-uid") == uid
    ] == []
    _assert_cancelled(hold["job_id"])
    audit.assert_nothing_left()


def test_deleting_a_completing_gang_still_reports_its_true_exit_code() -> None:
    script = "if [ $RANK = 0 ]; then sleep 1; exit 3; fi; trap 'sleep 3; exit 0' TERM; sleep 600 & wait"
    with fleet.only("k8s-gpu-0"):
        completing = gang.submit("completing", pods=2, gpus=2, script=script, grace_s=9)
        completing.wait_for("Completing")
        hold = completing.hold()
        assert hold["job_state"] == ["RUNNING"]
        completing.delete()
    row = batch.ended(hold["job_id"])
    assert (row.state, row.exit_code, row.user, row.account) == ("FAILED", "3:0", "alice", "physics")
    audit.assert_nothing_left()


def test_deleting_a_finished_gang_removes_its_pods() -> None:
    with fleet.only(*fleet.KWOK):
        done = gang.submit("done", pods=2, gpus=2, kwok="succeed")
        done.wait_for("Succeeded")
    done.delete()
    audit.assert_nothing_left()


def test_scancel_of_the_hold_ends_the_pods_with_their_grace_and_the_gang_as_cancelled() -> None:
    with fleet.only("k8s-gpu-0"):
        victim = gang.submit(
            "victim", pods=2, gpus=2, script="trap 'sleep 2; exit 0' TERM; sleep 600 & wait", grace_s=9
        )
        victim.wait_for("Running")
        hold = victim.hold()
        batch.cancel(hold["job_id"])
        pods = eventually(
            lambda: [pod for pod in victim.pods() if "deletionTimestamp" in pod["metadata"]], "the pods are ending"
        )
        assert {pod["metadata"]["deletionGracePeriodSeconds"] for pod in pods} == {9}
        status = victim.wait_for("Failed")
    assert status["reason"] == "Cancelled"
    _assert_cancelled(hold["job_id"])
    _assert_released(victim)


def _assert_accounted(of: Gang, state: str, exit_code: str) -> None:
    (hold,) = of.holds()
    row = batch.ended(hold["job_id"])
    assert (row.state, row.exit_code) == (state, exit_code)
    assert (row.user, row.account, row.partition, row.qos) == ("alice", "physics", "gpu", "normal")


def _assert_cancelled(job_id: int) -> None:
    row = batch.ended(job_id)
    assert (row.state, row.user, row.account) == ("CANCELLED", "alice", "physics")


def _assert_released(of: Gang) -> None:
    """No claim, no running pod and no hold is left of a gang that has ended."""
    assert of.claims() == []
    assert {pod["status"]["phase"] for pod in of.pods()} <= {"Succeeded", "Failed"}
    assert batch.live_jobs() == []
