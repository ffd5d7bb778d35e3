"""The Slurm daemons of the lab: MariaDB, slurmdbd, slurmctld, slurmrestd and one slurmd per GPU node."""

from __future__ import annotations

import secrets
import shutil
import time
from pathlib import Path

from e2e.lab import chroot, fleet, slurm_accounts, supervise
from e2e.lab.command import LabError
from e2e.lab.layout import Layout
from e2e.lab.progress import say
from e2e.lab.supervise import Daemon

CTLD_PORT = 26817
DBD_PORT = 26819
REST_PORT = 26820
SLURMD_PORT = 27000  # + index of the node; these ports are in slurm-configs/lab/site.conf too
MYSQL_SOCKET = "/run/mysqld/mysqld.sock"

# file below slurm-configs -> mode; all land in /etc/slurm
CONFIGS = {
    "slurm.conf": 0o644, "gres.conf": 0o644, "topology.yaml": 0o644, "epilog.sh": 0o755, "slurmdbd.conf": 0o600,
    "lab/site.conf": 0o644, "lab/slurmdbd-site.conf": 0o600, "lab/cgroup.conf": 0o644, "lab/my.cnf": 0o644,
}  # fmt: skip

PREPARE = """
set -e
for user in alice:1001 bob:1002 slurmrest:1003; do
    id -u "${user%:*}" >/dev/null 2>&1 || useradd -m -s /bin/bash -u "${user#*:}" "${user%:*}"
done
install -d -o mysql -g mysql /run/mysqld
install -d -o slurm -g slurm /run/slurmctld /run/slurmdbd
install -d -o root -g root /run/slurm
install -d -o slurm -g slurm -m 700 /var/spool/slurmctld
install -d NODE_SPOOLS
chown slurm:slurm /etc/slurm/slurm.key /etc/slurm/jwt.key /etc/slurm/slurmdbd*.conf
"""

DATABASE = """
create database if not exists slurm_acct_db;
create user if not exists slurm@localhost identified via unix_socket;
grant all on slurm_acct_db.* to slurm@localhost;
"""


def up(lab: Layout) -> None:
    """Everything of Slurm from nothing (or from any half) to idle nodes with their accounts."""
    chroot.enter(lab)
    changed = _configure(lab)
    supervise.ensure(lab, _mariadb(lab))
    if supervise.find(lab, "slurmdbd") is None:
        # slurmdbd ends on the very start in which it has to create its own database
        chroot.inside(lab, "mariadb", "--no-defaults", "-S", MYSQL_SOCKET, stdin=DATABASE)
    supervise.ensure(lab, _slurmdbd(lab))
    controller_started = supervise.ensure(lab, _slurmctld(lab))
    if controller_started:
        slurm_accounts.apply(lab)
    elif changed:
        say("Slurm configuration changed, scontrol reconfigure")
        chroot.inside(lab, "scontrol", "reconfigure")
    for node in fleet.gpu_nodes():
        supervise.ensure(lab, _slurmd(lab, node))
    supervise.ensure(lab, _slurmrestd(lab))
    _wait_for_nodes(lab)


def names() -> list[str]:
    """Names of the daemons in the order in which they are stopped."""
    return ["slurmrestd", *(f"slurmd-{n.slurm}" for n in fleet.gpu_nodes()), "slurmctld", "slurmdbd", "mariadbd"]


def daemons(lab: Layout) -> list[Daemon]:
    """Every daemon of Slurm, in the order in which they are started."""
    slurmds = (_slurmd(lab, node) for node in fleet.gpu_nodes())
    return [_mariadb(lab), _slurmdbd(lab), _slurmctld(lab), *slurmds, _slurmrestd(lab)]


def down(lab: Layout) -> None:
    for name in names():
        supervise.stop(lab, name, grace=20)
    chroot.leave(lab.root)


def _configure(lab: Layout) -> bool:
    """Install slurm-configs, keys, users and folders. True if a configuration file differs from the installed one."""
    etc, changed = lab.root / "etc/slurm", False
    etc.mkdir(parents=True, exist_ok=True)
    for name, mode in CONFIGS.items():
        source, target = lab.clone / "slurm-configs" / name, etc / Path(name).name
        if not target.exists() or target.read_bytes() != source.read_bytes():
            shutil.copyfile(source, target)
            changed = True
        target.chmod(mode)
    for name, size in (("slurm.key", 1024), ("jwt.key", 32)):
        key = etc / name
        if not key.exists() or key.stat().st_size != size:
            key.write_bytes(secrets.token_bytes(size))
        key.chmod(0o600)
    spools = " ".join(f"/var/spool/slurmd/{node.slurm}" for node in fleet.gpu_nodes())
    chroot.inside(lab, "sh", "-c", PREPARE.replace("NODE_SPOOLS", spools))
    return changed


def _answers(lab: Layout, *argv: str) -> bool:
    try:
        chroot.inside(lab, *argv, timeout=5)
    except LabError:
        return False
    return True


def _mariadb(lab: Layout) -> Daemon:
    return Daemon(
        name="mariadbd",
        argv=chroot.command(lab, "mariadbd", "--defaults-file=/etc/slurm/my.cnf"),
        ready=lambda: _answers(lab, "mariadb-admin", "--no-defaults", "-S", MYSQL_SOCKET, "ping"),
        endpoint=f"unix:{lab.root}{MYSQL_SOCKET}",
    )


def _slurmdbd(lab: Layout) -> Daemon:
    return Daemon(
        name="slurmdbd",
        argv=chroot.command(lab, "slurmdbd", "-D"),
        ready=lambda: supervise.listening(DBD_PORT),
        endpoint=f"127.0.0.1:{DBD_PORT}",
        port=DBD_PORT,
        grace=20,
    )


def _slurmctld(lab: Layout) -> Daemon:
    return Daemon(
        name="slurmctld",
        argv=chroot.command(lab, "slurmctld", "-D"),
        ready=lambda: _answers(lab, "scontrol", "ping"),
        endpoint=f"127.0.0.1:{CTLD_PORT}",
        port=CTLD_PORT,
        grace=20,
    )


def _slurmd(lab: Layout, node: fleet.LabNode) -> Daemon:
    port = SLURMD_PORT + node.index
    return Daemon(
        name=f"slurmd-{node.slurm}",
        argv=chroot.command(lab, "slurmd", "-D", "-N", node.slurm),
        ready=lambda: supervise.listening(port),
        endpoint=f"127.0.0.1:{port}",
        port=port,
    )


def _slurmrestd(lab: Layout) -> Daemon:
    """As an ordinary user who may do nothing: callers bring their own token (`scontrol token`)."""
    listen = f"127.0.0.1:{REST_PORT}"
    return Daemon(
        name="slurmrestd",
        argv=chroot.command(
            lab, "setpriv", "--reuid=slurmrest", "--regid=slurmrest", "--init-groups",
            "slurmrestd", "-a", "rest_auth/jwt", listen,
        ),
        # SLURM_JWT=daemon: speak to slurmctld with the tokens of the callers, not with slurm.key
        env={"SLURM_JWT": "daemon"},
        ready=lambda: supervise.listening(REST_PORT),
        endpoint=f"http://{listen}",
        port=REST_PORT,
    )  # fmt: skip


def _wait_for_nodes(lab: Layout) -> None:
    """Until every slurmd has registered; a drained or busy node counts, it is known."""
    wanted, deadline, seen = {n.slurm for n in fleet.gpu_nodes()}, time.monotonic() + 30, ""
    while time.monotonic() < deadline:
        seen = chroot.inside(lab, "sinfo", "-h", "-N", "-p", "gpu", "-o", "%N %T")
        up_now = {
            name for name, state in (line.split() for line in seen.splitlines())
            if not state.endswith("*") and not state.startswith(("down", "unk"))
        }  # fmt: skip
        if wanted <= up_now:
            return
        # a slurmd that registered before slurmctld was ready tries again only after a while
        time.sleep(0.2)
    raise LabError(f"Slurm nodes did not come up within 30 s:\n{seen}")
