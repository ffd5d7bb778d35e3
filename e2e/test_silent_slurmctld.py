"""While slurmctld does not answer nothing is killed and nothing is freed, and all goes on when it does again."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest

from e2e.scenario import audit, controller, fleet, gang
from e2e.scenario.commands import Object, listed
from e2e.scenario.eventually import eventually

pytestmark = pytest.mark.usefixtures("bridge")

SILENCE_S = 30
STUCK_IN_INIT: Object = {
    "initContainers": [
        {"name": "slow", "image": gang.IMAGE, "imagePullPolicy": "Never", "command": ["sh", "-c", "sleep 15"]}
    ]
}


@pytest.mark.parametrize("silence", [controller.frozen, controller.gone], ids=["frozen", "gone"])
def test_a_silence_of_slurmctld_of_30_s_kills_and_frees_nothing(
    silence: Callable[[], AbstractContextManager[None]],
) -> None:
    with fleet.only(*fleet.REAL):
        running = gang.submit("running", pods=4, gpus=2, per_node=2)
        running.wait_for("Running")
        starting = gang.submit("starting", pods=2, gpus=3, per_node=1, pod_spec=STUCK_IN_INIT)
        starting.wait_for("Starting")
        eventually(lambda: len(audit.claimed()) == 14, "the claims of both gangs are allocated")
        before, pods = _devices(), _pods()
        jobs = [running.hold()["job_id"], starting.hold()["job_id"]]

        began = time.monotonic()
        with silence():
            late = gang.submit("late", pods=1, gpus=1)
            while time.monotonic() - began < SILENCE_S:
                assert _devices() == before, "a claim was freed or changed"
                assert _pods() == pods, "a pod was deleted or created"
                time.sleep(0.5)
            assert fleet.slurm_reachable() == "False"
            assert late.status().get("hold") is None

        eventually(lambda: fleet.slurm_reachable() == "True", "the Fleet says that slurmctld answers", within_s=20)
        late.wait_for("Running", within_s=45)
        starting.wait_for("Running")
    assert _devices().items() >= before.items()
    assert [running.hold()["job_id"], starting.hold()["job_id"]] == jobs
    assert len(late.holds()) == 1
    assert running.status()["attempt"] == starting.status()["attempt"] == 1
    audit.assert_sound()


def _devices() -> dict[str, list[audit.Device]]:
    """Return the devices of every claim, by its uid."""
    return {
        claim["metadata"]["uid"]: [owned.device for owned in audit.devices_of(claim)]
        for claim in listed("resourceclaims")
    }


def _pods() -> set[tuple[str, bool]]:
    return {(pod["metadata"]["uid"], "deletionTimestamp" in pod["metadata"]) for pod in listed("pods")}
