"""A gang that does not fit waits in Slurm's queue, holds nothing in Kubernetes, and starts by itself."""

from __future__ import annotations

import pytest

from e2e.scenario import audit, batch, fleet, gang, recording
from e2e.scenario.commands import listed
from e2e.scenario.eventually import eventually, stays

pytestmark = pytest.mark.usefixtures("bridge")


def test_a_gang_on_a_full_fleet_waits_pinned_in_squeue_and_starts_when_sbatch_jobs_end() -> None:
    jobs = fleet.fill()
    big = gang.submit("big", pods=2, gpus=8, topology={"required": "rack"})
    big.waits("InsufficientDevices", "2 pods of gpu:h100:8 need 2 nodes with 8 free gpu:h100 each; 0 of 4 have them")
    hold = big.hold()
    assert hold["job_state"] == ["PENDING"]
    pin = set(batch.nodes(hold["required_nodes"]))
    assert pin in ({"gpu0", "gpu1"}, {"gpu2", "gpu3"})
    assert f"{hold['job_id']} PENDING" in batch.squeue("%i %T")
    stays(lambda: not _in_kubernetes(), "nothing is held in Kubernetes while the gang waits", for_s=1)

    # One of the two nodes is not enough: still nothing may appear.
    first, second = (jobs[name] for name in fleet.REAL)
    batch.cancel(first)
    stays(lambda: not _in_kubernetes(), "nothing is held in Kubernetes while half of the nodes are free", for_s=2)
    assert big.hold()["job_state"] == ["PENDING"]

    with recording.recorded("pods", "resourceclaims") as seen:
        batch.cancel(second)
        big.wait_for("Running", within_s=25)
    recording.assert_never_partial(seen, members=2)
    hold = big.hold()
    assert hold["job_state"] == ["RUNNING"]
    assert batch.nodes(hold["nodes"]) == ["gpu0", "gpu1"]
    audit.assert_sound()


def test_a_waiting_gang_says_how_many_places_it_needs_and_how_many_there_are() -> None:
    fleet.fill(gpus_left=2)
    wide = gang.submit("wide", pods=2, gpus=4)
    wide.waits("InsufficientDevices", "2 pods of gpu:h100:4 need 1 node with 8 free gpu:h100 each; 0 of 4 have them")
    assert wide.condition("Accepted")["status"] == "True"
    hold = wide.hold()
    wide.delete()
    eventually(lambda: batch.accounted(hold["job_id"]).state == "CANCELLED", "the hold is cancelled")


def test_a_gang_of_four_never_shows_a_part_of_itself_while_it_starts() -> None:
    with recording.recorded("pods", "resourceclaims") as seen, fleet.only(*fleet.KWOK):
        four = gang.submit("four", pods=4, gpus=4, per_node=2)
        four.wait_for("Running")
    recording.assert_never_partial(seen, members=4)
    audit.assert_sound()


def _in_kubernetes() -> list[str]:
    return [obj["metadata"]["name"] for obj in listed("pods,resourceclaims")]
