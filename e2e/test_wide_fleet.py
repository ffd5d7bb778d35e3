"""Many gangs at once on many nodes."""

from __future__ import annotations

import sys
import time
from collections import defaultdict

import pytest

from e2e.operator import ROOT, Operator
from e2e.scenario import audit, batch, gang
from e2e.scenario.commands import NAMESPACE, Object, apply, kubectl, listed, run
from e2e.scenario.eventually import eventually

NODES, GANGS, PODS, GPUS = 256, 64, 4, 8
WRITES_PER_POD = 8


@pytest.fixture(scope="module")
def wide() -> None:
    """256 nodes without slurmd. They stay: an empty node costs nothing and making one does."""
    run(sys.executable, "-m", "e2e.lab", "external", str(NODES), env={"PYTHONPATH": str(ROOT)}, timeout_s=110)


@pytest.mark.timeout(180)
@pytest.mark.usefixtures("wide")
def test_64_gangs_of_4_pods_with_8_gpus_each_start_at_once_on_256_nodes(bridge: Operator) -> None:
    eventually(lambda: _published() >= NODES, "every node has its slice", within_s=60)
    time.sleep(1)  # what the new nodes made it write is over
    writes, began = bridge.writes(), time.monotonic()
    apply(
        *(gang.manifest(f"wide-{number}", pods=PODS, gpus=GPUS, queue="ext") for number in range(GANGS)), user="alice"
    )
    eventually(_all_running, "all gangs run", within_s=90, step_s=0.3)
    seconds = time.monotonic() - began
    per_pod = (bridge.writes() - writes) / (GANGS * PODS)
    print(f"{GANGS * PODS} pods of {GANGS} gangs started in {seconds:.1f} s with {per_pod:.2f} writes per pod")
    assert per_pod <= WRITES_PER_POD

    _assert_ranks_in_topology_order()
    assert len(batch.live_jobs()) == GANGS
    assert len(audit.claimed()) == NODES * GPUS
    audit.assert_sound()

    began = time.monotonic()
    kubectl("delete", "gangjobs", "--all", "-n", NAMESPACE, "--wait=false")
    audit.assert_nothing_left(within_s=60)
    print(f"all gone {time.monotonic() - began:.1f} s after kubectl delete")


def _published() -> int:
    return len(listed("resourceslices", namespace=None)) - 4


def _all_running() -> bool:
    phases = kubectl("get", "gangjobs", "-n", NAMESPACE, "-o", "jsonpath={.items[*].status.phase}").split()
    assert phases == ["Running"] * GANGS, {phase: phases.count(phase) for phase in set(phases)}
    return True


def _assert_ranks_in_topology_order() -> None:
    """Ranks of a gang go through spines, racks and nodes without ever coming back to one."""
    places = {
        node["metadata"]["name"]: (
            _number(node["metadata"]["labels"]["topology.gangbridge.dev/spine"]),
            _number(node["metadata"]["labels"]["topology.gangbridge.dev/rack"]),
            _number(node["metadata"]["name"]),
        )
        for node in listed("nodes", namespace=None)
    }
    ranks: dict[str, list[Object]] = defaultdict(list)
    for pod in listed("pods"):
        ranks[pod["metadata"]["labels"]["gangbridge.dev/gang"]].append(pod)
    for name, pods in ranks.items():
        ordered = [places[pod["spec"]["nodeName"]] for pod in sorted(pods, key=gang.rank)]
        assert len(set(ordered)) == PODS, f"{name}: two pods of 8 GPUs on one node: {ordered}"
        assert ordered == sorted(ordered), f"{name}: {ordered}"


def _number(name: str) -> int:
    return int(name.rpartition("-")[2])
