"""Slurm jobs as their users and admins see them."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache

from e2e.scenario.commands import STATE, CommandFailed, Object, slurm
from e2e.scenario.eventually import eventually

_DETAIL = re.compile(r"gpu(?::([^:(]+))?:(\d+)\(IDX:([0-9,-]+)\)")
_LIVE = {"PENDING", "RUNNING", "SUSPENDED", "COMPLETING", "CONFIGURING"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Accounted:
    """One row of sacct."""

    job_id: int
    state: str
    exit_code: str
    user: str
    account: str
    partition: str
    qos: str


def sbatch(gpus: int, *args: str, user: str = "alice", script: str = "sleep 600", node: str | None = None) -> int:
    """Submit a job of ``gpus`` GPUs per node and return its id."""
    where = ("-w", node) if node else ()
    options = ("--parsable", f"--gres=gpu:h100:{gpus}", "-t", "30", "-o", "/lab/job-%j.out", *where, *args)
    return int(slurm("sbatch", *options, "--wrap", script, user=user).strip().split(";")[0])


def wait_running(job_id: int) -> Object:
    """Return the job once it runs."""

    def probe() -> Object:
        record = job(job_id)
        assert record["job_state"] == ["RUNNING"], (record["job_state"], record["state_reason"])
        return record

    return eventually(probe, f"job {job_id} runs", within_s=10)


def output_of(job_id: int) -> str:
    """Return what a batch script printed."""
    return (STATE / "scratch" / f"job-{job_id}.out").read_text()


def jobs() -> list[Object]:
    """Return every job that slurmctld knows, also those that ended a while ago, with the detail of its devices."""
    return _records()


def live_jobs() -> list[Object]:
    """Return the jobs that hold or wait for devices."""
    numbers = squeue("%A")
    found = _records(numbers[0]) if len(numbers) == 1 else jobs() if numbers else []
    return [record for record in found if _LIVE.intersection(record["job_state"])]


def job(job_id: int) -> Object:
    """Return one job."""
    return next(record for record in _records(str(job_id)) if record["job_id"] == job_id)


def _records(*which: str) -> list[Object]:
    records: list[Object] = json.loads(slurm("scontrol", "show", "job", "-d", "--json", *which))["jobs"]
    return records


def indices(record: Object) -> dict[str, list[int]]:
    """Return the GPU indices that a job holds, by Slurm node, from the text that ``scontrol -d`` shows."""
    names = nodes(record["nodes"])
    details = record.get("gres_detail") or []
    assert len(details) in {0, len(names)}, f"job {record['job_id']}: {details} on {names}"
    return {name: _expand(detail) for name, detail in zip(names, details, strict=bool(details))}


@cache
def nodes(hostlist: str) -> list[str]:
    """Return the nodes of a host list as scontrol expands it."""
    return slurm("scontrol", "show", "hostnames", hostlist).split() if hostlist else []


def squeue(form: str) -> list[str]:
    """Return ``squeue -h -o FORM``, a line for each job."""
    return slurm("squeue", "-h", "-o", form).splitlines()


def holds_of(uid: str, among: list[Object]) -> list[Object]:
    """Return every hold of a gang ``among`` jobs, live or ended."""
    return [record for record in among if uid in (record["admin_comment"] or record["comment"] or "")]


def node(name: str) -> Object:
    """Return a node as ``scontrol show node`` shows it."""
    (record,) = json.loads(slurm("scontrol", "show", "node", name, "--json"))["nodes"]
    found: Object = record
    return found


def accounted(job_id: int) -> Accounted:
    """Return what sacct says of a job."""
    fields = "jobid,state,exitcode,user,account,partition,qos"
    text = slurm("sacct", "-X", "-n", "-P", "-j", str(job_id), f"--format={fields}").strip()
    assert text, f"sacct does not know job {job_id}"
    number, state, exit_code, user, account, partition, qos = text.splitlines()[0].split("|")
    return Accounted(
        job_id=int(number),
        state=state.split()[0],
        exit_code=exit_code,
        user=user,
        account=account,
        partition=partition,
        qos=qos,
    )


def ended(job_id: int) -> Accounted:
    """Return what sacct says of a job once it has ended."""

    def probe() -> Accounted:
        row = accounted(job_id)
        assert row.state not in {"PENDING", "RUNNING", "COMPLETING"}, row
        return row

    return eventually(probe, f"sacct shows the end of job {job_id}", within_s=10)


def cancel(*job_ids: int) -> None:
    """Cancel jobs, running or not; ended ones are no error."""
    if job_ids:
        try:
            slurm("scancel", *map(str, job_ids))
        except CommandFailed as error:
            if "already completing or completed" not in str(error):
                raise


def _expand(detail: str) -> list[int]:
    found: list[int] = []
    for _, _, text in _DETAIL.findall(detail):
        for part in text.split(","):
            first, _, last = part.partition("-")
            found += range(int(first), int(last or first) + 1)
    return found
