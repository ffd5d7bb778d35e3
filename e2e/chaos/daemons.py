"""The lab's daemons as a fault sees them: killed, frozen, restarted from their state."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

from e2e.lab import control_plane, layout, slurm, supervise
from e2e.lab.command import LabError
from e2e.lab.supervise import Daemon

LAB = layout.layout()
CONTROLLER, ACCOUNTING, API = "slurmctld", "slurmdbd", "kube-apiserver"


def known() -> dict[str, Daemon]:
    """Return the daemons that can be restarted, by name."""
    return {daemon.name: daemon for daemon in (*control_plane.daemons(LAB), *slurm.daemons(LAB))}


@contextmanager
def frozen(name: str) -> Iterator[None]:
    """SIGSTOP while the block runs."""
    supervise.send(LAB, name, signal.SIGSTOP)
    try:
        yield
    finally:
        supervise.send(LAB, name, signal.SIGCONT)


@contextmanager
def dead(name: str, how: signal.Signals) -> Iterator[None]:
    """Ended by ``how`` while the block runs, then started again from its saved state."""
    supervise.send(LAB, name, how)
    while supervise.find(LAB, name) is not None:
        time.sleep(0.05)
    try:
        yield
    finally:
        revive(name)


def revive(name: str) -> None:
    """Start a daemon unless it runs. One start that fails (a port that is not free yet) is repeated."""
    try:
        supervise.ensure(LAB, known()[name])
    except LabError:
        supervise.ensure(LAB, known()[name])


def heal() -> None:
    """Continue and start everything of the lab, whatever was done to it."""
    for record in supervise.records(LAB):
        supervise.send(LAB, record.name, signal.SIGCONT)
    for name in known():
        revive(name)
