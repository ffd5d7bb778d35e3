from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.lifecycle.names import claim_name, mirror_claim_name, mirror_claim_stem, pod_name, service_name
from bridge.model.gang import GangStatus
from tests.builders import gang, job

LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
NAMES = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", fullmatch=True)


@given(NAMES, st.integers(1, 10_000), st.integers(0, 4095))
def test_names_of_pods_are_dns_labels_however_long_the_gangs_is(name, attempt, rank):
    owner = gang(name, status=GangStatus(attempt=attempt))
    assert LABEL.fullmatch(pod_name(owner, rank))
    assert LABEL.fullmatch(service_name(owner))
    assert len(claim_name(owner, rank)) <= 253


@pytest.mark.parametrize(
    "change",
    [{"uid": "uid-other"}, {"status": GangStatus(attempt=2)}],
    ids=["another gang of the same name", "another attempt"],
)
def test_a_claims_name_never_recurs(change):
    owner = gang()
    assert claim_name(replace(owner, **change), 0) != claim_name(owner, 0)
    assert claim_name(owner, 1) != claim_name(owner, 0)


@pytest.mark.parametrize(
    "change",
    [{"submit_time": 1}, {"restart_count": 1}, {"start_time": 1}],
    ids=["recycled job id", "requeued", "started again"],
)
def test_a_mirror_claims_name_belongs_to_one_incarnation_of_a_job(change):
    running = job(7, on={"n1": [0]})
    assert mirror_claim_name(replace(running, **change), "n1", 0) != mirror_claim_name(running, "n1", 0)


def test_a_mirror_claims_name_begins_with_the_stem_of_its_node():
    running = job(7, on={"n1": [0], "n2": [0]})
    assert mirror_claim_name(running, "n1", 3) == f"{mirror_claim_stem(running, 'n1')}-3"
    assert mirror_claim_stem(running, "n1") != mirror_claim_stem(running, "n2")
