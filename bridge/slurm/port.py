"""What the loop asks of Slurm. Three adapters implement it and pass one contract table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from bridge.model.hold import ExitStatus, HoldRequest
from bridge.model.slurm import SlurmInfo, SlurmView


class SlurmPort(Protocol):
    """Calls to one slurmctld.

    Every call may raise ``SlurmUnavailable`` (no answer within the deadline; a write may have happened) or
    ``SlurmRejected`` (refused, no effect). Nothing retries inside: the loop looks again and decides.
    """

    async def info(self) -> SlurmInfo:
        """Return the controller's version and cluster name."""

    async def view(self) -> SlurmView:
        """Return all jobs and nodes, in a number of calls that does not depend on how many there are."""

    async def topology(self) -> str:
        """Return the cluster's topologies as text for ``bridge.topology.slurm_yaml.read_slurm``.

        Those of ``topology.yaml`` with what has changed since; else what ``scontrol show topology`` prints.
        """

    async def allocate(self, request: HoldRequest) -> int:
        """Submit a hold without waiting for it and return its job id; it is RUNNING already, or pending and pinned.

        Runs as ``request.user``, so associations, limits and QOS are that user's.
        """

    async def repin(self, job_id: int, nodes: Sequence[str]) -> None:
        """Move the pin of a pending hold to exactly ``nodes`` (``scontrol update ReqNodeList``)."""

    async def complete(self, job_id: int, status: ExitStatus) -> None:
        """End a running hold with the gang's true status. Ending a hold that has ended is no error."""

    async def cancel(self, job_id: int) -> None:
        """Cancel a job (scancel(1)). A job that has ended is no error; an unknown id is ``SlurmRejected``."""

    async def set_extra(self, nodes: Sequence[str], text: str) -> None:
        """Write ``text`` into the Extra field of all ``nodes`` in one call; "" clears it.

        When one of them is unknown (``SlurmRejected`` names it) the others may have been written.
        """

    async def drain(self, nodes: Sequence[str], reason: str) -> None:
        """Close ``nodes`` for new jobs; ``reason`` begins with ``gangbridge: ``.

        Left as it is: a node that is drained already, and one that somebody set DOWN with a reason of his own.
        """

    async def resume(self, nodes: Sequence[str], reason: str) -> None:
        """Lift the drain of those of ``nodes`` whose reason is exactly ``reason``; others are left as they are.

        A node that is DOWN as well stays DOWN.
        """

    async def close(self) -> None:
        """Release processes and sockets; the port is unusable afterwards."""
