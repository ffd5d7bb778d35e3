"""Start and end of the bench's slurmctld, in an overlay of its own over the lab's cached Slurm root."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from bench.fleets import Shape
from bench.slurm.config import PORT, files
from e2e.lab import chroot, lifecycle, mounts, supervise
from e2e.lab.command import LabError
from e2e.lab.layout import Layout, layout
from e2e.lab.supervise import Daemon

NAME = "slurmctld"
SOURCE = Path(__file__).with_name("allocate.c")
PREPARE = """
set -e
install -d -o slurm -g slurm /run/slurmctld
install -d -o slurm -g slurm -m 700 /var/spool/slurmctld
chown slurm:slurm /etc/slurm/slurm.key
cc -O2 -o /usr/local/bin/allocate /lab/allocate.c -lslurm
"""


@contextmanager
def root() -> Iterator[Layout]:
    """Mount a root for the bench beside the lab's state folder; nothing of it stays, nor of a run that was killed."""
    base = layout()
    lab = replace(base, state=base.state.with_name(f"{base.state.name}-bench"))
    with lifecycle.exclusive(lab):
        _wipe(lab)
        try:
            chroot.enter(lab)
            shutil.copyfile(SOURCE, lab.scratch / SOURCE.name)
            key = lab.root / "etc/slurm/slurm.key"
            key.parent.mkdir(parents=True, exist_ok=True)
            key.write_bytes(secrets.token_bytes(1024))
            key.chmod(0o600)
            chroot.inside(lab, "sh", "-c", PREPARE)
            yield lab
        finally:
            _wipe(lab)


def _wipe(lab: Layout) -> None:
    supervise.stop(lab, NAME, grace=20)
    chroot.leave(lab.root)
    if mounts.below(lab.state):
        raise LabError(f"something stays mounted below {lab.state}; it is not deleted")
    for entry in lab.state.iterdir():
        if entry.is_dir():
            shutil.rmtree(entry)


@contextmanager
def slurmctld(lab: Layout, shape: Shape) -> Iterator[None]:
    """Run slurmctld for one fleet, from an empty state."""
    for name, text in files(shape).items():
        (lab.root / "etc/slurm" / name).write_text(text)
    chroot.inside(lab, "sh", "-c", "rm -rf /var/spool/slurmctld/*")
    supervise.log_of(lab, NAME).unlink(missing_ok=True)
    daemon = Daemon(
        name=NAME,
        argv=chroot.command(lab, "slurmctld", "-D", "-i"),
        ready=lambda: _answers(lab),
        endpoint=f"127.0.0.1:{PORT}",
        port=PORT,
    )
    try:
        supervise.ensure(lab, daemon)
        yield
    finally:
        supervise.stop(lab, "slurmctld", grace=20)


def log(lab: Layout) -> Path:
    """Return slurmctld's log."""
    return supervise.log_of(lab, NAME)


def version(lab: Layout) -> str:
    return chroot.inside(lab, "slurmctld", "-V").strip()


def _answers(lab: Layout) -> bool:
    try:
        chroot.inside(lab, "scontrol", "ping", timeout=5)
    except LabError:
        return False
    return True
