"""Slurm's commands without Slurm, for the command line adapter: ``stub_cli.py SCENARIO command arguments…``."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

DATA = Path(__file__).parents[1] / "data" / "slurm" / "26.05.5"
DOWN = "Unable to contact slurm controller (connect failure)"


def leave(code: int, error: str = "", output: str = "") -> None:
    sys.stderr.write(error + "\n" if error else "")
    sys.stdout.write(output)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def salloc(scenario: str, *_: str) -> None:
    if scenario == "down":
        leave(1, f"salloc: error: Job submit/allocate failed: {DOWN}")
    if scenario == "refused":
        refusal = "Job submit/allocate failed: Invalid partition name specified"
        leave(1, f"salloc: error: invalid partition specified: nope\nsalloc: error: {refusal}")
    if scenario == "hang":
        time.sleep(60)
    if scenario == "pending":
        sys.stderr.write("salloc: Pending job allocation 17\nsalloc: job 17 queued and waiting for resources\n")
        sys.stderr.flush()
        time.sleep(60)
    leave(0, "salloc: Granted job allocation 16\nsalloc: Nodes n1 are ready for job")


TOPOLOGIES = Path(__file__).parents[1] / "data" / "topologies" / "slurm-26.05.5"
NO_YAML = "---\n- topology: default\n  block: {}\n  flat: {}\n  tree: {}\n...\n"


def topology(scenario: str, entity: str) -> None:
    """Fail as scontrol does: with status 0."""
    match scenario, entity:
        case "down", "topology":
            leave(0, f"slurm_load_topo error: {DOWN}")
        case "old", "topoconf":
            leave(1, "invalid entity:topoconf for keyword:show")
        case (("down" | "mute"), "topoconf"):
            leave(0)
        case "lines", "topoconf":
            leave(0, output=NO_YAML)
        case _, "topoconf":
            leave(0, output=(TOPOLOGIES / "topoconf.yaml").read_text())
        case _:
            leave(0, output=(TOPOLOGIES / "show-fabric.txt").read_text())


def show(scenario: str, arguments: list[str]) -> None:
    match arguments:
        case ["nodes", *_]:
            if scenario == "odd":
                leave(0, output="{}")
            leave(0, output=(DATA / "scontrol_node.json").read_text())
        case ["config"]:
            leave(0, output=(DATA / "scontrol_config.txt").read_text())
        case ["job", "999999"]:
            leave(1, "slurm_load_jobs error: Invalid job id specified")


def scontrol(scenario: str, verb: str, *arguments: str) -> None:
    if verb == "show" and arguments[0].startswith("topo"):
        topology(scenario, arguments[0])
    elif verb == "show":
        show(scenario, list(arguments))
    elif "no-such-node" in arguments[0]:
        leave(1, "slurm_update error: Invalid node name specified")
    elif scenario == "finished":
        leave(1, output="Job has already finished for job 6\n")


def squeue(scenario: str, *_: str) -> None:
    if scenario == "down":
        leave(1, f"slurm_load_jobs error: {DOWN}")
    leave(0, output="{}" if scenario == "odd" else (DATA / "squeue.json").read_text())


def identity(_: str, *arguments: str) -> None:
    if arguments[-1] == "nobody-here":
        leave(1, "id: 'nobody-here': no such user")
    leave(0, output="1001\n")


def scancel(scenario: str, *_: str) -> None:
    if scenario == "denied":
        leave(210, "scancel: error: Kill job error on job id 6: Access/permission denied")


COMMANDS: dict[str, Callable[..., None]] = {
    "salloc": salloc,
    "setpriv": salloc,
    "env": lambda *_: leave(0, output="18;lab\n"),
    "id": identity,
    "squeue": squeue,
    "scontrol": scontrol,
    "scancel": scancel,
}


def main() -> None:
    scenario, command, *arguments = sys.argv[1:]
    if log := os.environ.get("STUB_LOG"):
        with Path(log).open("a") as file:
            file.write(" ".join([command, *arguments]) + "\n")
    if scenario == "broken":
        leave(127, "chroot: failed to run command")
    COMMANDS[command](scenario, *arguments)


main()
