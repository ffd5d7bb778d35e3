"""What the README tells people to apply is read as it is meant, and fits together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from bridge.model.fleet import Mode
from bridge.model.gang import GangSpec
from operators.reading import read_fleet, read_gang, read_queue

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.yaml"))
SERVER_SIDE = {"uid": "0b0c3a0e-8f0e-4a51-9c5e-0a8a1f2d6c11", "creationTimestamp": "2026-01-01T00:00:00Z"}


def load(kind: str, folder: str = "examples") -> list[dict[str, Any]]:
    paths = sorted((ROOT / folder).glob("*.yaml"))
    objects = [obj for path in paths for obj in yaml.safe_load_all(path.read_text())]
    for obj in objects:
        obj["metadata"] |= SERVER_SIDE
    return [obj for obj in objects if obj["kind"] == kind]


def test_there_is_one_example_of_every_kind() -> None:
    kinds = [obj["kind"] for path in EXAMPLES for obj in yaml.safe_load_all(path.read_text())]
    assert sorted(kinds) == ["Fleet", "GangJob", "GangQueue"]


@pytest.mark.parametrize("folder", ["examples", "e2e/manifests"])
def test_every_gang_is_read_and_its_queue_and_fleet_take_it(folder: str) -> None:
    queues = {queue.name: queue for queue in map(read_queue, load("GangQueue", folder))}
    fleets = {fleet.name: fleet for fleet in map(read_fleet, load("Fleet", folder))}
    gangs = [read_gang(obj) for obj in load("GangJob", folder)]
    assert gangs
    for gang in gangs:
        spec = gang.spec
        assert isinstance(spec, GangSpec), spec
        queue = queues[spec.queue]
        fleet = fleets[queue.fleet]
        assert queue.admits(gang.namespace, {})
        assert fleet.mode is Mode.SHARE
        assert fleet.mapping_for(spec.role.gres.name, spec.role.gres.type) is not None
        for level in (spec.required_level, spec.preferred_level):
            assert level is None or level in fleet.levels
        assert spec.role.replicas * spec.role.gres.count <= (queue.max_gpus_per_gang or 0)


def test_the_researchers_example_asks_for_what_its_comments_say() -> None:
    spec = read_gang(load("GangJob")[0]).spec
    assert isinstance(spec, GangSpec), spec
    assert (spec.queue, spec.time_limit_min, spec.max_restarts) == ("gpu", 240, 2)
    assert (spec.required_level, spec.preferred_level) == ("spine", "rack")
    assert (spec.role.replicas, spec.role.pods_per_node, str(spec.role.gres)) == (8, 1, "gpu:h100:8")


def test_the_example_queue_admits_by_name_and_by_label_and_nobody_else() -> None:
    queue = read_queue(load("GangQueue")[0])
    assert queue.admits("research", {})
    assert queue.admits("biology", {"gangbridge.dev/queue": "gpu"})
    assert not queue.admits("biology", {})
