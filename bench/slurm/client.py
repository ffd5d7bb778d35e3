"""Speaks to ``allocate`` (allocate.c) inside the root, and drains nodes."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.slurm import instance
from bridge.model.hostlist import expand, fold
from e2e.lab import chroot
from e2e.lab.command import LabError
from e2e.lab.layout import Layout

PROGRAM = "/usr/local/bin/allocate"
OWN_TIME = re.compile(r"_slurm_rpc_allocate_resources JobId=(\d+) NodeList=\S+ usec=(\d+)")


class Client:
    """One connection per call, as every client of Slurm has; times are of the call, in seconds."""

    def __init__(self, lab: Layout, process: subprocess.Popen[str]) -> None:
        self._lab = lab
        self._process = process
        self._drained: frozenset[str] = frozenset()

    def take(
        self, partition: str, nodes: int, gpus: int, segment: int, consolidate: bool
    ) -> tuple[float, int, tuple[str, ...]]:
        """Ask for a gang at once; return seconds, job and nodes, which are empty when Slurm refused."""
        seconds, job, text = self._ask(f"take {partition} {nodes} {gpus} {segment} {consolidate:d}")
        return seconds, job, expand(text) if job else ()

    def refuse(self, partition: str, nodes: int, gpus: int, segment: int) -> tuple[float, str]:
        """Ask for what cannot be; return seconds and Slurm's reason."""
        seconds, job, text = self._ask(f"take {partition} {nodes} {gpus} {segment} 0")
        if job:
            raise LabError(f"Slurm granted {nodes} nodes that should not fit: {text}")
        return seconds, text

    def queue(self, partition: str, nodes: int, gpus: int) -> int:
        """Submit a held job; return its id."""
        return self._ask(f"queue {partition} {nodes} {gpus}")[1]

    def give(self, job: int) -> float:
        seconds, _, text = self._ask(f"give {job}")
        if text != "given":
            raise LabError(f"job {job} did not end: {text}")
        return seconds

    def ping(self) -> float:
        """Return the seconds of the cheapest call there is."""
        return self._ask("ping")[0]

    def drain(self, out: frozenset[str]) -> None:
        """Drain exactly the nodes ``out``, open all others."""
        for state, names in (("resume", self._drained - out), ("drain", out - self._drained)):
            if names:
                update = ["update", f"nodename={fold(names)}", f"state={state}"]
                self.scontrol(*update, *(["reason=bench"] if state == "drain" else []))
        self._drained = out

    def scontrol(self, *words: str) -> str:
        return chroot.inside(self._lab, "scontrol", *words)

    def _ask(self, command: str) -> tuple[float, int, str]:
        if self._process.stdin is None or self._process.stdout is None:
            raise LabError("the client has no pipes")
        self._process.stdin.write(command + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline().rstrip("\n")
        if not answer:
            raise LabError(f"the client ended at `{command}`; slurmctld's log: {instance.log(self._lab)}")
        nanoseconds, job, text = answer.split(" ", 2)
        return int(nanoseconds) / 1e9, int(job), text


@contextmanager
def connect(lab: Layout) -> Iterator[Client]:
    """Run the client while slurmctld runs."""
    argv = chroot.command(lab, PROGRAM)
    with subprocess.Popen(
        argv, env=chroot.CLEAN, cwd=Path("/"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield Client(lab, process)
        finally:
            process.kill()


def own_times(log: Path) -> dict[int, float]:
    """Return, by job, the seconds that slurmctld says it spent on granting it."""
    return {int(job): int(usec) / 1e6 for job, usec in OWN_TIME.findall(log.read_text())}
