"""The result, as one table."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from e2e.bench.world import slurm
from e2e.lab import versions

Row = tuple[str, str, str]
WIDTH = 150


def show(rows: Sequence[Row], fleet: str) -> None:
    """Print ``rows`` of (what, result, how it was measured)."""
    table = Table(title="gangbridge on the lab's real servers", title_justify="left", show_lines=True)
    for name, ratio in (("what", 3), ("result", 4), ("how", 6)):
        table.add_column(name, ratio=ratio, overflow="fold")
    for row in rows:
        table.add_row(*row)
    console = Console(width=WIDTH, highlight=False)
    console.print(table)
    console.print(f"{machine()}; {fleet}")


def machine() -> str:
    """Return the versions and the machine."""
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    slurm_version = slurm("sinfo", "--version").strip()
    parts = (
        f"gangbridge {commit.stdout.strip() or 'unknown'}",
        slurm_version,
        f"Kubernetes {versions.KUBERNETES}",
        f"Python {platform.python_version()}",
        f"{os.cpu_count()} cores (shared with every server of the lab), load {os.getloadavg()[0]:.1f}",
    )
    return ", ".join(parts)
