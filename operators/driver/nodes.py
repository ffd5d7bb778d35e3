"""Device nodes of the host: the files below /dev that a container is given."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from operators.driver.errors import ClaimRefused
from operators.driver.slices import Address


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceNode:
    """A character device: its path in the container and its numbers."""

    path: str
    major: int
    minor: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HostNodes:
    """``root`` + number is the path of a device (``/dev/nvidia`` + ``3``).

    ``fixed`` gives every device these numbers (major, minor) and reads nothing of the host: for test fleets, where a
    device is only a path. ``common`` are nodes that every container with a device needs, as ``/dev/nvidiactl``.
    """

    root: str
    fixed: tuple[int, int] | None = None
    common: tuple[str, ...] = ()

    def device(self, address: Address) -> DeviceNode:
        """The node of one device; ClaimRefused when the host has none."""
        path = f"{self.root}{address.number}"
        if self.fixed is not None:
            return DeviceNode(path=path, major=self.fixed[0], minor=self.fixed[1])
        return _stat(path, f"GPU index {address.index}")

    def shared(self) -> tuple[DeviceNode, ...]:
        """The common nodes, all of which must exist."""
        return tuple(_stat(path, "--common-node") for path in self.common)


def _stat(path: str, owner: str) -> DeviceNode:
    try:
        found = Path(path).stat()
    except OSError as error:
        raise ClaimRefused(f"device node {path} of {owner} cannot be read on this host: {error.strerror}") from error
    if not stat.S_ISCHR(found.st_mode):
        raise ClaimRefused(f"device node {path} of {owner} is not a character device")
    return DeviceNode(path=path, major=os.major(found.st_rdev), minor=os.minor(found.st_rdev))
