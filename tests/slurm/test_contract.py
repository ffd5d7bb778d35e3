"""The contract table against the in-memory slurmctld."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from bridge.slurm.fake import FakeSlurm
from bridge.slurm.fake_records import FakeNode
from tests.slurm.contract import CASES, Case


class FakeWorld:
    """The world of the contract, in memory."""

    nodes = ("gpu0", "gpu1")
    external = "ext0"
    partition = "gpu"
    external_partition = "ext"

    def __init__(self) -> None:
        external = FakeNode(name=self.external, external=True, partitions=frozenset({"ext"}))
        nodes = [*(FakeNode(name=name) for name in self.nodes), external]
        self.port = FakeSlurm(nodes, topology="SwitchName=rack-0 Nodes=gpu[0-1]")

    async def sbatch(self, *, pin: Sequence[str], gpus: int) -> int:
        return self.port.sbatch(pin=pin, gpus=gpus)

    async def stubborn_sbatch(self, *, pin: Sequence[str], gpus: int) -> int:
        self.port.epilog = True
        return self.port.sbatch(pin=pin, gpus=gpus)

    async def let_go(self, job_id: int) -> None:
        self.port.finish_epilog(job_id)

    async def drain(self, node: str, reason: str) -> None:
        self.port.set_node(node, "DRAIN", reason=reason)

    async def take_down(self, node: str, reason: str) -> None:
        self.port.set_node(node, "DOWN", reason=reason)

    async def resume(self, node: str) -> None:
        self.port.set_node(node)

    async def pass_time(self, seconds: float) -> None:
        if self.port.epilog:  # that of all but the first node is quick
            for job in self.port.jobs.values():
                for node in job.epilogs[1:]:
                    self.port.finish_epilog(job.job_id, node)
        self.port.advance(seconds)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
async def test_contract(case: Case) -> None:
    await case(FakeWorld())
