"""Slurm's answers as two real versions gave them, and the ones that are none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from auditor.hostlist import expand
from auditor.slurm_json import gpu_indices, read_jobs, read_nodes
from tests.auditor.world import JOB, World, marker

DATA = Path(__file__).parents[1] / "data" / "slurm"
VERSIONS = ("24.11.5", "26.05.5")


def recorded(version: str, name: str) -> bytes:
    return (DATA / version / name).read_bytes()


@pytest.mark.parametrize("version", VERSIONS)
def test_jobs_hold_exactly_what_scontrol_says_of_them(version):
    jobs, clock = read_jobs(recorded(version, "squeue.json"))
    assert {
        job_id: {node: sorted(indices) for node, indices in job.indices.items() if indices}
        for job_id, job in jobs.items()
        if any(job.indices.values())
    } == {
        3: {"n1": [1, 2]},
        6: {"n3": [1]},
        7: {"n3": [3, 4, 5]},
        8: {"n3": [0, 2]},
        9: {"n4": [0, 1, 2]},
        10: {"n4": [3]},
        11: {"n4": [4, 5]},
        12: {"n2": [0, 1, 2, 3, 4, 5, 6, 7]},
        13: {"n1": [5], "n4": [6]},
    }
    assert jobs[13].nodes == ("n1", "n4")
    assert jobs[13].states == {"RUNNING"}
    assert jobs[14].states == {"PENDING"}
    assert not jobs[14].indices
    assert abs(clock - jobs[3].started) < 60


@pytest.mark.parametrize("version", VERSIONS)
def test_nodes_have_their_states_and_reasons(version):
    nodes = read_nodes(recorded(version, "scontrol_node.json"))
    assert sorted(nodes) == ["n1", "n2", "n3", "n4"]
    assert (nodes["n3"].states, nodes["n3"].reason, nodes["n3"].reason_by) == (
        {"MIXED", "DRAIN"},
        "k8s: cordon test",
        "root",
    )
    assert nodes["n3"].is_fenced
    assert not nodes["n1"].is_fenced
    assert all(node.has_slurmd for node in nodes.values())


@pytest.mark.parametrize(
    ("text", "indices"),
    [
        ("gpu:h100:2(IDX:1-2)", {1, 2}),
        ("gpu:3(IDX:0,2,5-6)", {0, 2, 5, 6}),
        ("gpu:a100:1(IDX:0),gpu:nvidia_a100_1g.5gb:0(IDX:),gpu:x:1(IDX:9),fpga:x1(CNT:1)", {0, 9}),
        ("gpu:h100:0(IDX:N/A)", set()),
        ("shard:h100:3(3/4,0/4),gpu:1(IDX:7)", {7}),
        ("gpus:2(IDX:0-1),bandwidth:lustre(CNT:0)", set()),
        ("gpu:2(CNT:2)", set()),
        ("", set()),
    ],
)
def test_gpu_indices_are_read_from_what_a_job_holds_on_a_node(text, indices):
    assert gpu_indices(text) == indices


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", ()),
        ("gpu0", ("gpu0",)),
        ("n[1,4]", ("n1", "n4")),
        ("gpu[08-10],login", ("gpu08", "gpu09", "gpu10", "login")),
        ("r[1-2]n[0,3-4]x", ("r1n0x", "r1n3x", "r1n4x", "r2n0x", "r2n3x", "r2n4x")),
    ],
)
def test_host_lists_are_expanded_in_their_order(text, names):
    assert expand(text) == names


def test_devices_that_cannot_be_matched_with_nodes_are_unknown():
    world = World()
    world.jobs[JOB]["nodes"] = "gpu[0-1]"
    jobs, _ = read_jobs(world.squeue())
    assert not jobs[JOB].indices


@pytest.mark.parametrize("states", [["CANCELLED", "COMPLETING"], ["PENDING"]])
def test_nothing_is_known_of_devices_while_a_job_does_not_run(states):
    world = World()
    world.jobs[JOB]["job_state"] = states
    jobs, _ = read_jobs(world.squeue())
    assert not jobs[JOB].indices


def test_an_answer_without_a_time_is_not_slurmctlds():
    """``scontrol show jobs --json`` ends with status 0 when nobody answers."""
    world = World()
    world.now = 0
    with pytest.raises(ValueError, match="has no time"):
        read_jobs(world.squeue())


def test_a_cluster_without_nodes_is_not_believed():
    with pytest.raises(ValueError, match="has no node"):
        read_nodes(b'{"nodes": []}')


@pytest.mark.parametrize(
    "text",
    ["", "my comment", "[]", "12", "null", '{"gangbridge":1}', '{"uid":"u","attempt":1,"gang":"a/b","cluster":"c"}'],
)
def test_a_comment_of_somebody_else_is_no_marker(text):
    world = World()
    world.jobs[JOB] |= {"admin_comment": text, "comment": text}
    job = read_jobs(world.squeue())[0][JOB]
    assert (job.marker, job.unsealed) == (None, None)


def test_a_marker_in_the_comment_counts_as_unsealed_only_without_a_sealed_one():
    world = World()
    world.jobs[JOB] |= {"admin_comment": "the site's own note", "comment": marker()}
    job = read_jobs(world.squeue())[0][JOB]
    assert job.marker is None
    assert job.unsealed is not None
    world.jobs[JOB]["admin_comment"] = marker(attempt=3)
    job = read_jobs(world.squeue())[0][JOB]
    assert job.marker is not None
    assert (job.marker.key.attempt, job.unsealed) == (3, None)


def test_single_cores_are_not_kept_while_reading():
    world = World()
    record = json.loads(world.squeue())["jobs"][0]
    assert record["job_resources"]["nodes"]["allocation"][0]["cores"], "the test's own record has none"
    assert read_jobs(world.squeue())[0]
