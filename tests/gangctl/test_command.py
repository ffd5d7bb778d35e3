"""``kubectl gang`` through its command line, against the fake API server over HTTP."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from bridge import wellknown
from bridge.model.fence import Fence
from operators.gangctl.command import app
from tests.gangctl.world import everything, gang_pod, node
from tests.kube.fakeapi import FakeApi


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[FakeApi]:
    """A server with the small fleet on it, and a kubeconfig for it."""
    async with FakeApi() as server:
        fill(server)
        yield server


def fill(server: FakeApi, **changes) -> None:
    """Store the small fleet under the uids that its objects name each other by."""
    objects = everything(**changes)
    kinds = {
        "nodes": objects.nodes,
        "resourceslices": objects.slices,
        "resourceclaims": objects.claims,
        "gangjobs": objects.gangjobs,
        "pods": objects.pods,
        "fleets": objects.fleets,
    }
    for plural, items in kinds.items():
        for obj in items:
            key = (plural, obj["metadata"].get("namespace", ""), obj["metadata"]["name"])
            server.objects[key] = obj | {"metadata": {"resourceVersion": "1"} | obj["metadata"]}


def kubeconfig(url: str, folder: Path) -> Path:
    path = folder / "config"
    contexts = [
        {"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "bio"}},
        {"name": "nowhere", "context": {"cluster": "dead", "user": "u"}},
    ]
    clusters = [
        {"name": "c", "cluster": {"server": url}},
        {"name": "dead", "cluster": {"server": "http://127.0.0.1:9"}},
    ]
    users = [{"name": "u", "user": {}}]
    text = {"current-context": "here", "contexts": contexts, "clusters": clusters, "users": users}
    path.write_text(json.dumps(text))
    return path


async def run(api: FakeApi, folder: Path, *args: str, stdin: str = "") -> Result:
    environment = {"KUBECONFIG": str(kubeconfig(api.url, folder))}
    return await asyncio.to_thread(CliRunner().invoke, app, list(args), input=stdin, env=environment)


def rows(found: Result) -> list[list[str]]:
    return [line.split() for line in found.stdout.splitlines()]


async def test_who_prints_a_line_per_device(api, tmp_path):
    found = await run(api, tmp_path, "who", "gpu0")
    assert found.exit_code == 0, found.output
    header, *lines = rows(found)
    assert header == ["NODE", "INDEX", "DEVICE", "WORLD", "OWNER", "RANK", "JOB", "USER", "SINCE", "LEFT", "NOTE"]
    assert [line[:8] for line in lines] == [
        ["k8s-gpu-0", "0", "gpu-0", "pods", "research/llm", "0", "4711", "alice"],
        ["k8s-gpu-0", "1", "gpu-1", "pods", "research/llm", "1", "4711", "alice"],
        ["k8s-gpu-0", "2", "gpu-2", "free", "-", "-", "-", "-"],
        ["k8s-gpu-0", "3", "gpu-3", "sbatch", "bert", "-", "20", "bob"],
    ]
    assert {len(line) for line in lines} == {11}
    assert found.stderr == ""


async def test_who_folds_by_owner_and_widens(api, tmp_path):
    found = await run(api, tmp_path, "who", "k8s-gpu-0", "gpu0:1", "gpu1", "--by-owner")
    assert [line[:6] for line in rows(found)[1:]] == [
        ["k8s-gpu-0", "0-1", "gpu-[0-1]", "pods", "research/llm", "0-1"],
        ["k8s-gpu-0", "2", "gpu-2", "free", "-", "-"],
        ["k8s-gpu-0", "3", "gpu-3", "sbatch", "bert", "-"],
        ["k8s-gpu-1", "0-3", "gpu-[0-3]", "free", "-", "-"],
    ]
    wide = rows(await run(api, tmp_path, "who", "gpu0:3", "-o", "wide"))
    assert dict(zip(wide[0], wide[1], strict=True)) | {"SINCE": "", "LEFT": ""} == {
        "NODE": "k8s-gpu-0", "INDEX": "3", "DEVICE": "gpu-3", "WORLD": "sbatch", "OWNER": "bert", "RANK": "-",
        "JOB": "20", "USER": "bob", "SINCE": "", "LEFT": "", "FROM": "1970-01-12T13:36:40Z",
        "UNTIL": "1970-01-12T14:46:40Z", "SLURM": "gpu0", "POOL": "k8s-gpu-0", "DRIVER": wellknown.DRIVER, "UUID": "-",
        "CLAIM": api.of("resourceclaims", "gangbridge-mirror")[0]["metadata"]["namespace"] + "/"
        + api.of("resourceclaims", "gangbridge-mirror")[0]["metadata"]["name"],
        "POD": "-", "ACCOUNT": "bio", "PARTITION": "gpu", "NOTE": "-",
    }  # fmt: skip


async def test_who_as_json_has_every_field(api, tmp_path):
    found = json.loads((await run(api, tmp_path, "who", "gpu0/gpu-1", "-o", "json")).stdout)
    assert found == {
        "devices": [
            {
                "node": "k8s-gpu-0",
                "slurmNode": "gpu0",
                "driver": wellknown.DRIVER,
                "pool": "k8s-gpu-0",
                "device": "gpu-1",
                "index": 1,
                "uuid": None,
                "world": "pods",
                "owner": {
                    "namespace": "research",
                    "name": "llm",
                    "rank": 1,
                    "jobId": 4711,
                    "user": "alice",
                    "account": "physics",
                    "partition": "gpu",
                    "pod": "llm-1",
                    "claim": "research/llm-1-gpu",
                },
                "since": "1970-01-12T13:36:40Z",
                "until": "1970-01-12T14:46:40Z",
                "reason": None,
            }
        ],
        "notes": [],
    }


async def test_an_unknown_name_fails_beside_the_answers_to_the_others(api, tmp_path):
    found = await run(api, tmp_path, "who", "gpu0:0", "gpu7")
    assert found.exit_code == 1
    assert len(rows(found)) == 2
    assert found.stderr == 'error: there is no node, device or uuid "gpu7"; did you mean gpu1 or gpu0?\n'


async def test_nodes_prints_a_line_per_node(api, tmp_path):
    found = await run(api, tmp_path, "nodes")
    assert found.exit_code == 0, found.output
    assert rows(found) == [
        ["NODE", "SLURM", "STATE", "FREE", "PODS", "SBATCH", "OUT", "GPUS", "SPINE", "RACK", "GANGS", "JOBS", "REASON"],
        ["k8s-gpu-0", "gpu0", "usable", "1", "2", "1", "0", "4", "s1", "r1", "research/llm", "20", "-"],
        ["k8s-gpu-1", "gpu1", "usable", "4", "0", "0", "0", "4", "s1", "r1", "-", "-", "-"],
    ]
    one = await run(api, tmp_path, "nodes", "gpu0", "gpu5", "-o", "wide")
    assert (one.exit_code, len(rows(one)), rows(one)[1][-2]) == (1, 2, "20(bert)")
    assert 'there is no node "gpu5"; did you mean gpu1 or gpu0?' in one.stderr


async def test_nodes_as_json(api, tmp_path):
    first, _ = json.loads((await run(api, tmp_path, "nodes", "-o", "json")).stdout)["nodes"]
    gpus = {"pods": 2, "sbatch": 1, "free": 1, "quarantined": 0, "out-of-service": 0, "unknown": 0, "total": 4}
    assert first == {
        "node": "k8s-gpu-0",
        "slurmNode": "gpu0",
        "state": "usable",
        "reason": None,
        "gpus": gpus,
        "domains": {"spine": "s1", "rack": "r1"},
        "gangs": ["research/llm"],
        "jobs": [{"jobId": 20, "name": "bert"}],
    }


async def test_a_tenant_gets_what_he_may_read_and_is_told_what_is_missing(api, tmp_path):
    for plural in ("resourceclaims", "pods", "gangjobs"):
        api.fail(match=f"GET {plural}", status=403)  # the list of all namespaces; single ones are allowed
    found = await run(api, tmp_path, "who", "gpu0", "-n", "research")
    assert found.exit_code == 0
    assert [line[3] for line in rows(found)[1:]] == ["pods", "pods", "unknown", "sbatch"]
    assert found.stderr.count("note:") == 1
    assert "you may not read resourceclaims outside of gangbridge-mirror, research" in found.stderr
    api.fail(match="GET resourceclaims", status=403)
    other = await run(api, tmp_path, "nodes", "gpu0")  # the context's namespace is another one
    assert rows(other)[1][3:7] == ["?", "0", "1", "0"]


async def test_a_claim_that_is_freed_while_the_lists_are_read_is_not_quarantined(api, tmp_path):
    """The pod list is newer than that of the claims, so a gang that has just ended looks as if it had lost its pods."""
    del api.objects["pods", "research", "llm-1"]
    stale = api.objects["resourceclaims", "research", "llm-1-gpu"]

    listed = api.of
    asked = []

    def of(plural, namespace=None):
        asked.append(plural)
        if plural == "resourceclaims" and asked.count(plural) > 1:
            api.objects.pop(("resourceclaims", "research", "llm-1-gpu"), None)
        return listed(plural, namespace)

    api.of = of
    found = await run(api, tmp_path, "who", "gpu0:1")
    assert stale["status"]["allocation"]
    assert rows(found)[1][3] == "free"


async def test_a_quarantined_device_says_why(api, tmp_path):
    del api.objects["pods", "research", "llm-1"]
    found = await run(api, tmp_path, "who", "gpu0:1")
    assert "quarantined" in found.stdout
    assert found.stdout.rstrip().endswith("pod llm-1 is gone and cannot be proven stopped")


async def test_no_answer_is_an_error_and_no_empty_table(api, tmp_path):
    found = await run(api, tmp_path, "nodes", "--context", "nowhere")
    assert (found.exit_code, found.stdout) == (1, "")
    assert found.stderr.startswith("error: ")
    api.fail(match="GET nodes", status=500)
    assert (await run(api, tmp_path, "who", "gpu0")).exit_code == 1


async def test_a_cluster_without_gangbridge_says_so(api, tmp_path):
    api.objects.clear()
    found = await run(api, tmp_path, "nodes")
    assert found.exit_code == 0
    assert found.stdout == ""
    assert "there is no Fleet" in found.stderr
    assert "no node has the label gangbridge.dev/slurm-node" in found.stderr


def annotation(api: FakeApi, name: str = "k8s-gpu-0") -> str | None:
    return (api.objects["nodes", "", name]["metadata"].get("annotations") or {}).get(wellknown.FENCED)


async def test_a_fence_is_written_once_the_nodes_name_was_typed(api, tmp_path):
    del api.objects["pods", "research", "llm-1"]
    before = int(time.time())
    found = await run(api, tmp_path, "fence", "gpu0", "--reason", " psu dead ", stdin="k8s-gpu-0\n")
    assert found.exit_code == 0, found.output
    assert "quarantined, will be freed:\n  research/llm: claim research/llm-1-gpu, pod llm-1, gpu-1\n" in found.stdout
    assert "counts as running there:\n  research/llm: claim research/llm-0-gpu, pod llm-0, gpu-0\n" in found.stdout
    assert "warning: k8s-gpu-0 is Ready" in found.stdout
    assert found.stdout.endswith("node/k8s-gpu-0 fenced\n")
    fence = Fence.loads(annotation(api))
    assert fence is not None
    assert fence.reason == "psu dead"
    assert before <= fence.at <= time.time()
    shown = rows(await run(api, tmp_path, "nodes", "gpu0"))[1]
    assert shown[2:7] == ["fenced", "0", "1", "1", "2"]


@pytest.mark.parametrize(
    ("args", "stdin", "status", "says"),
    [
        pytest.param(["gpu0", "--reason", "x"], "gpu0\n", 1, "nothing was written", id="another name typed"),
        pytest.param(["gpu0", "--reason", "x"], "", 1, "Aborted", id="nobody there"),
        pytest.param(["gpu0"], "", 2, "--reason", id="no reason"),
        pytest.param(["gpu0", "--reason", "  ", "--yes"], "", 2, "1 to 256 characters", id="blank reason"),
        pytest.param(["gpu9", "--reason", "x", "--yes"], "", 1, "did you mean", id="unknown node"),
        pytest.param(["other", "--reason", "x", "--yes"], "", 1, "other is not managed", id="unmanaged node"),
    ],
)
async def test_no_fence_is_written(api, tmp_path, args, stdin, status, says):
    fill(api, nodes=[*everything().nodes, node("other", "")])
    found = await run(api, tmp_path, "fence", *args, stdin=stdin)
    assert found.exit_code == status
    assert says in found.output
    assert not any(request.startswith("PATCH") for request in api.requests)


async def test_a_fence_is_for_this_node_object_and_no_other_of_its_name(api, tmp_path):
    api.fail(match="POST selfsubjectreviews", status=403)
    assert (await run(api, tmp_path, "fence", "gpu0", "--reason", "x", "--yes")).exit_code == 1
    assert annotation(api) is None

    def replaced() -> None:
        api.objects["nodes", "", "k8s-gpu-0"]["metadata"]["uid"] = "uid-of-another"

    create = api.store.create
    api.store.create = lambda *args, **keys: (replaced(), create(*args, **keys))[1]
    found = await run(api, tmp_path, "fence", "gpu0", "--reason", "x", "--yes")
    assert (found.exit_code, annotation(api)) == (1, None)
    assert "409" in found.stderr


async def test_a_fence_is_taken_back(api, tmp_path):
    api.objects["nodes", "", "k8s-gpu-0"]["metadata"]["annotations"] = {wellknown.FENCED: "by hand", "other": "kept"}
    again = await run(api, tmp_path, "fence", "gpu0", "--reason", "x", stdin="\n")
    assert "It is fenced already: by hand" in again.stdout
    found = await run(api, tmp_path, "unfence", "k8s-gpu-0")
    assert (found.exit_code, found.stdout) == (0, "node/k8s-gpu-0 unfenced\n")
    assert api.objects["nodes", "", "k8s-gpu-0"]["metadata"]["annotations"] == {"other": "kept"}
    assert (await run(api, tmp_path, "unfence", "k8s-gpu-0")).stdout == "node/k8s-gpu-0 was not fenced\n"


async def test_without_arguments_it_explains_itself(api, tmp_path):
    assert "fence" in (await run(api, tmp_path)).output
    assert (await run(api, tmp_path, "who")).exit_code == 2


def test_the_pods_of_the_world_are_those_that_its_claims_are_reserved_for():
    """What the tests above take away is otherwise there."""
    assert gang_pod(1)["metadata"]["uid"] == everything().claims[1]["status"]["reservedFor"][0]["uid"]
