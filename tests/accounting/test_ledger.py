from __future__ import annotations

import pytest

from bridge.accounting.ledger import build_ledger, gpu_indices
from bridge.model.gres import Gres
from bridge.model.slurm import JobState
from tests.builders import claim, device, devices, foreign_claim, gang, gpus, job


def test_a_device_belongs_to_the_live_job_that_holds_its_index():
    ledger = build_ledger([job(1, on={"n1": [0, 1], "n2": [3]}), job(2, on={"n1": [2]})], [])
    assert ledger.slurm == {("n1", 0): 1, ("n1", 1): 1, ("n2", 3): 1, ("n1", 2): 2}
    assert ledger.used_indices("n1") == {0, 1, 2}
    assert ledger.used_indices("n3") == frozenset()


@pytest.mark.parametrize(
    ("state", "completing", "holds"),
    [
        (JobState.RUNNING, False, True),
        (JobState.SUSPENDED, False, True),
        (JobState.COMPLETED, True, True),
        (JobState.CANCELLED, True, True),
        (JobState.COMPLETED, False, False),
        (JobState.PENDING, False, False),
        (JobState.NODE_FAIL, False, False),
    ],
)
def test_a_job_holds_its_devices_until_its_epilog_is_done(state, completing, holds):
    ledger = build_ledger([job(1, state, completing=completing, on={"n1": [0]})], [])
    assert bool(ledger.slurm) is holds


def test_other_gres_and_counts_without_indices_are_nobodys_device():
    mixed = (*gpus([5, 1]), Gres(name="fpga", count=1, indices=(0,)), Gres(name="gpu", type="mig", count=2))
    assert gpu_indices(mixed) == (1, 5)


def test_other_claims_are_all_that_hold_one_of_the_devices_but_mine():
    owner = gang()
    mine = claim(owner, on=("n1", [0, 1]))
    theirs = foreign_claim("theirs", devices("n1", [1, 2]))
    ledger = build_ledger([], [mine, theirs, foreign_claim("elsewhere", devices("n2", [0]))])
    assert ledger.other_claims([device("n1", 0)], mine.uid) == []
    assert ledger.other_claims([device("n1", 1)], mine.uid) == [theirs]
    assert ledger.other_claims([device("n1", 1)], theirs.uid) == [mine]
    assert ledger.other_claims([device("n9", 1)], mine.uid) == []


def test_an_unallocated_claim_holds_nothing():
    assert build_ledger([], [claim(gang())]).claims == {}
