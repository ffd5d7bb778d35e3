"""Mounts below the state folder. /proc/self/mountinfo is the only truth; nothing is remembered."""

from __future__ import annotations

from pathlib import Path

from e2e.lab.command import LabError, run


def below(folder: Path) -> list[Path]:
    """Mount points at or below `folder`, deepest first (the order in which they can be removed)."""
    found = []
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        # octal escapes: the kernel writes a blank as \040
        point = Path(line.split()[4].encode().decode("unicode_escape"))
        if point == folder or folder in point.parents:
            found.append(point)
    return found[::-1]


def mount(point: Path, *options: str) -> None:
    """`mount OPTIONS point`, unless something is mounted there already."""
    if point in below(point):
        return
    point.mkdir(parents=True, exist_ok=True)
    run(["mount", *options, point])


def unmount(folder: Path) -> None:
    """Unmount everything at or below `folder`; what is still busy is detached and disappears with its last user."""
    for point in below(folder):
        try:
            run(["umount", point])
        except LabError:
            run(["umount", "--lazy", point])
