"""A gang and an sbatch job on the same servers: exact devices, and what the processes see of them."""

from __future__ import annotations

import pytest

from e2e.scenario import audit, batch, fleet, gang
from e2e.scenario.eventually import eventually
from e2e.scenario.gang import FOREVER, SHOW_DEVICES

pytestmark = pytest.mark.usefixtures("bridge")


def test_two_pods_of_three_gpus_and_an_sbatch_job_of_two_share_a_node_and_all_sides_agree_index_by_index() -> None:
    job_id = batch.sbatch(2, node="gpu0", script="echo gpus=$SLURM_JOB_GPUS; sleep 600")
    job = batch.wait_running(job_id)
    with fleet.only("k8s-gpu-0"):
        pair = gang.submit("pair", pods=2, gpus=3, per_node=2, script=SHOW_DEVICES + FOREVER)
        pair.wait_for("Running")

    hold, pods, claims = pair.hold(), pair.pods(), pair.claims()
    of_job, of_hold = batch.indices(job)["gpu0"], batch.indices(hold)["gpu0"]
    assert sorted(of_job + of_hold) == list(range(8))
    assert {pod["spec"]["nodeName"] for pod in pods} == {"k8s-gpu-0"}

    of_claims = [sorted(index for _, index in map(_device, audit.devices_of(claim))) for claim in claims]
    assert [len(mine) for mine in of_claims] == [3, 3]
    assert sorted(of_claims[0] + of_claims[1]) == of_hold
    for pod, mine in zip(pods, of_claims, strict=True):
        eventually(lambda pod=pod: "SLURM_PROCID" in gang.logs(pod), "the pod has printed its environment")
        assert gang.seen_devices(pod) == mine
        named = [name for name in gang.environment(pod) if name.startswith("GANGBRIDGE_GPU_")]
        assert sorted(int(name.removeprefix("GANGBRIDGE_GPU_")) for name in named) == mine

    printed = eventually(lambda: batch.output_of(job_id), "the sbatch job has printed its devices")
    assert printed.strip() == "gpus=" + ",".join(map(str, of_job))
    audit.assert_sound()


def test_ranks_are_contiguous_in_topology_order_and_every_member_finds_the_first() -> None:
    script = "env; " + _RESOLVE + FOREVER
    with fleet.only(*fleet.REAL):
        quad = gang.submit("quad", pods=4, gpus=4, per_node=2, script=script)
        quad.wait_for("Running")
    hold, pods = quad.hold(), quad.pods()

    assert [pod["spec"]["nodeName"] for pod in pods] == ["k8s-gpu-0", "k8s-gpu-0", "k8s-gpu-1", "k8s-gpu-1"]
    for number, pod in enumerate(pods):
        eventually(lambda pod=pod: "resolved=" in gang.logs(pod), f"rank {number} has looked up MASTER_ADDR")
        seen = gang.environment(pod)
        expected = {
            "RANK": number, "WORLD_SIZE": 4, "LOCAL_RANK": number % 2, "LOCAL_WORLD_SIZE": 2, "NODE_RANK": number // 2,
            "SLURM_PROCID": number, "SLURM_NTASKS": 4, "SLURM_LOCALID": number % 2, "SLURM_NODEID": number // 2,
            "SLURM_JOB_ID": hold["job_id"], "SLURM_JOB_NUM_NODES": 2, "SLURM_JOB_NODELIST": "gpu[0-1]",
            "SLURMD_NODENAME": f"gpu{number // 2}",
        }  # fmt: skip
        assert {name: seen[name] for name in expected} == {name: str(value) for name, value in expected.items()}
        assert seen["MASTER_ADDR"].startswith(pods[0]["metadata"]["name"] + ".")
        assert int(seen["MASTER_PORT"]) > 0
        assert seen["resolved"] == pods[0]["status"]["podIP"]


# ping resolves as every program does, by the search list of the pod
_RESOLVE = (
    "until at=$(ping -c1 -W1 $MASTER_ADDR 2>/dev/null | sed -n '1s/.*(\\(.*\\)).*/\\1/p'); [ \"$at\" ]; do "
    "sleep 0.2; done; "
    "echo resolved=$at; "
)


def _device(owned: audit.Ownership) -> audit.Device:
    return owned.device
