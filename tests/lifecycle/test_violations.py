"""The number of broken invariants on the Fleet's dashboard."""

from __future__ import annotations

from dataclasses import replace

from bridge.lifecycle.fleetview import join
from bridge.lifecycle.violations import violations
from tests.builders import claim, devices, foreign_claim, gang, hold, job, node, snapshot


def broken(*claims, jobs=()):
    return violations(join(snapshot([node("n1")], jobs=jobs, claims=claims)))


def test_a_gangs_claim_on_its_own_holds_devices_is_right():
    owner = gang()
    mine = claim(owner, devices=devices("n1", [0, 1]))
    assert broken(mine, jobs=[hold(owner, on={"n1": [0, 1]})]) == []


def test_a_device_in_two_claims_is_named_with_both():
    one = foreign_claim("one", devices("n1", [3]))
    (told,) = broken(one, replace(one, name="other", uid="uid-other"))
    assert told.startswith("n1/gpu-3 is in claims ")


def test_a_claim_on_a_device_of_somebody_elses_job_is_named_with_the_job():
    owner = gang()
    stolen = claim(owner, devices=devices("n1", [2]))
    (told,) = broken(stolen, jobs=[job(77, on={"n1": [2]})])
    assert told == f"n1 index 2 is held by job 77 and in claim {stolen.namespace}/{stolen.name}"
