"""What others change behind the bridge's back, by scontrol and kubectl: it is followed, told or undone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

import pytest

from e2e.scenario import audit, batch, fleet, gang
from e2e.scenario.commands import CommandFailed, Object, found, kubectl, slurm
from e2e.scenario.eventually import eventually, stays
from e2e.scenario.gang import Gang

pytestmark = pytest.mark.usefixtures("bridge")

WRITER = "gangbridge"
"""The one identity that the policies let write allocations: whoever has it is to be followed all the same."""
NODE, SLURM = "k8s-gpu-3", "gpu3"


def test_a_new_time_limit_of_a_running_hold_is_shown() -> None:
    with fleet.only(NODE):
        shown = gang.submit("shown", kwok="run")
        shown.wait_for("Running")
    hold = shown.hold()
    slurm("scontrol", "update", f"JobId={hold['job_id']}", "TimeLimit=60")
    wanted = hold["start_time"]["number"] + 3600
    assert wanted != hold["end_time"]["number"]
    eventually(lambda: _seconds(shown.status()["hold"]["endTime"]) == wanted, "the status shows the new end")
    assert (shown.status()["phase"], shown.status()["attempt"]) == ("Running", 1)


def test_a_pending_hold_that_an_admin_holds_waits_as_it_is_and_says_so() -> None:
    blocker = fleet.fill(nodes=(NODE,))[NODE]
    with fleet.only(NODE):
        patient = gang.submit("patient", kwok="run", gpus=2)
        patient.wait_for("Queued")
        job_id = patient.hold()["job_id"]
        slurm("scontrol", "hold", str(job_id))
        _assert_says(patient, "Slurm: JobHeldAdmin")
        batch.cancel(blocker)
        eventually(lambda: [job["job_id"] for job in batch.live_jobs()] == [job_id], "the node is free")
        stays(lambda: _is_pinned(patient, job_id), "one hold, pending on its node", for_s=4)
        slurm("scontrol", "release", str(job_id))
        patient.wait_for("Running")
    assert [hold["job_id"] for hold in patient.holds()] == [job_id]


def test_nobody_gives_away_a_node_of_a_running_hold_under_its_pods() -> None:
    """slurmctld would free the node at once, without an epilog, and the next job would start beside the pods."""
    with fleet.only(*fleet.KWOK):
        whole = gang.submit("whole", pods=2, gpus=8, per_node=1, kwok="run")
        whole.wait_for("Running")
    job_id = whole.hold()["job_id"]
    for user in ("alice", "root"):
        with pytest.raises(CommandFailed):
            slurm("scontrol", "update", f"JobId={job_id}", "NodeList=gpu2", user=user)
    assert batch.nodes(whole.hold()["nodes"]) == ["gpu2", "gpu3"]
    assert (whole.status()["phase"], whole.status()["attempt"]) == ("Running", 1)


def test_a_drain_of_somebody_else_keeps_its_reason_and_stays() -> None:
    with fleet.only(NODE):
        ending = gang.submit("ending", gpus=2, kwok="run")
        ending.wait_for("Running")
    with _drained("bad fan"):
        with fleet.lost(NODE):
            ending.request_deletion()
            eventually(lambda: batch.live_jobs() == [], "the hold ends: nobody gets the node")
            assert len(audit.claimed()) == 2
            assert _drain() == (True, "bad fan")
        audit.assert_nothing_left()
        stays(lambda: _drain() == (True, "bad fan"), "the drain is not ours to lift", for_s=3)


def test_a_tenant_cannot_change_the_claim_of_his_gang() -> None:
    with fleet.only(NODE):
        own = gang.submit("own", kwok="run")
        own.wait_for("Running")
    (before,) = own.claims()
    name = before["metadata"]["name"]
    for patch, subresource in (
        ({"metadata": {"finalizers": None}}, ()),
        ({"metadata": {"labels": {"gangbridge.dev/rank": "7"}}}, ()),
        ({"status": {"allocation": None, "reservedFor": None}}, ("--subresource=status",)),
    ):
        with pytest.raises(CommandFailed, match=r"by gangbridge|cannot patch resource"):
            _patch(name, patch, *subresource, user="alice")
    with pytest.raises(CommandFailed, match="changed and deleted by gangbridge alone"):
        kubectl("delete", "resourceclaim", name, "-n", own.namespace, user="alice")
    assert own.claims() == [before]


def test_a_claim_that_was_deallocated_is_given_back_to_its_pod() -> None:
    with fleet.only(NODE):
        robbed = gang.submit("robbed", gpus=3, kwok="run")
        robbed.wait_for("Running")
    (before,), (pod,) = robbed.claims(), robbed.pods()
    path = f"/apis/resource.k8s.io/v1/namespaces/research/resourceclaims/{before['metadata']['name']}/status"
    kubectl("replace", "--raw", path, "-f", "-", stdin=json.dumps(before | {"status": {}}), user=WRITER)

    def probe() -> bool:
        (claim,) = robbed.claims()
        assert claim["metadata"]["resourceVersion"] != before["metadata"]["resourceVersion"]
        assert _devices(claim) == _devices(before) != []
        return [each["uid"] for each in claim["status"]["reservedFor"]] == [pod["metadata"]["uid"]]

    eventually(probe, "the claim is the pod's again")
    (same,) = robbed.pods()
    assert same["metadata"]["uid"] == pod["metadata"]["uid"]
    assert (robbed.status()["phase"], robbed.status()["attempt"]) == ("Running", 1)


def test_a_node_whose_extra_somebody_else_uses_takes_no_gang_and_keeps_its_text() -> None:
    slurm("scontrol", "update", f"NodeName={SLURM}", "Extra=rack 7")
    try:
        eventually(_is_closed_for_gangs, "the node is closed for gangs")
        with fleet.only(NODE):
            shut_out = gang.submit("shut-out", kwok="run")
            _assert_says(shut_out, "1 with somebody else's text in Extra")
            assert batch.node(SLURM)["extra"] == "rack 7"
            assert (shut_out.holds(), shut_out.pods()) == ([], [])
            slurm("scontrol", "update", f"NodeName={SLURM}", "Extra=")
            shut_out.wait_for("Running")
            assert batch.node(SLURM)["extra"] == f"gangbridge:{shut_out.hold()['job_id']}"
    finally:
        if batch.node(SLURM)["extra"] == "rack 7":
            slurm("scontrol", "update", f"NodeName={SLURM}", "Extra=")


def _assert_says(of: Gang, words: str) -> None:
    def probe() -> bool:
        message = of.status().get("message", "")
        assert words in message, message
        return True

    eventually(probe, f"{of.name} says why it waits")


def _is_closed_for_gangs() -> bool:
    main = found("fleet", "main", namespace=None)
    assert main is not None
    closed = {entry["nodes"]: entry["reason"] for entry in main["status"]["closed"]}
    return closed.get(SLURM) == "with somebody else's text in Extra"


def _is_pinned(of: Gang, job_id: int) -> bool:
    (hold,) = of.holds()
    return (hold["job_id"], hold["job_state"], hold["required_nodes"]) == (job_id, ["PENDING"], SLURM)


@contextmanager
def _drained(reason: str) -> Iterator[None]:
    slurm("scontrol", "update", f"NodeName={SLURM}", "State=DRAIN", f"Reason={reason}")
    try:
        yield
    finally:
        slurm("scontrol", "update", f"NodeName={SLURM}", "State=RESUME")


def _drain() -> tuple[bool, str]:
    node = batch.node(SLURM)
    return "DRAIN" in node["state"], node["reason"]


def _patch(claim: str, patch: Object, *args: str, user: str) -> None:
    kubectl(
        "patch", "resourceclaim", claim, "-n", "research", "--type=merge", "-p", json.dumps(patch), *args, user=user
    )  # fmt: skip


def _devices(claim: Object) -> list[audit.Device]:
    return [owned.device for owned in audit.devices_of(claim)]


def _seconds(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp())
