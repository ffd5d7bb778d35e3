"""What real Slurm 24.11 and 26.05 printed, read by the adapters' own code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bridge.accounting.gres import parse_gres
from bridge.errors import ParseError
from bridge.model.gres import Gres
from bridge.model.hold import ExitStatus, GangKey, Marker
from bridge.model.slurm import JobState, SlurmView
from bridge.slurm.cli_json import job_record, node_record, partition_members
from bridge.slurm.records import JobRecord, job_of, node_of, view_of

RECORDED = Path(__file__).parents[1] / "data" / "slurm"
VERSIONS = ["24.11.5", "26.05.5"]


@pytest.fixture(params=VERSIONS)
def view(request: pytest.FixtureRequest) -> SlurmView:
    folder = RECORDED / request.param
    jobs = json.loads((folder / "squeue.json").read_text())["jobs"]
    nodes = json.loads((folder / "scontrol_node.json").read_text())["nodes"]
    return view_of(map(job_record, jobs), map(node_record, nodes), partition_members(nodes), 0.0)


def named(view: SlurmView) -> dict[str, int]:
    return {job.name: job_id for job_id, job in view.jobs.items()}


def test_every_running_job_and_its_devices(view: SlurmView) -> None:
    held = {
        name: {
            node: [(g.name, g.type, g.count, g.indices) for g in gres] for node, gres in view.jobs[job_id].gres.items()
        }
        for name, job_id in named(view).items()
        if view.jobs[job_id].state is JobState.RUNNING
    }
    assert held["gpu1"] == {"n1": [("gpu", "h100", 2, (1, 2))]}
    assert held["shard1"] == {"n1": [("shard", "h100", 3, None)]}
    assert held["tmpd"] == {"n1": [("tmpdisk", "", 1024, None)]}
    assert held["mig2"] == {"n3": [("gpu", "nvidia_a100_1g.5gb", 3, (3, 4, 5))]}
    assert held["two"] == {"n1": [("gpu", "h100", 1, (5,))], "n4": [("gpu", "", 1, (6,))]}
    assert held["excl"]["n2"][0] == ("gpu", "h100", 8, tuple(range(8)))


def test_devices_of_different_jobs_differ(view: SlurmView) -> None:
    taken = [
        (node, gres.name, index)
        for job in view.jobs.values()
        for node, held in job.gres.items()
        for gres in held
        for index in gres.indices or ()
    ]
    assert len(taken) == len(set(taken)) == 24


def test_nodes(view: SlurmView) -> None:
    n1, n3, n4 = (view.nodes[name] for name in ("n1", "n3", "n4"))
    assert n1.states == {"MIXED"}
    assert (n1.cpus, n1.cpus_allocated, n1.memory_mib, n1.memory_allocated_mib) == (32, 7, 64000, 700)
    assert n1.gres[0] == Gres(name="gpu", type="h100", count=8, indices=tuple(range(8)))
    assert (n1.hostname, n1.partitions) == ("slurmhost", {"main"})
    assert [gres.is_tracked for gres in n3.gres] == [True, True, True, False]
    assert n3.states == {"MIXED", "DRAIN"}
    assert (n3.reason, n3.is_schedulable) == ("k8s: cordon test", False)
    # An untyped GRES without Cores is shown by count alone: nothing proves that it is tracked.
    assert n4.gres == (Gres(name="gpu", count=8),)


def test_where_jobs_work(view: SlurmView) -> None:
    assert {job.work_dir for job in view.jobs.values()} == {"/tmp"}  # noqa: S108


def test_a_pending_job(view: SlurmView) -> None:
    job = view.jobs[named(view)["held"]]
    assert (job.state, job.nodes, job.gres, job.gres_requested) == (JobState.PENDING, (), {}, "gres/gpu:h100:2")
    assert (job.user, job.time_limit_min, job.exit_status, job.marker) == ("root", 60, ExitStatus(), None)


def test_an_array() -> None:
    folder = RECORDED / "24.11.5"
    jobs = json.loads((folder / "squeue.json").read_text())["jobs"]
    (array,) = (job_of(job_record(job)) for job in jobs if job["name"] == "arr")
    assert (array.array_job_id, array.array_task, array.het_job_id) == (15, "0-3%2", None)


@pytest.mark.parametrize("version", VERSIONS)
def test_details_in_text_and_in_json_agree(version: str) -> None:
    """``scontrol show job -d`` prints the same details; both forms must give the same devices."""
    text = (RECORDED / version / "scontrol_job_d.txt").read_text()
    printed = {parse_gres(line.split("GRES=")[1].strip()) for line in text.splitlines() if " GRES=" in line}
    jobs = json.loads((RECORDED / version / "squeue.json").read_text())["jobs"]
    assert printed == {parse_gres(detail) for job in jobs for detail in job["gres_detail"]}


class TestRecords:
    def record(self, **changes: object) -> JobRecord:
        values = {"job_id": 7, "state": "RUNNING", "user": "alice", "nodes": "n[10,2]"} | changes
        return JobRecord(**values)  # type: ignore[typeddict-item]

    def test_details_run_parallel_to_the_unsorted_node_list(self) -> None:
        job = job_of(self.record(gres_detail=["gpu:a:1(IDX:0)", "gpu:a:1(IDX:5)"]))
        assert [(node, gres.indices) for node, (gres,) in job.gres.items()] == [("n10", (0,)), ("n2", (5,))]

    def test_details_that_cannot_be_paired_have_no_index(self) -> None:
        job = job_of(self.record(gres_detail=["gpu:a:1(IDX:0)"]))
        assert job.gres == dict.fromkeys(("n10", "n2"), (Gres(name="gpu", type="a", count=1),))

    def test_a_job_without_details_has_an_entry_for_each_node(self) -> None:
        assert job_of(self.record()).gres == {"n10": (), "n2": ()}

    @pytest.mark.parametrize(
        ("wait_status", "status"),
        [(0, (0, 0)), (3 << 8, (3, 0)), (15, (0, 15)), (9 | 0x80, (0, 9)), (255 << 8, (255, 0))],
    )
    def test_exit_status(self, wait_status: int, status: tuple[int, int]) -> None:
        found = job_of(self.record(exit_code=wait_status)).exit_status
        assert (found.code, found.signal) == status

    def test_the_marker_of_the_administrator_wins(self) -> None:
        mine, other = (
            Marker(key=GangKey(uid=uid, attempt=1), namespace="a", name="b").dumps() for uid in ("mine", "other")
        )
        both = job_of(self.record(admin_comment=mine, comment=other))
        assert both.marker is not None
        assert (both.marker.key.uid, both.is_sealed) == ("mine", True)
        early = job_of(self.record(comment=other))
        assert early.marker is not None
        assert (early.marker.key.uid, early.is_sealed) == ("other", False)
        assert job_of(self.record(admin_comment="maintenance", comment=other)).marker is None

    def test_array_and_heterogeneous_jobs(self) -> None:
        task = job_of(self.record(array_job_id=5, array_task_id=0, array_task_str="0"))
        assert (task.array_job_id, task.array_task) == (5, "0")
        part = job_of(self.record(het_job_id=6, het_job_offset=1))
        assert (part.het_job_id, part.het_offset) == (6, 1)

    def test_the_first_way_to_ask_for_gres_is_shown(self) -> None:
        asked = self.record(tres_per_node="cpu=2", tres_per_job="gres/gpu:4", tres_per_task="gres/gpu=1")
        assert job_of(asked).gres_requested == "gres/gpu:4"

    def test_a_node_and_a_job_have_the_texts_that_the_epilog_looks_at(self) -> None:
        assert node_of({"name": "x", "state": ["IDLE"], "extra": "gangbridge:7"}, []).extra == "gangbridge:7"
        assert job_of(self.record(work_dir="/")).work_dir == "/"

    def test_an_unknown_state_is_no_state(self) -> None:
        with pytest.raises(ParseError, match="unknown job state"):
            job_of(self.record(state="DREAMING"))

    def test_a_node_that_only_counts(self) -> None:
        node = node_of({"name": "x", "state": ["IDLE"], "gres": "gpu:h100:8", "gres_used": "gpu:h100:0"}, [])
        assert node.gres == (Gres(name="gpu", type="h100", count=8),)
