"""`python3 -m e2e.lab COMMAND`: the lab from the command line."""

from __future__ import annotations

import argparse
import sys

from e2e.lab import artefacts, driver, layout, lifecycle, status, wrappers
from e2e.lab.command import LabError


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python3 -m e2e.lab", description="A real Slurm and Kubernetes on loopback.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("build", help="everything heavy into the cache (done by `up` when missing)")
    up = commands.add_parser("up", help="start what is not running")
    up.add_argument("--fresh", action="store_true", help="from an empty etcd and an empty Slurm")
    down = commands.add_parser("down", help="stop everything; state and logs stay")
    down.add_argument("--purge", action="store_true", help="delete the state folder with its logs too")
    commands.add_parser("reset", help="up --fresh")
    commands.add_parser("status", help="table of the daemons; status 1 if one is missing")
    commands.add_parser("env", help="shell code: . <(python3 -m e2e.lab env)")
    commands.add_parser("driver", help="(re)start the kubelet plugins from the working tree")
    external = commands.add_parser("external", help="have exactly N nodes without slurmd, for scale")
    external.add_argument("count", type=int, metavar="N")
    arguments = parser.parse_args()
    if arguments.command == "external" and not 0 <= arguments.count <= 4096:
        parser.error(f"N must be between 0 and 4096, not {arguments.count}")
    return arguments


def _run(arguments: argparse.Namespace) -> int:
    lab = layout.layout()
    match arguments.command:
        case "env":
            print(wrappers.environment(lab), end="")
            return 0
        case "status":
            text, whole = status.table(lab)
            print(text)
            return 0 if whole else 1
        case "build":
            artefacts.build(lab)
            return 0
    with lifecycle.exclusive(lab):
        match arguments.command:
            case "up" | "reset":
                lifecycle.up(lab, fresh=arguments.command == "reset" or arguments.fresh)
            case "down":
                (lifecycle.purge if arguments.purge else lifecycle.down)(lab)
            case "external":
                lifecycle.set_external(lab, arguments.count)
            case "driver":
                driver.down(lab)
                return 0 if driver.up(lab) else 1
    return 0


def main() -> int:
    try:
        return _run(_arguments())
    except LabError as error:
        print(f"lab: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
