"""Start and end of the bench's slurmctld, in an overlay of its own over the lab's cached Slurm root."""

from __future__ import annotations

import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from bench.fleets import Shape
from bench.slurm.config import PORT, files
from e2e.lab import chroot, supervise
from e2e.lab.command import LabError
from e2e.lab.layout import Layout, layout
from e2e.lab.supervise import Daemon

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
    """Mount a root for the bench below a temporary folder; nothing of it stays."""
    base = layout()
    parent = base.state.parent
    parent.mkdir(parents=True, exist_ok=True)
    state = Path(tempfile.mkdtemp(prefix=f"{base.state.name}-bench-", dir=parent))
    lab = replace(base, state=state)
    try:
        chroot.enter(lab)
        shutil.copyfile(SOURCE, lab.scratch / SOURCE.name)
        etc = lab.root / "etc/slurm"
        etc.mkdir(parents=True, exist_ok=True)
        key = etc / "slurm.key"
        key.write_bytes(secrets.token_bytes(1024))
        key.chmod(0o600)
        chroot.inside(lab, "sh", "-c", PREPARE)
        yield lab
    finally:
        chroot.leave(lab.root)
        shutil.rmtree(state, ignore_errors=True)


@contextmanager
def slurmctld(lab: Layout, shape: Shape) -> Iterator[None]:
    """Run slurmctld for one fleet, from an empty state."""
    for name, text in files(shape).items():
        (lab.root / "etc/slurm" / name).write_text(text)
    chroot.inside(lab, "sh", "-c", "rm -rf /var/spool/slurmctld/*")
    supervise.log_of(lab, "slurmctld").unlink(missing_ok=True)
    daemon = Daemon(
        name="slurmctld",
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
    return supervise.log_of(lab, "slurmctld")


def version(lab: Layout) -> str:
    return chroot.inside(lab, "slurmctld", "-V").strip()


def _answers(lab: Layout) -> bool:
    try:
        chroot.inside(lab, "scontrol", "ping", timeout=5)
    except LabError:
        return False
    return True
