"""A device is free when its pod is proven to have stopped, not before: forced deletes, lost nodes, ends by Slurm."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from e2e.scenario import audit, batch, fleet, gang
from e2e.scenario.commands import Object, apply, found, kubectl, slurm
from e2e.scenario.eventually import eventually
from e2e.scenario.gang import Gang

pytestmark = pytest.mark.usefixtures("bridge")

SLOW = "6s"
"""How long the end of a pod takes on a KWOK node; long enough to be looked at several times."""
WRITER = "gangbridge"
"""The operator's identity, which alone may take its finalizer off a pod."""
LOST, KEPT = "k8s-gpu-3", "k8s-gpu-2"
EVICTED_SOON: Object = {
    "tolerations": [
        {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 1}
    ]
}


def test_a_pod_deleted_by_force_keeps_its_device_until_it_has_stopped() -> None:
    with fleet.only(KEPT):
        forced = gang.submit("forced", pods=2, gpus=4, kwok="run", terminating=SLOW)
        forced.wait_for("Running")
        job_id = forced.hold()["job_id"]
        kubectl("delete", "pod", _name(forced, 0), "-n", "research", "--force", "--grace-period=0", "--wait=false")
        waiting = batch.sbatch(8, node="gpu2")
        _assert_held_while_pods_run(forced, job_id, waiting)
        status = forced.wait_for("Failed")
    assert status["reason"] == "PodLost"
    row = batch.ended(job_id)
    assert (row.state, row.exit_code) == ("FAILED", "1:0")
    assert (forced.pods(), forced.claims()) == ([], [])
    batch.wait_running(waiting)


def test_a_gang_leaves_a_lost_node_behind_fenced_and_takes_it_back_when_it_returns() -> None:
    with fleet.only(*fleet.KWOK):
        nomad = _on_both_kwok_nodes("nomad")
    first = nomad.hold()["job_id"]
    with fleet.lost(LOST):
        _assert_runs_elsewhere(nomad, first)
        (pod,), (claim,) = nomad.pods(attempt=1), [claim for claim in nomad.claims() if _attempt(claim) == 1]
        assert pod["spec"]["nodeName"] == LOST
        assert {owned.device[0] for owned in audit.devices_of(claim)} == {"gpu3"}
        _assert_fenced("gpu3", "gangbridge: pods of research/nomad, attempt 1, are not proven gone")
        waiting = batch.sbatch(8, node="gpu3")
        assert [device["world"] for device in _who("gpu3")].count("quarantined") == 4
        audit.assert_sound()
        assert batch.job(waiting)["job_state"] == ["PENDING"]
    eventually(lambda: nomad.pods(attempt=1) == [], "the pod on the node that is back has ended")
    batch.wait_running(waiting)
    eventually(lambda: not _is_drained("gpu3"), "the node is open")
    assert {_attempt(claim) for claim in nomad.claims()} == {2}


def test_an_admins_word_frees_what_is_quarantined_on_a_lost_node() -> None:
    with fleet.only(*fleet.KWOK):
        orphaned = _on_both_kwok_nodes("orphaned")
    first = orphaned.hold()["job_id"]
    with fleet.lost(LOST):
        _assert_runs_elsewhere(orphaned, first)
        _assert_fenced("gpu3", "gangbridge: pods of research/orphaned, attempt 1, are not proven gone")
        kubectl("gang", "fence", LOST, "--reason", "psu dead", "--yes")
        try:
            node = found("node", LOST, namespace=None)
            assert node is not None
            written = json.loads(node["metadata"]["annotations"]["gangbridge.dev/fenced"])
            assert (written["by"], written["reason"]) == ("admin", "psu dead")
            eventually(lambda: {_attempt(claim) for claim in orphaned.claims()} == {2}, "the claim is free")
            eventually(lambda: not _is_drained("gpu3"), "Slurm has the node back")
        finally:
            kubectl("gang", "unfence", LOST)
    eventually(lambda: orphaned.pods(attempt=1) == [], "nothing of the first attempt is left")
    eventually(lambda: not _is_drained("gpu3"), "the node is open")
    assert orphaned.status()["attempt"] == 2


def test_a_pod_that_vanished_behind_everybodys_back_keeps_its_device_until_the_node_is_fenced() -> None:
    """Only the operator may take off the finalizer; whoever acts as it may do harm, but frees no device by it."""
    with fleet.only(KEPT):
        robbed = gang.submit("robbed", pods=2, gpus=2, kwok="run", terminating="1h")
        robbed.wait_for("Running")
        job_id, victim = robbed.hold()["job_id"], _name(robbed, 0)
        strip = ("patch", "pod", victim, "-n", "research", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
        kubectl(*strip, user=WRITER)
        kubectl(
            "annotate", "pod", _name(robbed, 1), "-n", "research", "kwok.gangbridge.dev/terminating=0s", "--overwrite"
        )
        kubectl("delete", "pod", victim, "-n", "research", "--force", "--grace-period=0", "--wait=false")
        _assert_fenced("gpu2", "gangbridge: pods of research/robbed, attempt 1, are not proven gone")
        robbed.wait_for("Failed")
    assert robbed.pods() == []
    (claim,) = robbed.claims()
    assert len(audit.devices_of(claim)) == 2
    assert batch.ended(job_id).state == "FAILED"
    audit.assert_sound()
    kubectl("gang", "fence", KEPT, "--reason", "looked at it", "--yes")
    try:
        eventually(lambda: robbed.claims() == [], "the claim is free")
        eventually(lambda: not _is_drained("gpu2"), "Slurm has the node back")
    finally:
        kubectl("gang", "unfence", KEPT)


def test_a_node_that_its_owner_cancels_goes_to_the_next_job_only_after_the_pods_have_stopped() -> None:
    with fleet.only(*fleet.KWOK):
        victim = gang.submit("victim", pods=2, gpus=8, kwok="run", terminating=SLOW)
        victim.wait_for("Running")
    job_id = victim.hold()["job_id"]
    waiting = batch.sbatch(8, node="gpu2")
    slurm("scancel", str(job_id), user="alice")
    eventually(lambda: f"{job_id} COMPLETING" in batch.squeue("%A %T"), "the hold is completing")
    _assert_held_while_pods_run(victim, job_id, waiting)
    batch.wait_running(waiting)
    status = victim.wait_for("Failed")
    assert status["reason"] == "Cancelled"
    assert batch.ended(job_id).state == "CANCELLED"
    eventually(lambda: not _is_drained("gpu2"), "the node is open")


@pytest.fixture
def namespace() -> Iterator[str]:
    """A namespace of its own with a queue; what is left of both goes afterwards."""
    queue = {
        "namespaces": {"names": ["passing"]},
        "fleet": "main",
        "slurm": {"partition": "gpu", "account": "physics", "qos": ["normal"], "user": "alice"},
    }
    apply(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "passing"}},
        {"apiVersion": "gangbridge.dev/v1alpha1", "kind": "GangQueue", "metadata": {"name": "passing"}, "spec": queue},
    )
    eventually(lambda: found("serviceaccount", "default", namespace="passing"), "the namespace is ready for pods")
    yield "passing"
    kubectl("delete", "namespace", "passing", "--ignore-not-found")
    kubectl("delete", "gangqueue", "passing")


def test_a_namespace_that_is_deleted_takes_its_gangs_with_it(namespace: str) -> None:
    with fleet.only(KEPT):
        leaving = gang.submit(
            "leaving", user="admin", namespace=namespace, queue="passing", pods=2, gpus=4, kwok="run", terminating="2s"
        )
        leaving.wait_for("Running")
    job_id = leaving.hold()["job_id"]
    kubectl("delete", "namespace", namespace, "--timeout=50s")
    assert found("namespace", namespace, namespace=None) is None
    assert batch.ended(job_id).state in {"CANCELLED", "FAILED"}
    assert [owned.name for owned in audit.claimed() if owned.name.startswith(f"{namespace}/")] == []
    assert batch.live_jobs() == []


def test_at_the_time_limit_pods_are_gone_before_slurm_ends_the_hold() -> None:
    with fleet.only("k8s-gpu-0"):
        short = gang.submit("short", pods=2, gpus=2, timeLimit="1m")
        short.wait_for("Running")
        job_id = short.hold()["job_id"]
        eventually(lambda: (short.pods(), short.claims()) == ([], []), "the pods have stopped", within_s=60)
        assert batch.squeue("%A %T") == [f"{job_id} RUNNING"]
        status = short.wait_for("Failed", within_s=60)
    assert status["reason"] == "TimeLimit"
    assert batch.ended(job_id).state == "TIMEOUT"


def _on_both_kwok_nodes(name: str) -> Gang:
    """Return a running gang of one pod on each, which may begin again."""
    spread = gang.submit(
        name, pods=2, gpus=4, per_node=1, kwok="run", pod_spec=EVICTED_SOON, failurePolicy={"maxRestarts": 1}
    )
    spread.wait_for("Running")
    return spread


def _assert_runs_elsewhere(of: Gang, first: int) -> None:
    """Assert that a second attempt comes to run off the lost node, and that the first one's hold has ended."""

    def probe() -> bool:
        status = of.status()
        shown = status.get("phase"), status.get("attempt"), status.get("message")
        assert shown[:2] == ("Running", 2), shown
        return True

    eventually(probe, f"{of.name} runs again", within_s=40)
    assert LOST not in {pod["spec"]["nodeName"] for pod in of.pods(attempt=2)}
    row = batch.ended(first)
    assert (row.state, row.exit_code) == ("FAILED", "1:0")


def _assert_held_while_pods_run(of: Gang, job_id: int, waiting: int) -> None:
    """Watch until the last pod has stopped: its hold and its claim are there, and the job behind it has not started.

    Pods are read last, so what was seen before a running one was true while it ran.
    """
    times = 0
    while True:
        states = dict(line.split() for line in batch.squeue("%A %T"))
        claims = {gang.rank(claim) for claim in of.claims() if audit.devices_of(claim)}
        running = {gang.rank(pod) for pod in of.pods() if pod["status"]["phase"] == "Running"}
        if not running:
            break
        assert states.get(str(job_id)) in {"RUNNING", "COMPLETING"}, states
        assert states[str(waiting)] == "PENDING", states
        assert running <= claims, f"running {running}, allocated {claims}"
        times += 1
    assert times > 1, "nothing was seen of the end"


def _assert_fenced(node: str, reason: str) -> None:
    eventually(lambda: batch.node(node)["reason"] == reason, f"{node} is drained by us", within_s=30)
    assert _is_drained(node)


def _is_drained(node: str) -> bool:
    return "DRAIN" in batch.node(node)["state"]


def _who(node: str) -> list[Object]:
    devices: list[Object] = json.loads(kubectl("gang", "who", node, "-o", "json"))["devices"]
    return devices


def _attempt(obj: Object) -> int:
    return int(obj["metadata"]["labels"]["gangbridge.dev/attempt"])


def _name(of: Gang, rank: int) -> str:
    name: str = of.pods()[rank]["metadata"]["name"]
    return name
