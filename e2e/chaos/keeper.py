"""The operator under a supervisor that starts it again at once, now and then with a place at which it will die."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from pathlib import Path
from typing import get_args

from bridge.lifecycle.actions import Action
from e2e.chaos.diary import Diary
from e2e.operator import Operator

FAILPOINT_SHARE = 0.5
"""Of the operator's lives: so many are to end between two writes."""
PLACES = tuple(
    f"{moment}:{name}"
    for moment in ("before", "after")
    for name in (
        *(kind.__name__ for kind in get_args(Action)),
        *(f"Status{phase}" for phase in ("Queued", "Starting", "Running", "Completing", "Succeeded", "Failed")),
    )
)


class Keeper:
    """Keeps one operator alive until ``stop``; every death at a failpoint is a fault in the diary."""

    def __init__(self, diary: Diary, rng: random.Random) -> None:
        self.lives = 0
        self.ended_by_itself: list[int] = []
        self._diary = diary
        self._rng = rng
        self._operator = Operator()
        self._calm = False
        self._killed: set[int] = set()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="keeper", daemon=True)

    def start(self) -> None:
        """Start the operator, and its supervision when it is ready."""
        self._operator.start()
        self.lives = 1
        self._thread.start()

    def pids(self) -> list[int]:
        """Return the operator that lives, if it does."""
        process = self._operator.process
        return [process.pid] if process is not None and process.poll() is None else []

    def workers(self) -> list[int]:
        """Return the Slurm workers: the operator's children."""
        return [child for pid in self.pids() for child in _children(pid)]

    def calm(self, within_s: float = 60) -> None:
        """Return when an operator without a failpoint is ready; TimeoutError when none is in time."""
        self._calm = True
        for pid in self.pids():
            send(pid, signal.SIGCONT)
        if self._operator.env:
            self.kill()
        deadline = time.monotonic() + within_s
        while self._operator.env or not self._operator.is_ready():
            if time.monotonic() > deadline:
                raise TimeoutError(f"no operator is ready {within_s:g} s after the last fault")
            time.sleep(0.1)

    def stop(self) -> None:
        """End supervision and operator."""
        self._stopping.set()
        self._thread.join()
        for pid in self.pids():
            send(pid, signal.SIGCONT)
        self._operator.stop()

    def _keep(self) -> None:
        while not self._stopping.wait(0.05):
            process = self._operator.process
            if process is None or process.poll() is None:
                continue
            place = self._operator.env.get("GANGBRIDGE_DIE_AT")
            if process.returncode != -signal.SIGKILL:
                self.ended_by_itself.append(process.returncode)
            elif place and process.pid not in self._killed:
                self._diary.note("operator dies between writes", place)
            self._operator.env = self._next_life()
            self._operator.launch()
            self.lives += 1

    def kill(self) -> int | None:
        """SIGKILL the operator; return its pid, None when there is none."""
        for pid in self.pids():
            self._killed.add(pid)
            send(pid, signal.SIGKILL)
            return pid
        return None

    def _next_life(self) -> dict[str, str]:
        if self._calm or self._rng.random() > FAILPOINT_SHARE:
            return {}
        return {"GANGBRIDGE_DIE_AT": f"{self._rng.choice(PLACES)}:{self._rng.randrange(4)}"}


def send(pid: int, number: signal.Signals) -> bool:
    """Send a signal to a process of ours; False when it has just ended."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


def _children(pid: int) -> list[int]:
    try:
        texts = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/children")]
    except OSError:  # it ends this moment
        return []
    return [int(word) for text in texts for word in text.split()]
