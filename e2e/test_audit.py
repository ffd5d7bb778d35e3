"""``gangbridge audit`` on real servers: what is broken by hand is found and named, and gone when it is undone."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.operator import ROOT, Operator
from e2e.scenario import batch, fleet, gang
from e2e.scenario.commands import MIRRORS, NAMESPACE, Object, apply, conditions, found, kubectl, listed, slurm
from e2e.scenario.eventually import eventually

WRITER = "gangbridge"
"""The one identity that the policies let write allocations."""


@pytest.fixture(scope="module")
def operator(installed: None) -> Iterator[Operator]:  # noqa: ARG001
    """An operator that audits all the time."""
    process = Operator("--audit-s", "1")
    process.start()
    yield process
    if process.is_alive:
        process.kill()


@pytest.fixture(autouse=True)
def undone(bridge: Operator) -> Iterator[None]:  # noqa: ARG001 - it finds nothing left after this
    yield
    batch.cancel(*(job["job_id"] for job in batch.live_jobs() if job["name"] == "forged"))
    kubectl("delete", "resourceclaims", "-n", NAMESPACE, "-l", "made-by=hand")


def test_a_device_in_two_claims_is_found_by_the_command_and_by_the_operator(bridge: Operator) -> None:
    assert _audit() == (0, [])
    for name in ("first", "second"):
        _take(name, "k8s-gpu-3", 7)
    code, violations = _audit()
    assert code == 1
    assert [(each["invariant"], each["subject"]) for each in violations] == [("I1", "gpu3 index 7")]
    assert violations[0]["sentence"] == (
        f"gpu3 index 7 has more than one owner: claim {NAMESPACE}/first, claim {NAMESPACE}/second"
    )

    assert bridge.is_alive
    status = eventually(lambda: _dashboard(1), "the Fleet counts the violation")
    assert status["violationDetails"] == [f"I1 {violations[0]['sentence']}"]
    assert conditions({"status": status})["Clean"]["message"] == "1 violation: I1 1"
    eventually(lambda: violations[0]["sentence"] in _warnings(), "the Fleet has an event")

    kubectl("delete", "resourceclaim", "second", "-n", NAMESPACE)
    assert _audit() == (0, [])
    eventually(lambda: _dashboard(0), "the Fleet counts none")


def test_a_stripped_mirror_a_stolen_device_and_a_forged_marker_are_named_with_both_sides_evidence(
    bridge: Operator,
) -> None:
    job_id = batch.sbatch(2, node="gpu2")
    held = batch.indices(batch.wait_running(job_id))["gpu2"]
    eventually(lambda: _mirror_claims(job_id), "the job is mirrored")
    assert _audit() == (0, [])

    # Nobody repairs what is broken now.
    bridge.kill()
    for name in _mirror_claims(job_id):
        kubectl("patch", "resourceclaim", name, "-n", MIRRORS, "--type=merge", "-p", _NO_FINALIZERS, user=WRITER)
        kubectl("delete", "resourceclaim", name, "-n", MIRRORS, user=WRITER)
    _take("thief", "k8s-gpu-2", held[0])
    _forge("forged")
    forged = next(job["job_id"] for job in batch.live_jobs() if job["name"] == "forged")

    def broken() -> list[Object]:
        code, violations = _audit()
        assert code == 1
        assert [(each["invariant"], each["subject"]) for each in violations] == [
            ("I1", f"gpu2 index {held[0]}"),
            ("I3", f"job {job_id} on gpu2"),
            ("I6", f"job {forged}"),
        ]
        return violations

    stolen, stripped, forgery = eventually(broken, "the audit finds all three, and the forged one after its grace")
    indices = f"{held[0]}-{held[1]}"
    assert stolen["slurm"] == [f"job {job_id} of alice, RUNNING, on gpu2 (IDX {indices})"]
    assert stolen["kubernetes"] == [f"claim {NAMESPACE}/thief: gpu-{held[0]} of k8s-gpu-2, reserved for nobody"]
    assert stripped["sentence"] == f"job {job_id} runs with gpu2 index {indices}, which its mirror does not show"
    assert forgery["slurm"] == [
        f"job {forged} of alice, RUNNING, hold of {NAMESPACE}/nobody attempt 1, on gpu2 (indices not shown)"
    ]
    assert forgery["kubernetes"] == ["no GangJob with uid forged"]
    assert f"I3  job {job_id} on gpu2\n" in _table()

    kubectl("delete", "resourceclaim", "thief", "-n", NAMESPACE)
    batch.cancel(forged)
    bridge.live()
    eventually(lambda: _audit() == (0, []), "everything is repaired")


def test_a_running_gang_and_its_end_are_sound(bridge: Operator) -> None:
    assert bridge.is_alive
    with fleet.only(*fleet.KWOK):
        pair = gang.submit("pair", pods=2, gpus=4, kwok="run")
        pair.wait_for("Running")
    assert _audit() == (0, [])
    pair.delete()
    assert _audit() == (0, [])


_NO_FINALIZERS = json.dumps({"metadata": {"finalizers": []}})


def _audit() -> tuple[int, list[Object]]:
    done = _run("--output", "json")
    return done.returncode, json.loads(done.stdout)["violations"]


def _table() -> str:
    return _run().stdout


def _run(*args: str) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).parent / "gangbridge"), "audit", *args]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)


def _take(name: str, node: str, index: int) -> None:
    """Allocate a device to a claim of nobody's, as only the operator's identity may."""
    exactly = {"deviceClassName": "gpu.gangbridge.dev", "allocationMode": "ExactCount", "count": 1}
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"made-by": "hand"}},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}},
    }
    apply(claim, user=WRITER)
    result = {"request": "gpu", "driver": "gpu.gangbridge.dev", "pool": node, "device": f"gpu-{index}"}
    only = {"key": "metadata.name", "operator": "In", "values": [node]}
    allocation = {"devices": {"results": [result]}, "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [only]}]}}
    stored = found("resourceclaim", name)
    assert stored is not None
    path = f"/apis/resource.k8s.io/v1/namespaces/{NAMESPACE}/resourceclaims/{name}/status"
    kubectl(
        "replace",
        "--raw",
        path,
        "-f",
        "-",
        stdin=json.dumps(stored | {"status": {"allocation": allocation}}),
        user=WRITER,
    )


def _forge(name: str) -> None:
    """Submit a job as alice whose comment says that it is a hold."""
    system = found("namespace", "kube-system", namespace=None)
    assert system is not None
    marker = {"gangbridge": 1, "uid": "forged", "attempt": 1, "gang": f"{NAMESPACE}/nobody"}
    comment = json.dumps(marker | {"cluster": system["metadata"]["uid"]}, separators=(",", ":"))
    slurm("salloc", "--no-shell", "-J", name, "-w", "gpu2", "-t", "5", f"--comment={comment}", user="alice")


def _mirror_claims(job_id: int) -> list[str]:
    claims = listed("resourceclaims", "-l", f"gangbridge.dev/job-id={job_id}", namespace=MIRRORS)
    return [obj["metadata"]["name"] for obj in claims if obj.get("status", {}).get("allocation")]


def _dashboard(violations: int) -> Object:
    obj = found("fleet", "main", namespace=None)
    assert obj is not None
    status: Object = obj["status"]
    assert status.get("violations") == violations, status
    return status


def _warnings() -> str:
    selector = "involvedObject.kind=Fleet,type=Warning,reason=InvariantBroken"
    return "\n".join(obj["message"] for obj in listed("events", "--field-selector", selector, namespace="default"))
