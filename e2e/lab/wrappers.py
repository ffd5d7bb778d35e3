"""Small generated shell scripts: the one door into the Slurm root, and the usual commands through it."""

from __future__ import annotations

import shlex

from e2e.lab.chroot import CLEAN, CLONE_INSIDE, SCRATCH_INSIDE
from e2e.lab.layout import Layout

SLURM_COMMANDS = (
    "sacct", "sacctmgr", "salloc", "sattach", "sbatch", "scancel", "scontrol", "sdiag", "sinfo", "sprio", "squeue",
    "srun", "sshare",
)  # fmt: skip

SLURM_EXEC = """#!/bin/sh
# slurm-exec [-u USER] COMMAND…: run COMMAND inside the lab's Slurm root with a clean environment, root by default.
# The scratch folder is {scratch} there and {outside} here; the clone is {clone}, read-only.
user=root
if [ "$1" = -u ]; then user=$2; shift 2; fi
[ -e {root}/etc/slurm/slurm.conf ] || {{ echo "slurm-exec: the lab is not up (make lab-up)" >&2; exit 69; }}
home=/root
[ "$user" = root ] || home=/home/$user
case $PWD/ in {outside}/*) there={scratch}${{PWD#{outside}}} ;; *) there=$home ;; esac
cd /
exec env -i {environment} HOME="$home" USER="$user" LOGNAME="$user" TERM="${{TERM:-dumb}}" \\
    PYTHONPATH={clone} PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 PYSLURM_DISABLE_AUTO_INIT=1 \\
    chroot {root} setpriv --reuid="$user" --regid="$user" --init-groups env -C "$there" -- "$@"
"""

SLURM_COMMAND = """#!/bin/sh
# {name} of the lab's Slurm, as the user $LAB_USER (root when unset)
exec {exec} -u "${{LAB_USER:-root}}" {name} "$@"
"""

KUBECTL = """#!/bin/sh
# kubectl of the lab's version; administrator of the lab unless KUBECONFIG says otherwise
export KUBECONFIG="${{KUBECONFIG:-{kubeconfig}}}"
exec {kubectl} "$@"
"""

ENVIRONMENT = """export GANGBRIDGE_STATE={state}
export KUBECONFIG={kubeconfig}
export GANGBRIDGE_SLURM_EXEC={exec}
export GANGBRIDGE_SCRATCH={scratch}
export LAB_USER=alice
case ":$PATH:" in *:{bin}:*) ;; *) export PATH={bin}:$PATH ;; esac
"""


def write(lab: Layout) -> None:
    quoted = shlex.quote
    clean = " ".join(f"{name}={value}" for name, value in CLEAN.items() if name != "HOME")
    scripts = {
        "slurm-exec": SLURM_EXEC.format(
            scratch=SCRATCH_INSIDE, outside=quoted(str(lab.scratch)), clone=CLONE_INSIDE, root=quoted(str(lab.root)),
            environment=clean,
        ),
        "kubectl": KUBECTL.format(
            kubeconfig=quoted(str(lab.kubeconfig("admin"))), kubectl=quoted(str(lab.kube_bin / "kubectl"))
        ),
    }  # fmt: skip
    for name in SLURM_COMMANDS:
        scripts[name] = SLURM_COMMAND.format(name=name, exec=quoted(str(lab.bin / "slurm-exec")))
    lab.bin.mkdir(parents=True, exist_ok=True)
    for name, text in scripts.items():
        partial = lab.bin / f".{name}"
        partial.write_text(text)
        partial.chmod(0o755)
        partial.rename(lab.bin / name)


def environment(lab: Layout) -> str:
    """Shell code for `. <(make lab-env)`: administrator in Kubernetes, alice in Slurm."""
    return ENVIRONMENT.format(
        state=shlex.quote(str(lab.state)), kubeconfig=shlex.quote(str(lab.kubeconfig("admin"))),
        exec=shlex.quote(str(lab.bin / "slurm-exec")), scratch=shlex.quote(str(lab.scratch)),
        bin=shlex.quote(str(lab.bin)),
    )  # fmt: skip
