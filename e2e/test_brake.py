"""slurmctld comes back without its state: no gang ends for it until an admin says that the holds are gone indeed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from e2e.scenario import audit, batch, brake, controller, fleet, gang
from e2e.scenario.commands import Object, conditions, found, listed
from e2e.scenario.eventually import eventually, stays

GANGS = ("one", "two", "three")


@pytest.fixture
def released_no_longer() -> Iterator[None]:
    """The next scenario has a brake again."""
    yield
    brake.arm()


@pytest.mark.usefixtures("bridge", "released_no_longer")
def test_a_slurmctld_without_state_ends_no_gang_until_an_admin_releases_the_brake() -> None:
    with fleet.only(*fleet.REAL):
        gangs = [gang.submit(name, gpus=2) for name in GANGS]
        for each in gangs:
            each.wait_for("Running")
        pods, holds = _pods(), {each.name: each.hold()["job_id"] for each in gangs}
        used = {owned.device[0] for owned in audit.claimed()}
        controller.forget()
        assert batch.holds_of(gangs[0].uid(), batch.jobs()) == []

        eventually(lambda: _brake()["status"] == "True", "the Fleet says that the brake is on", within_s=30)
        message = _brake()["message"]
        assert message.startswith("3 of 3 gangs look lost at once, research/")
        assert brake.RELEASE in message
        eventually(lambda: used <= _fenced(), "the nodes of the pods are drained by us")
        waiting = [batch.sbatch(8, node=name) for name in sorted(used)]
        stays(lambda: _pods() == pods, "the pods run on", for_s=5)
        assert [batch.job(job_id)["job_state"] for job_id in waiting] == [["PENDING"]] * len(used)
        assert {each.status()["phase"] for each in gangs} == {"Running"}
        batch.cancel(*waiting)

        brake.release()
        eventually(lambda: [each.status()["attempt"] for each in gangs] == [2, 2, 2], "all begin again")
        for each in gangs:
            each.wait_for("Running", within_s=40)
    assert all(each.hold()["job_id"] > max(holds.values()) for each in gangs)
    assert pods.isdisjoint(_pods())
    eventually(lambda: _fenced() == set(), "no node is drained by us any more")
    eventually(lambda: _brake()["status"] == "False", "the brake is off")


def _brake() -> Object:
    main = found("fleet", "main", namespace=None)
    assert main is not None
    return conditions(main)["Brake"]


def _pods() -> set[tuple[str, str, bool]]:
    return {
        (pod["metadata"]["uid"], pod["status"]["phase"], "deletionTimestamp" in pod["metadata"])
        for pod in listed("pods")
    }


def _fenced() -> set[str]:
    """Return the Slurm nodes that are drained with a reason of ours."""
    nodes = {name: batch.node(name) for name in fleet.SLURM_NAMES.values()}
    return {
        name for name, node in nodes.items() if "DRAIN" in node["state"] and node["reason"].startswith("gangbridge: ")
    }
