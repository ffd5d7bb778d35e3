"""A cgroup per kubelet, so that several of them, and the machine itself, do not meet. Versions 1 and 2."""

from __future__ import annotations

import time
from pathlib import Path

from e2e.lab.progress import say

ROOT = Path("/sys/fs/cgroup")
V1_CONTROLLERS = ("cpu", "cpuacct", "cpuset", "memory", "devices", "freezer", "blkio", "pids", "systemd", "hugetlb")


def _bases() -> list[Path]:
    if (ROOT / "cgroup.controllers").exists():
        return [ROOT]
    return [ROOT / name for name in V1_CONTROLLERS if (ROOT / name).is_dir()]


def make(name: str) -> None:
    for base in _bases():
        group = base / name
        group.mkdir(exist_ok=True)
        if base.name == "cpuset":  # version 1 starts without any CPU or memory node
            for knob in ("cpuset.cpus", "cpuset.mems"):
                (group / knob).write_text((base / knob).read_text())


def remove(name: str) -> None:
    """Remove the group with everything in it; processes in it must be gone, the kernel may take a moment to agree."""
    deadline = time.monotonic() + 3
    # a machine with both versions: runc makes a group in the second tree too
    bases = [*_bases(), ROOT / "unified"]
    while left := [base / name for base in bases if (base / name).exists()]:
        for group in left:
            for folder in sorted((p for p in group.rglob("*") if p.is_dir()), key=lambda p: -len(p.parts)):
                _rmdir(folder)
            _rmdir(group)
        if time.monotonic() > deadline:
            say(f"cgroups still busy: {' '.join(map(str, left))}")
            return
        time.sleep(0.05)


def _rmdir(folder: Path) -> None:
    try:
        folder.rmdir()
    except OSError:  # busy: the caller asks again
        return
