"""The Slurm root in use: an overlay over the cached template, so that everything written goes to the state folder."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import time
from pathlib import Path

from e2e.lab import mounts
from e2e.lab.command import LabError, run
from e2e.lab.layout import Layout
from e2e.lab.progress import say

CLEAN = {"PATH": "/opt/venv/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LC_ALL": "C.UTF-8"}
CLONE_INSIDE = "/opt/gangbridge"
SCRATCH_INSIDE = "/lab"


def enter(lab: Layout) -> None:
    """Mount the root and what belongs into it; safe to repeat."""
    if not lab.slurm_template.exists():
        raise LabError("the Slurm root is not built; run `python3 -m e2e.lab build`")
    _forget_other_template(lab)
    upper, work, logs = lab.state / "slurm/upper", lab.state / "slurm/work", lab.logs / "slurm"
    for folder in (upper, work, logs, lab.root, lab.scratch):
        folder.mkdir(parents=True, exist_ok=True)
    lab.scratch.chmod(0o1777)
    root = lab.root
    overlay = f"lowerdir={lab.slurm_template},upperdir={upper},workdir={work}"
    mounts.mount(root, "-t", "overlay", "overlay", "-o", overlay)
    mounts.mount(root / "proc", "-t", "proc", "proc")
    mounts.mount(root / "dev/pts", "--bind", "/dev/pts")
    mounts.mount(root / "dev/shm", "-t", "tmpfs", "tmpfs", "-o", "size=512m")
    mounts.mount(root / "run", "-t", "tmpfs", "tmpfs", "-o", "mode=755,size=64m")
    mounts.mount(root / "var/log/slurm", "--bind", str(logs))
    mounts.mount(root / SCRATCH_INSIDE[1:], "--bind", str(lab.scratch))
    show_clone(lab)
    # the Slurm daemons listen on the address of the machine's own name, which must be the loopback one in here
    (root / "etc/hosts").write_text(f"127.0.0.1 localhost {socket.gethostname()}\n::1 localhost\n")
    if Path("/etc/resolv.conf").exists():
        shutil.copyfile("/etc/resolv.conf", root / "etc/resolv.conf")


def show_clone(lab: Layout) -> None:
    """Mount this clone, in the place of another one that the lab served before: workers run its code."""
    inside = lab.root / CLONE_INSIDE[1:]
    if inside.exists() and not inside.samefile(lab.clone):
        mounts.unmount(inside)
    mounts.mount(inside, "--bind", "-o", "ro", str(lab.clone))


def _forget_other_template(lab: Layout) -> None:
    """What was written over one template means nothing over another."""
    state = lab.state / "slurm"
    note, current = state / "template", lab.slurm_cache.name
    if note.exists() and note.read_text() != current and not mounts.below(lab.root):
        say(f"Slurm state belongs to {note.read_text()}, starting an empty one")
        shutil.rmtree(state)
    state.mkdir(parents=True, exist_ok=True)
    note.write_text(current)


def inside(lab: Layout, *argv: str, stdin: str | None = None, timeout: float = 60) -> str:
    """Output of a command that root runs inside the Slurm root."""
    return run(["chroot", str(lab.root), *argv], env=CLEAN, cwd=Path("/"), stdin=stdin, timeout=timeout)


def command(lab: Layout, *argv: str) -> tuple[str, ...]:
    """`argv` as a daemon's command line inside the root."""
    return ("chroot", str(lab.root), *argv)


def processes(root: Path) -> list[int]:
    """Every process that lives in `root`: daemons, job steps, scripts, workers."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if (entry / "root").readlink() == root:
                    found.append(int(entry.name))
            except OSError:  # gone meanwhile
                continue
    return found


def leave(root: Path) -> None:
    """End what still lives in `root` (jobs of a stopped Slurm, an interrupted build) and unmount it."""
    deadline = time.monotonic() + 5
    while left := processes(root):
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        if time.monotonic() > deadline:
            say(f"processes {left} do not leave {root}")
            break
        time.sleep(0.05)
    mounts.unmount(root)
