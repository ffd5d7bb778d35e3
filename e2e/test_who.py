"""``kubectl gang``, as users and admins type it, beside what squeue, scontrol and kubectl say of the same devices."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

import pytest

from e2e.scenario import audit, batch, fleet, gang
from e2e.scenario.commands import CommandFailed, Object, found, kubectl, listed, slurm
from e2e.scenario.eventually import eventually

pytestmark = pytest.mark.usefixtures("bridge")

NODE, SLURM = "k8s-gpu-0", "gpu0"


def test_who_and_nodes_agree_with_squeue_and_kubectl_on_a_shared_node() -> None:
    job_id = batch.sbatch(2, "-J", "bert", node=SLURM, user="bob")
    batch.wait_running(job_id)
    with fleet.only(NODE):
        pair = gang.submit("pair", pods=2, gpus=2, per_node=2)
        pair.wait_for("Running")
    jobs = {job["job_id"]: job for job in (batch.job(job_id), pair.hold())}
    held = {index: number for number, job in jobs.items() for index in batch.indices(job)[SLURM]}
    assert len(held) == 6

    devices = eventually(lambda: _all_taken(held), "the mirror shows its devices")
    assert {device["index"]: device["owner"]["jobId"] for device in devices if device["owner"]} == held
    assert [device["index"] for device in devices] == list(range(8))
    for device in devices:
        if device["index"] in held:
            job, owner = jobs[held[device["index"]]], device["owner"]
            assert (owner["user"], owner["account"]) == (job["user_name"], job["account"])
            assert _seconds(device["until"]) == job["end_time"]["number"]
            assert _seconds(device["since"]) == job["start_time"]["number"]
        else:
            assert (device["world"], device["owner"]) == ("free", None)

    ranks = {(owner["rank"], owner["pod"]) for owner in _owners(devices, "pods")}
    assert ranks == {(gang.rank(pod), pod["metadata"]["name"]) for pod in pair.pods()}
    claims = {owned.name: owned.device[1] for owned in audit.claimed()}
    assert claims.keys() == {owner["claim"] for world in ("pods", "sbatch") for owner in _owners(devices, world)}
    assert {owner["name"] for owner in _owners(devices, "sbatch")} == {"bert"}

    index = next(index for index, number in held.items() if number == job_id)
    for target in (f"{SLURM}:{index}", f"{NODE}/gpu-{index}"):
        assert [device["owner"]["jobId"] for device in _who(target)] == [job_id]
    lines = [line.split() for line in kubectl("gang", "who", SLURM, "--by-owner").splitlines()]
    assert lines[0][:8] == ["NODE", "INDEX", "DEVICE", "WORLD", "OWNER", "RANK", "JOB", "USER"]
    assert {(line[3], line[4], line[6], line[7]) for line in lines[1:]} == {
        ("pods", "research/pair", str(pair.hold()["job_id"]), "alice"),
        ("sbatch", "bert", str(job_id), "bob"),
        ("free", "-", "-", "-"),
    }

    row = _node(NODE)
    assert {world: count for world, count in row["gpus"].items() if count} == {
        "pods": 4, "sbatch": 2, "free": 2, "total": 8,
    }  # fmt: skip
    assert (row["slurmNode"], row["gangs"]) == (SLURM, ["research/pair"])
    assert row["jobs"] == [{"jobId": job_id, "name": "bert"}]
    assert row["domains"] == {"spine": "spine-0", "rack": "rack-0"}


def test_nodes_says_what_slurm_and_the_admins_say_of_a_node() -> None:
    names = {node["metadata"]["name"] for node in listed("nodes", "-l", "gangbridge.dev/slurm-node", namespace=None)}
    rows = json.loads(kubectl("gang", "nodes", "-o", "json"))["nodes"]
    assert {row["node"] for row in rows} == names
    slurm("scontrol", "update", "NodeName=gpu3", "State=DRAIN", "Reason=bad fan")
    try:
        eventually(lambda: _node("gpu3")["state"] == "drained", "the drained node is shown")
        row = _node("gpu3")
        assert (row["reason"], row["gpus"]["out-of-service"]) == ("bad fan", 8)
        assert {device["reason"] for device in _who("k8s-gpu-3")} == {"drained: bad fan"}
    finally:
        slurm("scontrol", "update", "NodeName=gpu3", "State=RESUME")
    eventually(lambda: _node("gpu3")["state"] == "usable", "the node is back")

    kubectl("gang", "fence", "gpu3", "--reason", "psu dead", "--yes")
    try:
        written = json.loads(_annotations("k8s-gpu-3")["gangbridge.dev/fenced"])
        assert (written["by"], written["reason"]) == ("admin", "psu dead")
        assert (_node("gpu3")["state"], _node("gpu3")["reason"]) == ("fenced", "psu dead (admin)")
    finally:
        kubectl("gang", "unfence", "gpu3")
    assert "gangbridge.dev/fenced" not in _annotations("k8s-gpu-3")


def test_a_tenant_sees_his_own_and_with_the_role_who_holds_the_rest() -> None:
    job_id = batch.sbatch(1, node=SLURM, user="bob")
    batch.wait_running(job_id)
    with fleet.only(NODE):
        mine = gang.submit("mine", gpus=1)
        mine.wait_for("Running")
    eventually(lambda: [device["world"] for device in _who(NODE)].count("sbatch") == 1, "the mirror is there")

    own = _who(NODE, "-n", "research", user="alice")
    assert [(device["owner"]["name"], device["owner"]["user"]) for device in own] == [("mine", "alice")]
    with pytest.raises(CommandFailed, match="you may not read nodes"):
        kubectl("gang", "fence", NODE, "--reason", "x", "--yes", user="alice")
    with _bound("gangbridge-fleet-view", "alice"):
        seen = eventually(lambda: _whole(NODE, "alice"), "the role holds")
        assert sorted(device["world"] for device in seen) == ["free"] * 6 + ["pods", "sbatch"]
        assert [owner["jobId"] for owner in _owners(seen, "sbatch")] == [job_id]
        with pytest.raises(CommandFailed, match='cannot patch resource "nodes"'):
            kubectl("gang", "fence", NODE, "--reason", "x", "--yes", user="alice")
    with pytest.raises(CommandFailed, match="did you mean gpu"):
        kubectl("gang", "who", "gpu77")


def _who(*args: str, user: str = "admin") -> list[Object]:
    devices: list[Object] = json.loads(kubectl("gang", "who", *args, "-o", "json", user=user))["devices"]
    return devices


def _all_taken(held: dict[int, int]) -> list[Object] | None:
    devices = _who(NODE)
    return devices if sum(device["owner"] is not None for device in devices) == len(held) else None


def _whole(node: str, user: str) -> list[Object] | None:
    devices = _who(node, "-n", "research", user=user)
    return devices if len(devices) == 8 else None


def _owners(devices: list[Object], world: str) -> list[Object]:
    return [device["owner"] for device in devices if device["world"] == world]


def _node(name: str) -> Object:
    (row,) = json.loads(kubectl("gang", "nodes", name, "-o", "json"))["nodes"]
    return row


def _annotations(name: str) -> dict[str, str]:
    node = found("node", name, namespace=None)
    assert node is not None
    return node["metadata"].get("annotations", {})


def _seconds(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp())


@contextmanager
def _bound(role: str, user: str) -> Iterator[None]:
    kubectl("create", "clusterrolebinding", "who-test", f"--clusterrole={role}", f"--user={user}")
    try:
        yield
    finally:
        kubectl("delete", "clusterrolebinding", "who-test")
