"""Fixtures of the scenarios: one operator per module on the running lab, a clean fleet before and after each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from e2e.demo import background
from e2e.operator import Operator, install
from e2e.scenario import audit, fleet


@pytest.fixture(scope="session")
def installed() -> None:
    """Everything that an admin applies; an operator that the demo left would be a second writer."""
    background.stop()
    install()


@pytest.fixture(scope="module")
def operator(installed: None) -> Iterator[Operator]:  # noqa: ARG001
    """One operator process for the tests of a module."""
    process = Operator()
    process.start()
    yield process
    if process.is_alive:
        process.kill()


@pytest.fixture
def bridge(operator: Operator) -> Iterator[Operator]:
    """The operator, with nothing running before the test and, proven from the raw servers, nothing left after it."""
    operator.live()
    fleet.sweep()
    yield operator
    operator.live()
    audit.assert_sound()
    fleet.settle()
