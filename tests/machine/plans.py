"""I9, checked on what operators really plan: the same snapshot, in another order, gives the same plan."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

from bridge.lifecycle.plan import Plan
from bridge.model.snapshot import Snapshot
from operators import loop
from tests.lifecycle.states import shuffled
from tests.machine.invariants import require

EVERY = 5
"""The first of so many plans is made twice: the very first one has the most to do."""


@contextmanager
def checked_plans() -> Iterator[None]:
    """Let operators plan some things twice."""
    plan, count = loop.plan, 0

    def planned(snapshot: Snapshot) -> Plan:
        nonlocal count
        decided = plan(snapshot)
        count += 1
        if count % EVERY == 1:
            again = plan(shuffled(snapshot, Random(count)))  # noqa: S311 - another order
            for first, second in ((decided.decisions, again.decisions), (decided.chores, again.chores)):
                require(repr(first) == repr(second), "I9", f"two plans of one snapshot: {first} and {second}")
        return decided

    loop.plan = planned
    try:
        yield
    finally:
        loop.plan = plan
