"""sbatch jobs in Kubernetes: who holds which devices, as long as he does; and what kubectl shows of our kinds."""

from __future__ import annotations

import pytest

from e2e.scenario import audit, batch
from e2e.scenario.commands import MIRRORS, CommandFailed, Object, found, kubectl
from e2e.scenario.eventually import eventually

pytestmark = pytest.mark.usefixtures("bridge")

GONE_WITHIN_S = 5


def test_an_sbatch_job_is_a_gangjob_with_live_status_and_its_devices_until_it_ends() -> None:
    blocker = batch.sbatch(8, node="gpu0")
    batch.wait_running(blocker)
    job_id = batch.sbatch(3, "-J", "llm", node="gpu0", user="bob")
    mirror = eventually(lambda: found("gangjob", f"slurm-{job_id}", namespace=MIRRORS), "the pending job has a mirror")
    assert mirror["spec"]["origin"] == "Slurm"
    eventually(lambda: _shown(job_id, "Queued", "PENDING"), "the mirror shows the pending job")

    batch.cancel(blocker)
    status = eventually(lambda: _shown(job_id, "Running", "RUNNING"), "the mirror shows the running job")
    hold = status["hold"]
    assert (hold["name"], hold["user"], hold["account"], hold["nodes"]) == ("llm", "bob", "bio", "gpu0")
    assert status["gpus"] == 3
    job = batch.job(job_id)
    eventually(lambda: _devices(job_id) == [("gpu0", index) for index in batch.indices(job)["gpu0"]], "devices agree")
    audit.assert_sound()

    batch.cancel(job_id)
    eventually(
        lambda: not found("gangjob", f"slurm-{job_id}", namespace=MIRRORS) and not _devices(job_id),
        "mirror and claim are gone",
        within_s=GONE_WITHIN_S,
    )


def test_a_job_on_two_nodes_has_a_claim_on_each_with_exactly_its_devices() -> None:
    job_id = batch.sbatch(5, "-N", "2", "-w", "gpu[0-1]")
    job = batch.wait_running(job_id)
    expected = [(node, index) for node, numbers in batch.indices(job).items() for index in numbers]
    assert len(expected) == 10
    eventually(lambda: _devices(job_id) == sorted(expected), "the claims hold the devices of both nodes")
    audit.assert_sound()


def test_every_running_task_of_an_array_shows_its_devices() -> None:
    first = batch.sbatch(2, "--array=0-2", node="gpu1")

    def tasks() -> list[Object]:
        running = [job for job in batch.live_jobs() if job["array_job_id"]["number"] == first]
        assert len(running) == 3
        assert all(job["job_state"] == ["RUNNING"] for job in running)
        return running

    for job in eventually(tasks, "three tasks run"):
        expected = [("gpu1", index) for index in batch.indices(job)["gpu1"]]
        number = job["job_id"]
        eventually(lambda number=number, want=expected: _devices(number) == want, f"devices of task {number} are shown")
    audit.assert_sound()


def test_neither_tenants_nor_the_admin_can_edit_or_delete_a_mirror_or_its_claims() -> None:
    job_id = batch.sbatch(1)
    name = f"slurm-{job_id}"
    eventually(lambda: len(_devices(job_id)) == 1, "the device is shown")
    claim = next(owned for owned in audit.claimed() if owned.name.startswith(f"{MIRRORS}/{name}-")).claim
    attempts = (
        ("annotate", "gangjob", name, "mine=yes"),
        ("patch", "gangjob", name, "--type=merge", "-p", '{"spec":{"queue":"other"}}'),
        ("patch", "gangjob", name, "--subresource=status", "--type=merge", "-p", '{"status":{"phase":"Failed"}}'),
        ("delete", "gangjob", name, "--wait=false"),
        ("annotate", "resourceclaim", claim["metadata"]["name"], "mine=yes"),
        ("delete", "resourceclaim", claim["metadata"]["name"], "--wait=false"),
    )
    for user, words in {"alice": "Forbidden", "bob": "Forbidden", "admin": "gangbridge alone"}.items():
        for attempt in attempts:
            with pytest.raises(CommandFailed, match=words):
                kubectl(*attempt, "-n", MIRRORS, user=user)
    assert len(_devices(job_id)) == 1


def test_kubectl_explains_fields_and_prints_the_columns_that_people_want() -> None:
    text = kubectl("explain", "gangjob.spec.roles.gres")
    assert "GPUs of each pod, as in sbatch --gres" in text
    assert _header("gj", "-n", MIRRORS) == "NAME QUEUE PHASE REASON PODS GPUS PLACEMENT JOBID START AGE"
    assert _header("fleet") == "NAME SLURM NODES GPUS-FREE PODS SBATCH GANGS VIOLATIONS SYNC AGE"


def _header(kind: str, *args: str) -> str:
    batch.wait_running(batch.sbatch(1))
    lines = eventually(lambda: kubectl("get", kind, *args).splitlines(), "there is something to print")
    return " ".join(lines[0].split())


def _shown(job_id: int, phase: str, state: str) -> Object:
    mirror = found("gangjob", f"slurm-{job_id}", namespace=MIRRORS)
    assert mirror is not None
    status: Object = mirror.get("status", {})
    assert (status.get("phase"), status.get("hold", {}).get("state")) == (phase, state), status
    return status


def _devices(job_id: int) -> list[audit.Device]:
    mine = [owned for owned in audit.claimed() if owned.name.startswith(f"{MIRRORS}/slurm-{job_id}-")]
    return sorted(owned.device for owned in mine)
