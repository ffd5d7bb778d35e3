"""A small budget of random lives; ``make model`` spends a large one."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
import structlog
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.machine.lives import LIVES, live
from tests.machine.machine import COUNTS, Machine
from tests.machine.mutate import ROOT
from tests.machine.mutations import MUTATIONS

SOME = settings(
    max_examples=80,
    stateful_step_count=60,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(autouse=True)
def _silence() -> Iterator[None]:
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    yield
    structlog.configure(**before)


@pytest.mark.timeout(300)
def test_whatever_happens_nothing_is_lost_and_nothing_held_twice():
    COUNTS.clear()
    run_state_machine_as_test(Machine, settings=SOME)
    # A machine in which nothing happens finds nothing.
    assert COUNTS["steps"] > 3000
    assert COUNTS["containers started"] > 100
    assert COUNTS["crashes"] > 50


@pytest.mark.parametrize("name", LIVES)
def test_a_directed_life_comes_to_a_good_end(name):
    live(name)


def test_the_safeguards_are_where_the_mutations_look_for_them():
    for mutation in MUTATIONS:
        for path, old, new in mutation.changes:
            assert (ROOT / path).read_text().count(old) == 1, f"{mutation.safeguard}: {path} has not its text once"
            assert old != new
        assert not mutation.life or mutation.life in LIVES
