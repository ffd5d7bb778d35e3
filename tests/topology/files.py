"""The recorded topologies, and topograph's models in the forms that our readers know."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

DATA = Path(__file__).parents[1] / "data" / "topologies"
SLURM = DATA / "slurm-26.05.5"
TOPOGRAPH = DATA / "topograph"
MODELS = sorted(TOPOGRAPH.glob("models-*.yaml"))


def model(path: Path) -> dict[str, Any]:
    return yaml.safe_load(path.read_text())


def tree_conf(model: dict[str, Any]) -> str:
    """Return the model as a topology.conf of topology/tree."""
    lines = [f"SwitchName={name} Switches={','.join(at['switches'])}" for name, at in model["switches"].items()]
    lines += [f"SwitchName={block['switch']} Nodes={','.join(block['nodes'])}" for block in model["blocks"]]
    return "\n".join(lines)


def block_conf(model: dict[str, Any], sizes: str) -> str:
    """Return the model as a topology.conf of topology/block."""
    lines = [f"BlockName={block['switch']} Nodes={','.join(block['nodes'])}" for block in model["blocks"]]
    return "\n".join([*lines, f"BlockSizes={sizes}"])
