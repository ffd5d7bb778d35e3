"""slurmctld silent: frozen, so that it does not answer, or gone, so that nobody listens."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from e2e.operator import ROOT
from e2e.scenario.commands import STATE, run


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
    pid = _pid()
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + 20
    while _runs(pid):
        assert time.monotonic() < deadline, f"slurmctld (pid {pid}) did not end"
        time.sleep(0.05)
    try:
        yield
    finally:
        run(sys.executable, "-m", "e2e.lab", "up", env={"PYTHONPATH": str(ROOT)}, timeout_s=110)


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
