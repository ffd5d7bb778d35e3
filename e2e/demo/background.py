"""An operator that outlives the command that started it: found again, and ended, by its pid file."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from e2e.operator import PID


def running() -> int | None:
    """Return the pid of the operator of the pid file, None when it does not run."""
    try:
        pid = int(PID.read_text())
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except (OSError, ValueError):
        return None
    # A pid is used again: only a process that was started as the operator is one.
    return pid if b"operators" in words else None


def stop(timeout_s: float = 20) -> bool:
    """End it with SIGTERM; return whether there was one. TimeoutError when it does not end."""
    pid = running()
    if pid is None:
        return False
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + timeout_s
    while running() == pid:
        if time.monotonic() > deadline:
            raise TimeoutError(f"the operator, pid {pid}, did not end within {timeout_s} s")
        time.sleep(0.05)
    PID.unlink(missing_ok=True)
    return True
