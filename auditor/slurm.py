"""Slurm's side, by its commands.

Jobs come from squeue: ``scontrol show jobs --json`` ends with status 0 and no job when slurmctld does not answer. JSON,
and not the text of ``scontrol -o``, because users write job names and comments, and could write fields into them.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Sequence
from typing import TypeVar

from auditor.errors import Unreadable
from auditor.evidence import Job, SlurmNode
from auditor.slurm_json import read_jobs, read_nodes

T = TypeVar("T")

JOBS = ("squeue", "--all", "--states=all", "--json")
NODES = ("scontrol", "show", "nodes", "--all", "--json")
DEADLINE_S = 60


def slurm_jobs(prefix: Sequence[str]) -> tuple[dict[int, Job], int]:
    """Return all jobs that slurmctld knows, ended ones too, and its clock. ``prefix`` comes before the command."""
    return _read(prefix, JOBS, read_jobs)


def slurm_nodes(prefix: Sequence[str]) -> dict[str, SlurmNode]:
    """Return all nodes."""
    return _read(prefix, NODES, read_nodes)


def _read(prefix: Sequence[str], command: Sequence[str], parse: Callable[[bytes], T]) -> T:
    shown = " ".join(command)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("SQUEUE_", "SCONTROL_"))}
    try:
        done = subprocess.run(
            [*prefix, *command], capture_output=True, check=False, timeout=DEADLINE_S, env=environment
        )
    except subprocess.TimeoutExpired:
        raise Unreadable("Slurm", f"{shown}: no answer within {DEADLINE_S} s") from None
    except OSError as error:
        raise Unreadable("Slurm", f"{[*prefix, *command][0]} cannot be started: {error.strerror}") from error
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip() or "it said nothing"
        raise Unreadable("Slurm", f"{shown} ended with status {done.returncode}: {said}")
    try:
        return parse(done.stdout)
    except (ValueError, KeyError, TypeError) as error:
        raise Unreadable("Slurm", f"what {shown} said cannot be understood: {error}") from error
