"""How one operator process is run; from the command line or the environment (``GANGBRIDGE_*``)."""

from __future__ import annotations

import shlex
from enum import StrEnum

from pydantic import Field
from pydantic.dataclasses import dataclass


class Adapter(StrEnum):
    """Which adapter of the Slurm port to use."""

    PYSLURM = "Pyslurm"
    CLI = "Cli"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """``slurm_exec`` is put before every command that needs Slurm's own files (a chroot, ``kubectl exec`` …).

    ``worker_python`` is the Python that has pyslurm and libslurm. Times are in seconds. ``lease_duration_s`` is the
    silence of a leader after which another replica takes over.
    """

    kubeconfig: str | None = None
    adapter: Adapter = Adapter.PYSLURM
    slurm_exec: str = ""
    worker_python: str = "python3"
    poll_s: float = Field(default=1.0, gt=0)
    concurrency: int = Field(default=48, ge=1)
    probe_port: int = Field(default=8080, ge=0)
    lease_namespace: str = "gangbridge-system"
    lease_duration_s: int = Field(default=15, ge=1)
    audit_s: float = Field(default=30.0, ge=0)
    """Seconds between two audits; 0 for none."""

    @property
    def slurm_prefix(self) -> list[str]:
        """Return ``slurm_exec`` as words."""
        return shlex.split(self.slurm_exec)
