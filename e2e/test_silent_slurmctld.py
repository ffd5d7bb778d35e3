"""While slurmctld does not answer nothing is killed and nothing is freed, and all goes on when it does again.

First it is frozen, so that calls hang; then it is gone, so that nobody listens; then it is back, from its saved state.
"""

from __future__ import annotations

import pytest

from e2e.scenario import audit, controller, fleet, gang
from e2e.scenario.commands import Object, listed
from e2e.scenario.eventually import eventually, stays

pytestmark = pytest.mark.usefixtures("bridge")

FROZEN_S, GONE_S = 20, 10
STUCK_IN_INIT: Object = {
    "initContainers": [
        {"name": "slow", "image": gang.IMAGE, "imagePullPolicy": "Never", "command": ["sh", "-c", "sleep 15"]}
    ]
}


def test_a_silence_of_slurmctld_of_30_s_kills_and_frees_nothing() -> None:
    with fleet.only(*fleet.REAL):
        running = gang.submit("running", pods=4, gpus=2, per_node=2)
        running.wait_for("Running")
        starting = gang.submit("starting", pods=2, gpus=3, per_node=1, pod_spec=STUCK_IN_INIT)
        starting.wait_for("Starting")
        eventually(lambda: len(audit.claimed()) == 14, "the claims of both gangs are allocated")
        before, pods = _devices(), _pods()
        jobs = [running.hold()["job_id"], starting.hold()["job_id"]]

        def untouched() -> bool:
            assert _devices() == before, "a claim was freed or changed"
            assert _pods() == pods, "a pod was deleted or created"
            return True

        with controller.frozen():
            late = gang.submit("late", pods=1, gpus=1)
            stays(untouched, "devices and pods", for_s=FROZEN_S, step_s=0.5)
            _fleet_says_unreachable()
        with controller.gone():
            stays(untouched, "devices and pods", for_s=GONE_S, step_s=0.5)
            _fleet_says_unreachable()

        eventually(lambda: fleet.slurm_reachable() == "True", "the Fleet says that slurmctld answers", within_s=20)
        late.wait_for("Running", within_s=45)
        starting.wait_for("Running")
    assert _devices().items() >= before.items()
    assert [running.hold()["job_id"], starting.hold()["job_id"]] == jobs
    # Its submission had no answer, so slurmctld may have made and ended a hold in the meantime; never two live ones.
    assert [hold["job_state"] for hold in late.holds()].count(["RUNNING"]) == 1
    assert running.status()["attempt"] == starting.status()["attempt"] == 1
    audit.assert_sound()


def _fleet_says_unreachable() -> None:
    # A frozen server is noticed when the deadline of the read that hangs has passed, not at once.
    eventually(lambda: fleet.slurm_reachable() == "False", "the Fleet says that slurmctld is silent", within_s=20)


def _devices() -> dict[str, list[audit.Device]]:
    """Return the devices of every claim, by its uid."""
    return {
        claim["metadata"]["uid"]: [owned.device for owned in audit.devices_of(claim)]
        for claim in listed("resourceclaims")
    }


def _pods() -> set[tuple[str, bool]]:
    return {(pod["metadata"]["uid"], "deletionTimestamp" in pod["metadata"]) for pod in listed("pods")}
