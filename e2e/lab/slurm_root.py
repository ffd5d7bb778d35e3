"""Build the template of the Slurm root: Debian with Slurm, MariaDB and pyslurm. Done once, then only read."""

from __future__ import annotations

import os
import re
import shutil
import stat
from pathlib import Path

from e2e.lab import chroot, mounts, versions
from e2e.lab.command import LabError, run
from e2e.lab.layout import Layout
from e2e.lab.progress import say, step

PACKAGES = (
    "slurmctld", "slurmd", "slurmdbd", "slurmrestd", "slurm-client", "slurm-wlm-basic-plugins",
    "slurm-wlm-mysql-plugin", "slurm-wlm-jwt-plugin", "libslurm-dev", "mariadb-server", "mariadb-client",
    "python3-venv", "python3-dev", "gcc", "libc6-dev", "procps",
)  # fmt: skip
# what a machine behind a proxy or a private index needs to reach it, also from inside the root
PASSED = re.compile(r"(?i)^((https?|no|all)_proxy|PIP_(INDEX_URL|EXTRA_INDEX_URL|TRUSTED_HOST|DEFAULT_TIMEOUT))$")
MACHINE_CA = "/etc/ssl/certs/machine-ca.crt"
MY_CNF = "/etc/slurm/my.cnf"


def mirror() -> str:
    """The Debian mirror that the machine's own apt uses."""
    sources = [Path("/etc/apt/sources.list"), *sorted(Path("/etc/apt/sources.list.d").glob("*"))]
    return find_mirror("\n".join(p.read_text() for p in sources if p.suffix in {".list", ".sources"} and p.exists()))


def find_mirror(sources: str) -> str:
    """The first archive in apt sources of either format whose path ends in /debian."""
    found = re.search(r"^(?:URIs:|deb(?:[ \t]+\[[^]]*\])?)[ \t]+(\S+/debian/?)(?:\s|$)", sources, re.MULTILINE)
    if found is None:
        raise LabError("no Debian mirror in the machine's apt sources (/etc/apt/sources.list*)")
    return found[1]


def build(lab: Layout) -> None:
    """Make the template unless it is there. An interrupted build leaves only `root.partial`, which is started over."""
    if lab.slurm_template.exists():
        say("Slurm root: present")
        return
    partial = lab.slurm_cache / "root.partial"
    chroot.leave(partial)
    shutil.rmtree(partial, ignore_errors=True)
    partial.parent.mkdir(parents=True, exist_ok=True)
    log = lab.cache / "log" / "slurm-root.log"
    try:
        with step(f"debootstrap {versions.DEBIAN_SUITE} (log: {log})"):
            # the suite may be younger than the machine's debootstrap; the script of sid fits every new one
            run(
                ["debootstrap", "--variant=minbase", "--include=ca-certificates", versions.DEBIAN_SUITE, partial,
                 mirror(), "sid"], timeout=900, log=log,
            )  # fmt: skip
        mounts.mount(partial / "proc", "-t", "proc", "proc")
        _prepare(partial)
        with step("Slurm, MariaDB and a compiler in the root"):
            _in_root(partial, ["apt-get", "install", "-qy", "--no-install-recommends", *PACKAGES], log, timeout=900)
        _check_slurm_version(partial)
        with step("MariaDB system tables"):
            _database(lab, partial, log)
        with step(f"pyslurm {versions.PYSLURM}"):
            _pyslurm(lab, partial, log)
    finally:
        chroot.leave(partial)
    shutil.rmtree(partial / "var/cache/apt", ignore_errors=True)
    partial.rename(lab.slurm_template)


def _in_root(root: Path, argv: list[str], log: Path, *, timeout: float) -> None:
    network = {name: value for name, value in os.environ.items() if PASSED.match(name)}
    env = {**chroot.CLEAN, **network, "DEBIAN_FRONTEND": "noninteractive", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    if (root / MACHINE_CA[1:]).exists():
        env["PIP_CERT"] = MACHINE_CA
    run(["chroot", str(root), *argv], env=env, cwd=Path("/"), timeout=timeout, log=log)


def _prepare(root: Path) -> None:
    """No service starts while packages are unpacked, no fsync, and the machine's way to the network."""
    policy = root / "usr/sbin/policy-rc.d"
    policy.write_text("#!/bin/sh\nexit 101\n")
    policy.chmod(0o755)
    (root / "etc/dpkg/dpkg.cfg.d/lab").write_text("force-unsafe-io\npath-exclude=/usr/share/doc/*\n")
    machine_ca = Path(os.environ.get("SSL_CERT_FILE") or "/etc/ssl/certs/ca-certificates.crt")
    for source, target in ((Path("/etc/resolv.conf"), "etc/resolv.conf"), (Path("/etc/pip.conf"), "etc/pip.conf"),
                           (machine_ca, MACHINE_CA[1:])):  # fmt: skip
        if source.exists():
            shutil.copyfile(source, root / target)
    for index in range(8):
        os.mknod(root / f"dev/fakegpu{index}", stat.S_IFCHR | 0o666, os.makedev(1, 3))


def _check_slurm_version(root: Path) -> None:
    found = run(["chroot", root, "slurmctld", "-V"], env=chroot.CLEAN, cwd=Path("/")).split()[-1]
    if not found.startswith(versions.SLURM + "."):
        raise LabError(f"Debian {versions.DEBIAN_SUITE} has Slurm {found}, the lab is made for {versions.SLURM}")
    say(f"Slurm {found}")


def _database(lab: Layout, root: Path, log: Path) -> None:
    """A small MariaDB data folder of our own settings instead of the package's large one."""
    target = root / MY_CNF[1:]
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(lab.clone / "slurm-configs/lab/my.cnf", target)
    shutil.rmtree(root / "var/lib/mysql", ignore_errors=True)
    script = (
        "set -e; install -d -o mysql -g mysql -m 700 /var/lib/mysql; "
        f"mariadb-install-db --defaults-file={MY_CNF} --auth-root-authentication-method=socket --skip-test-db"
    )
    _in_root(root, ["sh", "-c", script], log, timeout=120)


def _pyslurm(lab: Layout, root: Path, log: Path) -> None:
    """The wheel is kept beside the root, so that a new recipe of the root does not compile it again."""
    wheels, inside = lab.slurm_cache / "wheels", root / "var/cache/wheels"
    inside.mkdir(parents=True, exist_ok=True)
    wheels.mkdir(parents=True, exist_ok=True)
    for wheel in wheels.glob("pyslurm-*.whl"):
        shutil.copyfile(wheel, inside / wheel.name)
    script = root / "root/pyslurm.sh"
    shutil.copyfile(lab.clone / "e2e/lab/build/pyslurm.sh", script)
    _in_root(root, ["sh", "/root/pyslurm.sh", versions.PYSLURM], log, timeout=900)
    for wheel in inside.glob("pyslurm-*.whl"):
        shutil.copyfile(wheel, wheels / (wheel.name + ".tmp"))
        (wheels / (wheel.name + ".tmp")).rename(wheels / wheel.name)
