"""The definitions on a real API server: what it refuses, and that every refusal names the field."""

from __future__ import annotations

import copy
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from operators.kube.client import KubeClient
from operators.kube.errors import KubeError
from operators.kube.resources import FLEETS, GANGJOBS, GANGQUEUES
from tests.kube.builders import gangjob, template
from tests.kube.realapi import RealApi


def changed(obj: dict[str, Any], path: str, value: object) -> dict[str, Any]:
    """Return a copy with the value at a dotted path; numbers are indices, None removes."""
    result = copy.deepcopy(obj)
    *parents, last = path.split(".")
    here: Any = result
    for part in parents:
        here = here[int(part)] if part.isdigit() else here.setdefault(part, {})
    if value is None:
        del here[last]
    else:
        here[last] = value
    return result


@pytest.fixture
async def admin(real: RealApi) -> AsyncIterator[KubeClient]:
    async with KubeClient(real.connection("admin")) as client:
        yield client


KINDS = {resource.kind: resource for resource in (GANGJOBS, GANGQUEUES, FLEETS)}


async def refusal(admin: KubeClient, obj: Mapping[str, Any]) -> str:
    """Return what the server says to the object; empty when it is accepted."""
    try:
        await admin.create(KINDS[obj["kind"]], obj, dry_run=True)
    except KubeError as error:
        return error.message
    return ""


def queue(**spec: Any) -> dict[str, Any]:
    slurm = {"partition": "gpu", "account": "physics", "user": "alice", "qos": ["normal"]}
    return {
        "apiVersion": "gangbridge.dev/v1alpha1",
        "kind": "GangQueue",
        "metadata": {"name": "gpu"},
        "spec": {"fleet": "main", "namespaces": {"names": ["research"]}, "slurm": slurm, **spec},
    }


def fleet(**spec: Any) -> dict[str, Any]:
    devices = [{"gres": "gpu:h100", "driver": "gpu.gangbridge.dev", "deviceClass": "gpu.gangbridge.dev"}]
    topology = {"levels": ["spine", "rack"], "sources": [{"nodeLabels": {"spine": "t/spine", "rack": "t/rack"}}]}
    return {
        "apiVersion": "gangbridge.dev/v1alpha1",
        "kind": "Fleet",
        "metadata": {"name": "main"},
        "spec": {"mode": "Share", "topology": topology, "devices": devices, **spec},
    }


ROLE = "spec.roles.0"
POD = f"{ROLE}.template.spec"

BAD_GANGS = [
    pytest.param(f"{ROLE}.replicas", 0, "spec.roles[0].replicas", "greater than or equal to 1", id="0-replicas"),
    pytest.param(f"{ROLE}.replicas", 10**6, "spec.roles[0].replicas", "less than or equal to 4096", id="million"),
    pytest.param(f"{ROLE}.podsPerNode", 0, "spec.roles[0].podsPerNode", "greater than or equal to 1", id="0-per-node"),
    pytest.param(f"{ROLE}.podsPerNode", 3, "spec.roles[0].podsPerNode", "multiple of podsPerNode", id="remainder"),
    pytest.param(f"{ROLE}.gres", "gpu", "spec.roles[0].gres", "gpu:h100:8", id="gres-without-count"),
    pytest.param(f"{ROLE}.gres", "gpu:h100:0", "spec.roles[0].gres", "1 to 32", id="gres-0"),
    pytest.param(f"{ROLE}.gres", "gpu:h100:33", "spec.roles[0].gres", "1 to 32", id="gres-33"),
    pytest.param(f"{ROLE}.gres", "gpu:1,nic:1", "spec.roles[0].gres", "gpu:h100:8", id="gres-list"),
    pytest.param(f"{ROLE}.gres", "gpu:h100:-1", "spec.roles[0].gres", "gpu:h100:8", id="gres-negative"),
    pytest.param(f"{ROLE}.gres", 8, "spec.roles[0].gres", "must be of type string", id="gres-number"),
    pytest.param(f"{ROLE}.gres", None, "spec.roles[0].gres", "Required", id="no-gres"),
    pytest.param(f"{ROLE}.name", "Worker", "spec.roles[0].name", "DNS label", id="role-name"),
    pytest.param("spec.roles", [], "spec.roles", "at least 1 items", id="no-roles"),
    pytest.param("spec.roles", None, "spec.roles", "roles is required", id="roles-missing"),
    pytest.param("spec.queue", None, "spec.queue", "Required", id="no-queue"),
    pytest.param("spec.queue", "A B", "spec.queue", "GangQueue", id="queue-name"),
    pytest.param("spec.timeLimit", "4x", "spec.timeLimit", "4h, 1h30m or 2d", id="time-unit"),
    pytest.param("spec.timeLimit", "0", "spec.timeLimit", "longer than 0", id="time-0"),
    pytest.param("spec.timeLimit", "00:00", "spec.timeLimit", "longer than 0", id="time-00"),
    pytest.param("spec.timeLimit", "-1h", "spec.timeLimit", "4h, 1h30m or 2d", id="time-negative"),
    pytest.param("spec.timeLimit", "UNLIMITED", "spec.timeLimit", "4h, 1h30m or 2d", id="time-unlimited"),
    pytest.param("spec.timeLimit", 30, "spec.timeLimit", "must be of type string", id="time-number"),
    pytest.param("spec.topology.required", "Rack 1", "spec.topology.required", "level", id="level"),
    pytest.param("spec.topology.preferred", "", "spec.topology.preferred", "at least 1", id="empty-level"),
    pytest.param("spec.failurePolicy.maxRestarts", -1, "spec.failurePolicy.maxRestarts", "0", id="restarts"),
    pytest.param("spec.origin", "Flux", "spec.origin", "Kubernetes", id="origin"),
    pytest.param("spec.notice", 2, "spec.notice", "unknown field", id="not-yet"),
    pytest.param(
        "spec.topology.segment",
        {"size": 5, "level": "rack"},
        "spec.topology.segment.size",
        "multiple of topology.segment.size",
        id="segment-remainder",
    ),
    pytest.param(
        "spec.topology.segment", {"size": 0, "level": "rack"}, "spec.topology.segment.size", "greater", id="no-segment"
    ),
    pytest.param("metadata.name", "a.b", "metadata.name", "DNS label", id="dotted-name"),
    pytest.param("metadata.name", "a" * 64, "metadata.name", "DNS label", id="long-name"),
    pytest.param(f"{POD}.containers", [], f"{POD}.containers", "at least 1", id="no-container"),
    pytest.param(f"{POD}.containers.0.name", None, f"{POD}.containers[0].name", "Required", id="nameless"),
    pytest.param(f"{POD}.restartPolicy", "Always", f"{POD}.restartPolicy", "maxRestarts", id="restart-policy"),
    pytest.param(f"{POD}.nodeName", "n", f"{POD}.nodeName", "set by gangbridge", id="nodeName"),
    pytest.param(f"{POD}.hostname", "n", f"{POD}.hostname", "set by gangbridge", id="hostname"),
    pytest.param(f"{POD}.subdomain", "n", f"{POD}.subdomain", "set by gangbridge", id="subdomain"),
    pytest.param(f"{POD}.schedulingGates", [{"name": "a/b"}], f"{POD}.schedulingGates", "set by", id="gates"),
    pytest.param(f"{POD}.resourceClaims", [{"name": "gpus"}], f"{POD}.resourceClaims", "gang's own", id="claim"),
]


@pytest.mark.parametrize(("path", "value", "field", "words"), BAD_GANGS)
async def test_bad_gang_is_refused_by_field(
    admin: KubeClient, path: str, value: object, field: str, words: str
) -> None:
    said = await refusal(admin, changed(gangjob(), path, value))
    assert field.replace(".0.", "[0].") in said
    assert words in said


@pytest.mark.parametrize(
    "limit", ["4h", "1h30m", "2d", "90s", "30", "02:00:00", "30:00", "1-00", "1-12:30", "1-00:00:00"]
)
async def test_usual_times_are_accepted(admin: KubeClient, limit: str) -> None:
    assert not await refusal(admin, gangjob(timeLimit=limit))


@pytest.mark.parametrize("gres", ["gpu:8", "gpu:h100:8", "gpu:1g.10gb:2", "gpu:h100:32"])
async def test_usual_gres_is_accepted(admin: KubeClient, gres: str) -> None:
    assert not await refusal(admin, changed(gangjob(), f"{ROLE}.gres", gres))


async def test_any_pod_spec_is_accepted(admin: KubeClient) -> None:
    own = template(
        nodeSelector={"a": "b"}, volumes=[{"name": "v", "emptyDir": {}}], tolerations=[{"operator": "Exists"}]
    )
    assert not await refusal(admin, changed(gangjob(), f"{ROLE}.template", own))
    assert not await refusal(
        admin, changed(gangjob(), f"{POD}.resourceClaims", [{"name": "nic", "resourceClaimName": "n"}])
    )


@pytest.mark.parametrize(
    ("path", "value"),
    [
        pytest.param(f"{POD}.containers.0.image", "other", id="deep-in-the-template"),
        pytest.param("spec.timeLimit", "5h", id="time"),
        pytest.param(f"{ROLE}.replicas", 8, id="replicas"),
        pytest.param("spec.topology.required", "rack", id="added"),
        pytest.param("spec.timeLimit", None, id="removed"),
        pytest.param("spec.origin", "Slurm", id="origin"),
    ],
)
def test_spec_cannot_be_changed(real: RealApi, name: str, path: str, value: object) -> None:
    job = gangjob(name)
    assert real.kubectl("create", "-f", "-", stdin=json.dumps(job)).returncode == 0
    said = real.kubectl("replace", "-f", "-", stdin=json.dumps(changed(job, path, value))).stderr
    assert "spec" in said
    assert "cannot be changed after creation" in said or "gangbridge alone" in said


def test_metadata_can_be_changed(real: RealApi, name: str) -> None:
    job = gangjob(name)
    assert real.kubectl("create", "-f", "-", stdin=json.dumps(job)).returncode == 0
    labelled = changed(job, "metadata.labels", {"a": "b"})
    assert real.kubectl("replace", "-f", "-", stdin=json.dumps(labelled)).returncode == 0


BAD_QUEUES = [
    pytest.param("spec.fleet", None, "spec.fleet", "Required", id="fleet"),
    pytest.param("spec.namespaces", {}, "spec.namespaces", "names or selector", id="nobody"),
    pytest.param("spec.slurm.user", None, "spec.slurm.user", "Required", id="user"),
    pytest.param("spec.slurm.account", "a;b", "spec.slurm.account", "one Slurm name", id="account"),
    pytest.param("spec.slurm.partition", "a,b", "spec.slurm.partition", "one Slurm name", id="partition"),
    pytest.param("spec.slurm.qos", ["-x"], "spec.slurm.qos[0]", "one Slurm name", id="qos"),
    pytest.param("spec.limits.maxTimeLimit", "2w", "spec.limits.maxTimeLimit", "2d", id="time"),
    pytest.param("spec.limits.maxGpusPerGang", 0, "spec.limits.maxGpusPerGang", "equal to 1", id="gpus"),
    pytest.param("spec.defaults.timeLimit", "0", "spec.defaults.timeLimit", "longer than 0", id="default"),
]


@pytest.mark.parametrize(("path", "value", "field", "words"), BAD_QUEUES)
async def test_bad_queue_is_refused_by_field(
    admin: KubeClient, path: str, value: object, field: str, words: str
) -> None:
    said = await refusal(admin, changed(queue(), path, value))
    assert field in said
    assert words in said


@pytest.mark.parametrize(
    ("requirement", "is_good"),
    [
        ({"key": "team", "operator": "In", "values": ["a"]}, True),
        ({"key": "team", "operator": "Exists"}, True),
        ({"key": "team", "operator": "In"}, False),
        ({"key": "team", "operator": "Exists", "values": ["a"]}, False),
    ],
    ids=str,
)
async def test_selector_requirements(admin: KubeClient, requirement: dict[str, Any], is_good: bool) -> None:
    said = await refusal(admin, queue(namespaces={"selector": {"matchExpressions": [requirement]}}))
    assert ("namespaces.selector.matchExpressions[0].values" in said) is not is_good


BAD_FLEETS = [
    pytest.param("spec.mode", "Manage", "spec.mode", '"Share"', id="mode"),
    pytest.param("spec.mode", None, "spec.mode", "Required", id="no-mode"),
    pytest.param("spec.devices", [], "spec.devices", "at least 1", id="no-devices"),
    pytest.param("spec.devices.0.gres", "gpu:h100:8", "spec.devices[0].gres", "gpu:type", id="counted"),
    pytest.param("spec.devices.0.driver", "GPU", "spec.devices[0].driver", "DNS subdomain", id="driver"),
    pytest.param("spec.topology.levels", ["Rack"], "spec.topology.levels[0]", "DNS label", id="level"),
    pytest.param("spec.topology.levels", ["rack"], "spec.topology.sources", "only the levels", id="unknown-level"),
    pytest.param(
        "spec.topology.levels", ["spine", "rack", "nvlink"], "spec.topology.levels", "every level", id="unread-level"
    ),
    pytest.param("spec.topology.sources", None, "spec.topology.levels", "every level", id="no-source"),
]


@pytest.mark.parametrize(("path", "value", "field", "words"), BAD_FLEETS)
async def test_bad_fleet_is_refused_by_field(
    admin: KubeClient, path: str, value: object, field: str, words: str
) -> None:
    said = await refusal(admin, changed(fleet(), path, value))
    assert field in said
    assert words in said


async def test_good_queue_and_fleet_are_accepted(admin: KubeClient) -> None:
    assert not await refusal(
        admin, queue(limits={"maxTimeLimit": "2d", "maxGpusPerGang": 512}, defaults={"timeLimit": "1h"})
    )
    assert not await refusal(admin, queue(namespaces={"selector": {}}))
    assert not await refusal(admin, fleet())
    assert not await refusal(admin, fleet(topology={}))


def test_tables_are_what_people_were_promised(real: RealApi, name: str) -> None:
    job, place = gangjob(name), fleet()
    for obj in (job, queue(), place):
        assert real.kubectl("apply", "-f", "-", stdin=json.dumps(obj)).returncode == 0
    hold = {"jobId": 4711, "state": "RUNNING", "nodes": "gpu[0-1]"}
    status = {"phase": "Running", "reason": "Started", "pods": "4/4", "gpus": 8, "hold": hold}
    status |= {"placement": {"summary": "1 rack, 2 nodes"}, "startTime": "2020-01-01T00:00:00Z"}
    gpus = {"total": 32, "free": 22, "pods": 8, "sbatch": 2}
    dashboard = {"slurmVersion": "26.05.5", "nodes": "4/4", "gpus": gpus, "gangs": {"summary": "1 running"}}
    dashboard |= {"violations": 0, "lastSyncTime": "2020-01-01T00:00:00Z"}
    for kind, which, value in (("gangjob", name, status), ("fleet", "main", dashboard)):
        patch = json.dumps({"status": value})
        done = real.kubectl("patch", kind, which, "--subresource=status", "--type=merge", "-p", patch)
        assert done.returncode == 0, done.stderr
    head, *rows = real.kubectl("get", "gj").stdout.splitlines()
    assert " ".join(head.split()) == "NAME QUEUE PHASE REASON PODS GPUS PLACEMENT JOBID START AGE"
    (row,) = (row for row in rows if row.startswith(f"{name} "))
    assert row.split()[1:10] == ["gpu", "Running", "Started", "4/4", "8", "1", "rack,", "2", "nodes"]
    assert row.split()[10] == "4711"
    head, row = real.kubectl("get", "fleets").stdout.splitlines()
    assert " ".join(head.split()) == "NAME SLURM NODES GPUS-FREE PODS SBATCH GANGS VIOLATIONS SYNC AGE"
    assert row.split()[:9] == ["main", "26.05.5", "4/4", "22", "8", "2", "1", "running", "0"]
    head, row = real.kubectl("get", "gq").stdout.splitlines()
    assert " ".join(head.split()) == "NAME FLEET PARTITION ACCOUNT QOS USER AGE"
    assert row.split()[:6] == ["gpu", "main", "gpu", "physics", '["normal"]', "alice"]


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("gj.spec.timeLimit", "Slurm notation"),
        ("gj.spec.roles.gres", "sbatch --gres"),
        ("gj.spec.roles.template.spec", "dry run"),
        ("gj.status.hold.nodes", "host list"),
        ("gq.spec.slurm.user", "owns the holds"),
        ("fleet.spec.mode", "Observe"),
        ("fleet.status.gpus.free", "usable now"),
    ],
)
def test_explain_explains(real: RealApi, path: str, words: str) -> None:
    said = real.kubectl("explain", path)
    assert said.returncode == 0, said.stderr
    assert words in " ".join(said.stdout.split())
