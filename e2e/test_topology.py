"""Topology from Slurm and from labels, plans that come true, and reasons that name the rack."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from e2e.scenario import batch, fleet, gang
from e2e.scenario.commands import conditions, found
from e2e.scenario.eventually import eventually

pytestmark = pytest.mark.usefixtures("bridge")

RACKS = ({"gpu0", "gpu1"}, {"gpu2", "gpu3"})


def plan(tmp_path: Path, manifest: dict[str, Any], *options: str) -> subprocess.CompletedProcess[str]:
    """Run ``gangbridge plan`` on the live fleet, as the lab's admin."""
    file = tmp_path / "gang.json"
    file.write_text(json.dumps(manifest))
    command = [str(Path(sys.executable).parent / "gangbridge"), "plan", "-f", str(file)]
    command += ["--worker-python", "/opt/venv/bin/python", *options]
    return subprocess.run(command, text=True, capture_output=True, check=False, timeout=60)


def test_slurm_and_labels_agree_on_the_topology() -> None:
    def state() -> Any:
        return conditions(found("fleet", "main", namespace=None) or {}).get("TopologyConsistent", {}).get("status")

    assert eventually(state, "the fleet says whether its topology is consistent") == "True"


def test_a_plan_is_what_the_operator_then_does_and_writes_nothing(tmp_path: Path) -> None:
    manifest = gang.manifest("planned", pods=2, gpus=8, topology={"required": "rack"})
    told = plan(tmp_path, manifest, "-o", "json")
    assert told.returncode == 0, told.stderr
    assert found("gangjob", "planned") is None
    assert batch.live_jobs() == []
    nodes = [row["node"] for row in json.loads(told.stdout)["nodes"]]
    assert set(nodes) in RACKS
    made = gang.submit("planned", pods=2, gpus=8, topology={"required": "rack"})
    made.wait_for("Running", within_s=30)
    assert batch.nodes(made.hold()["nodes"]) == nodes
    assert made.status()["placement"]["quality"].startswith("1 spine, 1 rack (optimum 1, 1), step time x1.0")


def test_a_gang_that_no_rack_can_hold_says_which_comes_nearest_and_the_plan_says_so_too(tmp_path: Path) -> None:
    fleet.fill(nodes=("k8s-gpu-0", "k8s-gpu-3"))
    wide = gang.submit("wide", pods=2, gpus=8, topology={"required": "rack"})
    words = (
        "2 pods of gpu:h100:8 need 2 nodes with 8 free gpu:h100 each in one rack; spine-0/rack-0 has most: 1 (1 in use)"
    )
    wide.waits("NoDomainFits", words)
    told = plan(tmp_path, gang.manifest("other", pods=2, gpus=8, topology={"required": "rack"}))
    assert told.returncode == 1
    assert "in one rack" in told.stdout


def test_segments_stay_in_their_rack() -> None:
    fleet.fill(gpus_left=4, nodes=("k8s-gpu-0",))
    split = gang.submit("split", pods=4, gpus=4, per_node=1, topology={"segment": {"size": 2, "level": "rack"}})
    split.wait_for("Running", within_s=30)
    assert batch.nodes(split.hold()["nodes"]) == ["gpu0", "gpu1", "gpu2", "gpu3"]


def test_a_segment_that_no_rack_can_hold_waits_for_one() -> None:
    fleet.fill(nodes=("k8s-gpu-0", "k8s-gpu-3"))
    odd = gang.submit("odd", pods=2, gpus=8, topology={"segment": {"size": 2, "level": "rack"}})
    odd.waits("NoSegmentFits", "2 pods of gpu:h100:8 need 1 segment of 2 nodes in one rack each; the fleet has 0")
