"""A small `make chaos`: random faults during a mixed load, then nothing leaked, no device held twice, true records."""

from __future__ import annotations

import pytest

from e2e.chaos import report
from e2e.chaos.campaign import Campaign

FAULTS, SEED = 40, 5


@pytest.mark.usefixtures("installed")
def test_nothing_is_lost_and_nothing_held_twice_after_40_random_faults() -> None:
    run = Campaign(seed=SEED, count=FAULTS, say=print)
    run.run()
    report.show(run)
    assert run.problems == [], f"evidence: {report.evidence(run)}"
    assert len(run.diary) >= FAULTS
    assert run.stories, "no gang was seen"
