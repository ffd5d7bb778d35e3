"""The two libslurm calls that pyslurm lacks, compiled in the root from the clone's own source."""

from __future__ import annotations

from e2e.lab.command import run
from e2e.lab.layout import Layout
from e2e.lab.progress import step


def build(lab: Layout) -> None:
    """Compile it, or do nothing when it is that of the source: the module knows by a stamp. 0.4 s then, 3 s else."""
    with step("libslurm binding"):
        run(
            [lab.bin / "slurm-exec", "/opt/venv/bin/python", "-m", "bridge.slurm.libslurm_build"],
            timeout=120,
            log=lab.logs / "libslurm-build.log",
        )
