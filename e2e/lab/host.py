"""What the machine itself must offer: a few packages, root, and kernel settings that are put back afterwards."""

from __future__ import annotations

import json
import os
from pathlib import Path

from e2e.lab.command import LabError, run
from e2e.lab.layout import Layout
from e2e.lab.progress import say, step

# package -> a file that proves it is there
PACKAGES = {
    "debootstrap": "/usr/sbin/debootstrap",
    "runc": "/usr/sbin/runc",
    "busybox-static": "/bin/busybox",
    "containernetworking-plugins": "/usr/lib/cni/ptp",
    "openssl": "/usr/bin/openssl",
    "gcc": "/usr/bin/gcc",
}

# kubelet and the network plugin change these; the values from before the first `up` are kept and restored by `down`
SYSCTLS = (
    "vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops", "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes", "net/ipv4/ip_forward",
)  # fmt: skip


def require_root() -> None:
    if os.geteuid() != 0:
        raise LabError("the lab needs root: it mounts, makes cgroups and runs slurmd and kubelet")


def install_packages(lab: Layout) -> None:
    missing = [name for name, proof in PACKAGES.items() if not Path(proof).exists()]
    if not missing:
        say("packages of the machine: present")
        return
    log = lab.cache / "log" / "apt.log"
    with step(f"apt-get install {' '.join(missing)}"):
        quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        try:
            run(["apt-get", "update", "-q"], env=quiet, timeout=300, log=log)
        except LabError:
            say("apt-get update failed for some source; going on with the lists that are there")
        run(["apt-get", "install", "-qy", "--no-install-recommends", *missing], env=quiet, timeout=600, log=log)


def _sysctl(name: str) -> Path:
    return Path("/proc/sys") / name


def save_sysctls(lab: Layout) -> None:
    """Keep the values from before the first `up`; an existing file (a crash) already holds them."""
    saved = lab.state / "sysctls.json"
    if saved.exists():
        return
    values = {name: _sysctl(name).read_text().strip() for name in SYSCTLS if _sysctl(name).exists()}
    saved.write_text(json.dumps(values, indent=1))


def restore_sysctls(lab: Layout) -> None:
    saved = lab.state / "sysctls.json"
    if not saved.exists():
        return
    for name, value in json.loads(saved.read_text()).items():
        if _sysctl(name).read_text().strip() != value:
            _sysctl(name).write_text(value)
    saved.unlink()
