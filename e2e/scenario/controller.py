"""slurmctld silent: frozen, so that it does not answer, or gone, so that nobody listens."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from e2e.operator import ROOT
from e2e.scenario.commands import STATE, CommandFailed, run, slurm
from e2e.scenario.eventually import eventually


@contextmanager
def frozen() -> Iterator[None]:
    """SIGSTOP while the block runs."""
    pid = _pid()
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@contextmanager
def gone() -> Iterator[None]:
    """Terminated while the block runs, then started again from its saved state."""
    _terminate()
    try:
        yield
    finally:
        _lab("up")


def forget() -> None:
    """Restart it as if its state folder were lost (``-c``): no job is known, and no state of a node.

    Job ids go on, as slurmctld has it, and the lab gets its EXTERNAL nodes again.
    """
    external = len(slurm("sinfo", "-h", "-N", "-p", "ext", "-o", "%N").split())
    _terminate()
    clean = subprocess.Popen([*shlex.split(os.environ["GANGBRIDGE_SLURM_EXEC"]), "slurmctld", "-D", "-c"])
    try:
        eventually(_answers, "slurmctld answers without its state")
    finally:
        clean.terminate()
        clean.wait(20)
    _lab("up")
    _lab("external", str(external))


def _terminate() -> None:
    pid = _pid()
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + 20
    while _runs(pid):
        assert time.monotonic() < deadline, f"slurmctld (pid {pid}) did not end"
        time.sleep(0.05)


def _answers() -> bool:
    try:
        slurm("scontrol", "ping")
    except CommandFailed:
        return False
    return True


def _lab(*command: str) -> None:
    run(sys.executable, "-m", "e2e.lab", *command, env={"PYTHONPATH": str(ROOT)}, timeout_s=110)


def _pid() -> int:
    """Return the pid that the lab recorded."""
    pid: int = json.loads((STATE / "run" / "slurmctld.json").read_text())["pid"]
    return pid


def _runs(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as stat:  # noqa: PTH123
            return stat.read().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False
