"""Two owners of one device, seen in the raw lists of both servers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from e2e.chaos.sight import Job, owners, parse_job

LINE = (
    "JobId=7 JobName=g UserId=alice(1001) JobState=RUNNING Reason=None Partition=ext ReqNodeList=ext[1-3] "
    "NodeList=ext[1-3] JOB_GRES=gpu:h100:10 "
    "Nodes=ext[1-2] CPU_IDs=0-3 Mem=1000 GRES=gpu:h100:4(IDX:0-2,5) "
    "Nodes=ext3 CPU_IDs=0 Mem=1000 GRES=gpu:h100:2(IDX:6-7) "
    'AdminComment={"gangbridge":1,"uid":"u","attempt":2} Comment={"gangbridge":1,"uid":"u","attempt":2}'
)
KNOWN = {("k1", "gpu-0"): ("ext1", 0)}
ON_SLURMD = {("k1", "gpu-0"): ("gpu1", 0)}
HOLD = Job(job_id=7, name="g", state="RUNNING", partition="ext", gang="u", attempt=2, nodes=("ext1",),
           devices=frozenset({("ext1", 0)}))  # fmt: skip


def claim(name: str, uid: str, attempt: int) -> dict[str, Any]:
    results = [{"driver": "gpu.gangbridge.dev", "pool": "k1", "device": "gpu-0"}]
    labels = {"gangbridge.dev/gang-uid": uid, "gangbridge.dev/attempt": str(attempt)} if uid else {}
    return {
        "metadata": {"namespace": "ns", "name": name, "labels": labels},
        "status": {"allocation": {"devices": {"results": results}}},
    }


def text_of(claims: list[dict[str, Any]], jobs: list[Job]) -> str:
    (found,) = owners(claims, jobs, KNOWN, [])
    return found.text


def test_a_job_is_read_with_its_marker_and_its_devices_on_each_node() -> None:
    job = parse_job(LINE)
    assert (job.job_id, job.state, job.gang, job.attempt) == (7, "RUNNING", "u", 2)
    assert job.nodes == ("ext1", "ext2", "ext3")
    on_two = {(node, index) for node in ("ext1", "ext2") for index in (0, 1, 2, 5)}
    assert job.devices == on_two | {("ext3", 6), ("ext3", 7)}


def test_a_hold_and_its_own_claim_are_one_owner() -> None:
    assert owners([claim("c", "u", 2)], [HOLD], KNOWN, []) == set()


def test_two_claims_two_jobs_and_a_claim_beside_anothers_job_are_two_owners() -> None:
    other = replace(HOLD, job_id=8, gang="", attempt=0)
    assert "in claims ['ns/a', 'ns/b']" in text_of([claim("a", "u", 2), claim("b", "u", 2)], [HOLD])
    assert "held by jobs [7, 8]" in text_of([], [HOLD, other])
    assert "in claim ns/a" in text_of([claim("a", "u", 2)], [other])
    assert "in claim ns/a" in text_of([claim("a", "u", 1)], [HOLD])


def test_a_mirrors_claim_may_lag_behind_its_job() -> None:
    assert owners([claim("mirror", "", 0)], [HOLD], KNOWN, []) == set()


def test_what_slurm_gave_away_of_an_external_node_is_told_apart_from_what_it_cannot_excuse() -> None:
    other = replace(HOLD, job_id=8, gang="", attempt=0)
    assert [found.is_given_away for found in owners([claim("a", "u", 2)], [other], KNOWN, [])] == [True]
    on_slurmd = replace(other, devices=frozenset({("gpu1", 0)}))
    assert [found.is_given_away for found in owners([claim("a", "u", 2)], [on_slurmd], ON_SLURMD, [])] == [False]
    to_a_gang = replace(on_slurmd, gang="v", attempt=1)
    assert [found.is_given_away for found in owners([claim("a", "u", 2)], [to_a_gang], ON_SLURMD, [])] == [True]
    assert [found.is_given_away for found in owners([claim("a", "u", 2), claim("b", "v", 1)], [], KNOWN, [])] == [False]


def test_what_slurm_gave_away_within_three_seconds_of_its_start_is_told_apart_too() -> None:
    late = replace(HOLD, job_id=8, gang="", attempt=0, devices=frozenset({("gpu1", 0)}), began=100.0)
    for starts, told_apart in (([97.5], True), ([100.4], True), ([96.0], False), ([101.5], False), ([], False)):
        (found,) = owners([claim("a", "u", 2)], [late], ON_SLURMD, starts)
        assert found.is_given_away is told_apart, starts
