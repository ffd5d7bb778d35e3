"""The port's contract table on a real Slurm, through the worker process and through the commands."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest

from bridge.slurm.cli import CliPort
from bridge.slurm.client import PyslurmPort
from bridge.slurm.port import SlurmPort
from e2e.slurm_world import EXEC, WORKER, LabWorld, build_binding
from tests.slurm.contract import CASES, Case

PORTS: dict[str, Callable[[], SlurmPort]] = {
    "pyslurm": lambda: PyslurmPort(WORKER),
    "cli": lambda: CliPort([EXEC]),
}


@pytest.fixture(scope="module", autouse=True)
def binding() -> None:
    build_binding()


@pytest.fixture(params=list(PORTS))
async def world(request: pytest.FixtureRequest) -> AsyncIterator[LabWorld]:
    world = LabWorld(PORTS[request.param]())
    await world.clean()
    yield world
    await world.clean()
    await world.port.close()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
async def test_contract(world: LabWorld, case: Case) -> None:
    await case(world)
