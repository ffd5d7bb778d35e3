"""Two replicas under a supervisor that starts them again at once, now and then with a place to die at."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections import Counter
from pathlib import Path
from typing import get_args

from bridge.lifecycle.actions import Action
from e2e.chaos.diary import Diary
from e2e.operator import Operator

FAILPOINT_SHARE = 0.5
"""Of the lives: so many are to end between two writes."""
LEADER_SHARE = 0.75
"""Of the faults: so many aim at the replica that leads."""
LEASE_S = 3
"""Short enough for a frozen leader to be replaced."""
FIRST_PORT = 18091
PLACES = tuple(
    f"{moment}:{name}"
    for moment in ("before", "after")
    for name in (
        *(kind.__name__ for kind in get_args(Action)),
        *(f"Status{phase}" for phase in ("Queued", "Starting", "Running", "Completing", "Succeeded", "Failed")),
    )
)


class Keeper:
    """Keeps two replicas alive until ``stop``; every death at a failpoint is a fault in the diary."""

    def __init__(self, diary: Diary, rng: random.Random) -> None:
        self.lives = 0
        self.ended_by_itself: Counter[int] = Counter()
        """Exit statuses of lives that nobody killed: a deposed leader ends, and so does one without an API server."""
        self._diary = diary
        self._rng = rng
        self._replicas = [
            Operator("--lease-duration-s", str(LEASE_S), name=f"chaos-{letter}", probe_port=FIRST_PORT + number)
            for number, letter in enumerate("ab")
        ]
        self._calm = False
        self._killed: set[int] = set()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="keeper", daemon=True)

    @property
    def logs(self) -> list[Path]:
        """Return the logs of the replicas."""
        return [replica.log for replica in self._replicas]

    def start(self) -> None:
        """Start both replicas, and their supervision when they are ready."""
        for replica in self._replicas:
            replica.start()
        self.lives = len(self._replicas)
        self._thread.start()

    def pick(self) -> int | None:
        """Return the pid of a replica, rather of the one that leads; None when none lives."""
        alive = [replica for replica in self._replicas if replica.is_alive]
        leading = [replica for replica in alive if _leads(replica)]
        chosen = self._rng.choice(leading if leading and self._rng.random() < LEADER_SHARE else alive or [None])
        return chosen.process.pid if chosen is not None and chosen.process is not None else None

    def kill(self) -> bool:
        """SIGKILL a replica; return whether there was one."""
        pid = self.pick()
        if pid is not None:
            self._killed.add(pid)
        return pid is not None and send(pid, signal.SIGKILL)

    def calm(self, within_s: float = 60) -> None:
        """Return when both replicas live without a failpoint and one leads; TimeoutError when not in time."""
        self._calm = True
        for replica in self._replicas:
            if replica.is_alive and replica.process is not None:
                replica.thaw()
                if replica.env:
                    self._killed.add(replica.process.pid)
                    send(replica.process.pid, signal.SIGKILL)
        deadline = time.monotonic() + within_s
        while any(replica.env for replica in self._replicas) or not any(map(_leads, self._replicas)):
            if time.monotonic() > deadline:
                raise TimeoutError(f"no replica leads {within_s:g} s after the last fault")
            time.sleep(0.1)

    def stop(self) -> None:
        """End supervision and replicas."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()
        for replica in self._replicas:
            if replica.is_alive:
                replica.thaw()
            replica.stop()

    def _keep(self) -> None:
        while not self._stopping.wait(0.05):
            for replica in self._replicas:
                if replica.process is not None and replica.process.poll() is not None:
                    self._revive(replica, replica.process.pid, replica.process.returncode)

    def _revive(self, replica: Operator, pid: int, status: int) -> None:
        place = replica.env.get("GANGBRIDGE_DIE_AT")
        if status != -signal.SIGKILL:
            self.ended_by_itself[status] += 1
        elif place and pid not in self._killed:
            self._diary.note("operator dies between writes", place)
        replica.env = self._next_life()
        replica.launch()
        self.lives += 1

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


def workers(pid: int) -> list[int]:
    """Return the Slurm workers of a replica: its children."""
    try:
        texts = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/children")]
    except OSError:  # it ends this moment
        return []
    return [int(word) for text in texts for word in text.split()]


def _leads(replica: Operator) -> bool:
    try:
        return replica.is_alive and replica.leads()
    except OSError:
        return False
