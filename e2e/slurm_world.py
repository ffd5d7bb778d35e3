"""The world of the port's contract on the real lab, and how to talk to its Slurm as anybody."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from uuid import uuid4

from bridge.slurm.port import SlurmPort
from tests.slurm.contract import HOLD_NAME, JOB_NAME

EXEC = os.environ["GANGBRIDGE_SLURM_EXEC"]
SCRATCH = Path(os.environ["GANGBRIDGE_STATE"]) / "scratch"
EPILOG_LOG = Path(os.environ["GANGBRIDGE_STATE"]) / "logs" / "slurm" / "epilog.log"
_EPILOG_CONF = "/etc/slurm/gangbridge-epilog.conf"
PYTHON = "/opt/venv/bin/python"
WORKER = (EXEC, PYTHON, "-m", "bridge.slurm.worker")

NODES = ("gpu2", "gpu3")
EXTERNAL = "ext0"

_RUNS = "while [ ! -e {flag} ]; do sleep 0.1; done"
_STUBBORN = "trap '' TERM; " + _RUNS


def slurm(*command: str, user: str = "root") -> str:
    """Return what a command in the Slurm root prints; fail when it fails."""
    done = subprocess.run([EXEC, "-u", user, *command], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout.strip()


def build_binding() -> None:
    """Compile the worker's libslurm binding; at once when that is done already."""
    slurm(PYTHON, "-m", "bridge.slurm.libslurm_build")


def configure_epilog(**settings: int) -> None:
    """Write the settings of the epilog beside slurm.conf; without any it has its own."""
    text = "".join(f"{name}={value}\\n" for name, value in settings.items())
    slurm("sh", "-c", f"printf '{text}' >{_EPILOG_CONF}" if settings else f"rm -f {_EPILOG_CONF}")


def epilog_log() -> str:
    """Return what the epilogs of all nodes have written."""
    return EPILOG_LOG.read_text()


class LabWorld:
    """Two nodes with slurmd and an external one of the lab, through ``port``."""

    nodes = NODES
    external = EXTERNAL
    partition = "gpu"
    external_partition = "ext"

    def __init__(self, port: SlurmPort) -> None:
        self.port = port
        self._flags: dict[int, Path] = {}

    async def sbatch(self, *, pin: Sequence[str], gpus: int) -> int:
        return await self._submit(_RUNS, pin, gpus)

    async def stubborn_sbatch(self, *, pin: Sequence[str], gpus: int) -> int:
        job_id = await self._submit(_STUBBORN, pin, gpus)
        await _until(lambda: slurm("squeue", "-h", "-j", str(job_id), "-o", "%T") == "RUNNING")
        await asyncio.sleep(1)  # its shell must have set the trap
        return job_id

    async def let_go(self, job_id: int) -> None:
        self._flags[job_id].touch()

    async def drain(self, node: str, reason: str) -> None:
        slurm("scontrol", "update", f"NodeName={node}", "State=DRAIN", f"Reason={reason}")

    async def take_down(self, node: str, reason: str) -> None:
        slurm("scontrol", "update", f"NodeName={node}", "State=DOWN", f"Reason={reason}")

    async def resume(self, node: str) -> None:
        slurm("scontrol", "update", f"NodeName={node}", "State=RESUME")
        await _until(lambda: "NOT_RESPONDING" not in slurm("scontrol", "show", "node", node))

    async def pass_time(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def clean(self) -> None:
        """Cancel what the cases submitted and wait until the nodes are free of it."""
        for flag in self._flags.values():
            flag.touch()
        names = f"{HOLD_NAME},{JOB_NAME}"
        for name in (HOLD_NAME, JOB_NAME):
            slurm("scancel", "--name", name)
        await _until(lambda: not slurm("squeue", "-h", "--name", names, "-o", "%i"))
        for flag in self._flags.values():
            flag.unlink(missing_ok=True)

    async def _submit(self, script: str, pin: Sequence[str], gpus: int) -> int:
        name = f"contract-{uuid4()}"
        options = [
            "-A",
            "bio",
            "-p",
            self.partition,
            "-J",
            JOB_NAME,
            "-w",
            ",".join(pin),
            "-N",
            str(len(pin)),
            "-t",
            "5",
        ]
        output = slurm(
            "sbatch", "--parsable", *options, f"--gres=gpu:h100:{gpus}", "-o", "/dev/null", "--wrap",
            script.format(flag=f"/lab/{name}"), user="bob",
        )  # fmt: skip
        self._flags[int(output)] = SCRATCH / name
        return int(output)


async def _until(wanted: Callable[[], bool]) -> None:
    for _ in range(200):
        if wanted():
            return
        await asyncio.sleep(0.1)
    raise AssertionError("the cluster did not get there in 20 s")
