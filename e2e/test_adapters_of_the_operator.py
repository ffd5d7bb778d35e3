"""The operator without pyslurm: a condition that says why, and the other adapter."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from e2e.operator import Operator
from e2e.scenario import batch, fleet, gang
from e2e.scenario.commands import conditions, found
from e2e.scenario.eventually import eventually


def reachable() -> dict[str, Any]:
    """Return the Fleet's condition SlurmReachable."""
    return conditions(found("fleet", "main", namespace=None) or {}).get("SlurmReachable", {})


@pytest.mark.usefixtures("installed")
def test_a_worker_that_cannot_start_is_a_condition_of_the_fleet_and_no_crash() -> None:
    process = Operator("--worker-python", "/nowhere/python")
    process.launch()
    try:
        told = eventually(lambda: reachable() if reachable().get("status") == "False" else None, "the Fleet says so")
        assert "/nowhere/python" in told["message"]
        assert process.is_alive
    finally:
        process.kill()


@pytest.fixture
def over_commands() -> Iterator[None]:
    """An operator that runs Slurm's commands."""
    process = Operator("--adapter", "Cli")
    process.start()
    fleet.sweep()
    yield
    process.kill()


@pytest.mark.usefixtures("installed", "over_commands")
def test_a_gang_runs_over_slurms_commands_alone() -> None:
    assert (
        "cli" in eventually(lambda: reachable() if reachable().get("status") == "True" else None, "it reads")["message"]
    )
    made = gang.submit("plain", pods=2, gpus=2, per_node=1, script="exit 0", kwok="succeed")
    hold = eventually(lambda: made.holds() or None, "the hold is there")[0]
    made.wait_for("Succeeded", within_s=40)
    # No command ends a job with an exit code: the adapter cancels, and says so.
    assert batch.ended(hold["job_id"]).state.startswith("CANCELLED")
    made.delete()
    fleet.settle()
