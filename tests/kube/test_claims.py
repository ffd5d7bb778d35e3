from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge import wellknown
from bridge.lifecycle.names import claim_name
from operators.kube.claims import (
    allocated,
    build_claim,
    build_mirror_claim,
    mirror_consumer,
    pod_consumer,
    released,
    unprotected,
)
from tests.kube.builders import DRIVER, device, gang, member

NOW = 1_900_000_000


def stored(claim: dict[str, Any]) -> dict[str, Any]:
    return {**claim, "metadata": {**claim["metadata"], "resourceVersion": "7", "uid": "u"}}


def test_claim_of_a_pod() -> None:
    claim = build_claim(gang(), member(3))
    meta = claim["metadata"]
    assert (meta["name"], meta["namespace"]) == (claim_name(gang(), 3), "default")
    assert meta["finalizers"] == [wellknown.DELETE_PROTECTION]
    assert meta["labels"][wellknown.RANK] == "3"
    assert meta["labels"][wellknown.GANG_UID] == gang().uid
    assert "ownerReferences" not in meta
    exactly = {"deviceClassName": DRIVER, "allocationMode": "ExactCount", "count": 2}
    assert claim["spec"] == {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}


def test_mirror_claim_lives_apart_and_waits_for_us() -> None:
    claim = build_mirror_claim("slurm-1-x-0", job_id=1, device_class=DRIVER, count=3)
    meta = claim["metadata"]
    assert meta["namespace"] == wellknown.MIRROR_NAMESPACE
    assert meta["finalizers"] == [wellknown.DELETE_PROTECTION, wellknown.FINALIZER]
    assert meta["labels"][wellknown.JOB_ID] == "1"
    assert claim["spec"]["devices"]["requests"][0]["exactly"]["count"] == 3


def test_allocation_has_everything_at_once() -> None:
    claim = stored(build_claim(gang(), member()))
    full = allocated(claim, devices=[device(1), device(0)], node="n", consumer=pod_consumer("p", "uid"), now=NOW)
    assert full["metadata"] == claim["metadata"]
    only = {"key": "metadata.name", "operator": "In", "values": ["n"]}
    assert full["status"] == {
        "allocation": {
            "allocationTimestamp": "2030-03-17T17:46:40Z",
            "devices": {
                "results": [
                    {"request": "gpu", "driver": DRIVER, "pool": "k8s-gpu-0", "device": "gpu-1"},
                    {"request": "gpu", "driver": DRIVER, "pool": "k8s-gpu-0", "device": "gpu-0"},
                ]
            },
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [only]}]},
        },
        "reservedFor": [{"resource": "pods", "name": "p", "uid": "uid"}],
    }


def test_mirror_is_a_foreign_consumer() -> None:
    assert mirror_consumer("slurm-1", "u") == {
        "apiGroup": "gangbridge.dev",
        "resource": "gangjobs",
        "name": "slurm-1",
        "uid": "u",
    }


@given(count=st.integers(1, 32), got=st.integers(0, 40))
def test_a_claim_gets_as_many_devices_as_it_asks_for(count: int, got: int) -> None:
    claim = build_mirror_claim("c", job_id=1, device_class=DRIVER, count=count)
    devices = [device(index) for index in range(got)]
    consumer = pod_consumer("p", "u")
    if count == got:
        full = allocated(claim, devices=devices, node="n", consumer=consumer, now=NOW)
        assert len(full["status"]["allocation"]["devices"]["results"]) == count
    else:
        with pytest.raises(AssertionError, match=f"asks for {count} devices, gets {got}"):
            allocated(claim, devices=devices, node="n", consumer=consumer, now=NOW)


@pytest.mark.parametrize("count", [0, 33])
def test_a_claim_holds_1_to_32_devices(count: int) -> None:
    with pytest.raises(AssertionError, match=f"{count} devices"):
        build_mirror_claim("c", job_id=1, device_class=DRIVER, count=count)


def test_release_leaves_nothing_in_the_status() -> None:
    claim = stored(build_claim(gang(), member()))
    full = allocated(claim, devices=[device(0), device(1)], node="n", consumer=pod_consumer("p", "u"), now=NOW)
    assert released(full) == {**claim, "status": {}}


def test_finalizers_of_others_stay() -> None:
    claim = stored(build_mirror_claim("c", job_id=1, device_class=DRIVER, count=1))
    claim["metadata"]["finalizers"].append("example.com/backup")
    assert unprotected(claim)["metadata"]["finalizers"] == ["example.com/backup"]
    assert unprotected(claim)["metadata"]["resourceVersion"] == "7"
    assert len(claim["metadata"]["finalizers"]) == 3, "the input is left as it was"
