"""`python3 -m e2e.lab COMMAND`: the lab from the command line."""

from __future__ import annotations

import argparse
import sys
from contextlib import nullcontext

from e2e.lab import artefacts, driver, layout, lifecycle, status, wrappers
from e2e.lab.command import LabError
from e2e.lab.layout import Layout

MOST_EXTERNAL = 4096  # MaxNodeCount of slurm-configs/slurm.conf leaves room for this many


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) > MOST_EXTERNAL:
        raise argparse.ArgumentTypeError(f"N is a number from 0 to {MOST_EXTERNAL}, not {text!r}")
    return int(text)


def _up(lab: Layout, arguments: argparse.Namespace) -> int:
    lifecycle.up(lab, fresh=arguments.fresh)
    return 0


def _down(lab: Layout, arguments: argparse.Namespace) -> int:
    (lifecycle.purge if arguments.purge else lifecycle.down)(lab)
    return 0


def _build(lab: Layout, _arguments: argparse.Namespace) -> int:
    artefacts.build(lab)
    return 0


def _external(lab: Layout, arguments: argparse.Namespace) -> int:
    lifecycle.set_external(lab, arguments.count)
    return 0


def _driver(lab: Layout, _arguments: argparse.Namespace) -> int:
    driver.down(lab)
    return 0 if driver.up(lab) else 1


def _status(lab: Layout, _arguments: argparse.Namespace) -> int:
    text, whole = status.table(lab)
    print(text)
    return 0 if whole else 1


def _env(lab: Layout, _arguments: argparse.Namespace) -> int:
    print(wrappers.environment(lab), end="")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python3 -m e2e.lab", description="A real Slurm and Kubernetes on loopback.")
    commands = parser.add_subparsers(dest="command", required=True)
    build = commands.add_parser("build", help="everything heavy into the cache (done by `up` when missing)")
    build.set_defaults(action=_build, changes=True)
    up = commands.add_parser("up", help="start what is not running")
    up.add_argument("--fresh", action="store_true", help="from an empty etcd and an empty Slurm")
    up.set_defaults(action=_up, changes=True)
    reset = commands.add_parser("reset", help="the same as up --fresh")
    reset.set_defaults(action=_up, changes=True, fresh=True)
    down = commands.add_parser("down", help="stop everything; state and logs stay")
    down.add_argument("--purge", action="store_true", help="delete the state folder with its logs too")
    down.set_defaults(action=_down, changes=True)
    external = commands.add_parser("external", help="have exactly N nodes without slurmd, for scale")
    external.add_argument("count", type=_count, metavar="N")
    external.set_defaults(action=_external, changes=True)
    plugins = commands.add_parser("driver", help="(re)start the kubelet plugins from the working tree")
    plugins.set_defaults(action=_driver, changes=True)
    table = commands.add_parser("status", help="table of the daemons; exit status 1 if one is missing")
    table.set_defaults(action=_status, changes=False)
    shell = commands.add_parser("env", help="shell code: . <(python3 -m e2e.lab env)")
    shell.set_defaults(action=_env, changes=False)
    return parser


def main() -> int:
    arguments = _parser().parse_args()
    lab = layout.layout()
    try:
        with lifecycle.exclusive(lab) if arguments.changes else nullcontext():
            return int(arguments.action(lab, arguments))
    except LabError as error:
        print(f"lab: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
