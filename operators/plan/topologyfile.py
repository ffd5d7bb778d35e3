"""A topology from a file: Slurm's ``topology.conf``, ``topology.yaml``, what scontrol shows of either, or a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from bridge.errors import ParseError
from bridge.model.topology import Topology
from bridge.topology.csv_file import read_csv
from bridge.topology.slurm_yaml import read_slurm
from operators.plan.located import BadInput, read_text


def read_topology(path: Path, name: str = "", levels: Sequence[str] = ()) -> Topology:
    """Return the topology ``name`` of a file, without a name its default or only one, at ``levels`` or the file's own.

    BadInput when there is none, or no node in it; its ``problems`` name the file.
    """
    text = read_text(path)
    if not text.strip():
        raise BadInput(str(path), None, "is empty")
    try:
        found = (read_csv(text, levels or None),) if path.suffix == ".csv" else read_slurm(text, levels or None)
    except ParseError as error:
        raise BadInput(str(path), None, f"has {error.problem}") from error
    chosen = _choose(str(path), found, name)
    problems = tuple(f"{path}: {problem}" for problem in chosen.problems)
    if not chosen.domains:
        why = f": {'; '.join(chosen.problems)}" if problems else ""
        raise BadInput(str(path), None, f"names no nodes{why}")
    return replace(chosen, problems=problems)


def _choose(file: str, found: Sequence[Topology], name: str) -> Topology:
    names = ", ".join(each.name or "(unnamed)" for each in found) or "none"
    if name:
        matching = [each for each in found if each.name == name]
        if len(matching) != 1:
            raise BadInput(file, None, f"--topology-name {name}: the file has {names}")
        return matching[0]
    default = [each for each in found if each.is_default] or list(found)
    if len(default) != 1:
        raise BadInput(file, None, f"has {len(found)} topologies ({names}): choose one with --topology-name")
    return default[0]
