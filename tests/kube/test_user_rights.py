"""What users get to see of the ledger on a real API server, with the roles that are shipped; and who may fence."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from bridge import wellknown
from bridge.model.fence import Fence
from operators.gangctl.command import app
from operators.kube.claims import allocated, build_mirror_claim, mirror_consumer
from operators.kube.client import KubeClient
from operators.kube.mirrors import build_mirror_job
from operators.kube.resources import GANGJOBS, NODES, RESOURCECLAIMS, RESOURCESLICES
from tests.builders import NOW, device, job
from tests.gangctl.world import gang_claim, slices
from tests.kube.builders import gangjob
from tests.kube.realapi import RealApi

NODE, SLURM = "rights-0", "gpu7"


async def _occupy(api: RealApi) -> None:
    """A node with four devices: a gang's in namespace default, an sbatch job's, and two that nobody has."""
    async with KubeClient(api.connection("admin")) as admin, KubeClient(api.connection("operator")) as operator:
        meta = {"name": NODE, "labels": {wellknown.SLURM_NODE: SLURM}}
        ready = {"conditions": [{"type": "Ready", "status": "True"}]}
        await admin.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": meta, "status": ready})
        for each in slices(NODE, SLURM):
            each["metadata"].pop("uid")
            await operator.create(RESOURCESLICES, each)
        owner = await admin.create(GANGJOBS, gangjob("rights"))
        hold = {"jobId": 4711, "state": "RUNNING", "user": "alice"}
        status = {"status": {"phase": "Running", "hold": hold, "attempt": 1}}
        await operator.patch(GANGJOBS, "rights", status, namespace="default", subresource="status")
        claim = gang_claim(0, NODE, [0], owner="rights", namespace="default")
        claim["metadata"]["labels"][wellknown.GANG_UID] = owner["metadata"]["uid"]
        await _allocate(operator, claim)
        seen = job(7001, name="bert", on={SLURM: [1]})
        mirror = await operator.create(GANGJOBS, build_mirror_job(seen, "digest"))
        shown = {"status": {"hold": {"jobId": 7001, "state": "RUNNING", "user": "bob", "name": "bert"}}}
        await operator.patch(
            GANGJOBS, mirror["metadata"]["name"], shown, namespace=wellknown.MIRROR_NAMESPACE, subresource="status"
        )
        bare = build_mirror_claim("slurm-7001-x-0", job_id=7001, device_class=wellknown.DRIVER, count=1)
        consumer = mirror_consumer(mirror["metadata"]["name"], mirror["metadata"]["uid"])
        await _allocate(operator, allocated(bare, devices=[device(NODE, 1)], node=NODE, consumer=consumer, now=NOW))


async def _allocate(operator: KubeClient, full: dict) -> None:
    full["metadata"].pop("uid", None)
    stored = await operator.create(RESOURCECLAIMS, {key: value for key, value in full.items() if key != "status"})
    await operator.replace_status(RESOURCECLAIMS, stored | {"status": full["status"]})


@pytest.fixture(scope="module")
def occupied(real: RealApi) -> RealApi:
    asyncio.run(_occupy(real))
    return real


def ask(api: RealApi, folder: Path, user: str, *args: str) -> Result:
    path = folder / "config"
    path.write_text(json.dumps(api._kubeconfig(user)))
    return CliRunner().invoke(app, list(args), env={"KUBECONFIG": str(path)})


def bind(api: RealApi, role: str, user: str, namespace: str = "") -> None:
    where = ("rolebinding", "-n", namespace, "--role") if namespace else ("clusterrolebinding", "--clusterrole")
    done = api.kubectl("create", *where[:-1], f"{role}-{user}", f"{where[-1]}={role}", f"--user={user}")
    assert done.returncode == 0, done.stderr


def worlds(found: Result) -> list[tuple[str, str | None, str | None]]:
    devices = json.loads(found.stdout)["devices"]
    return [
        (each["world"], each["owner"] and each["owner"]["name"], each["owner"] and each["owner"]["user"])
        for each in devices
    ]


def test_what_a_tenant_sees_grows_with_his_roles(occupied, tmp_path):
    who = ("who", f"{NODE}:0", f"{NODE}:1", f"{NODE}:2", "-o", "json")
    assert "there is no node" in ask(occupied, tmp_path, "bob", *who).stderr

    bind(occupied, "gangbridge-fleet-view", "bob")
    found = ask(occupied, tmp_path, "bob", *who)
    assert worlds(found) == [("pods", "rights", None), ("sbatch", "job 7001", None), ("free", None, None)]
    notes = [note.split(":")[0] for note in json.loads(found.stdout)["notes"]]
    # Whether there is a Fleet is other tests' business: they share the server.
    assert [note for note in notes if "Fleet" not in note] == [
        "you may not read pods in default",
        "you may not read gangjobs in default, gangbridge-mirror",
    ]

    bind(occupied, "gangbridge-mirror-view", "bob", wellknown.MIRROR_NAMESPACE)
    found = ask(occupied, tmp_path, "bob", *who)
    assert worlds(found) == [("pods", "rights", None), ("sbatch", "bert", "bob"), ("free", None, None)]

    refused = ask(occupied, tmp_path, "bob", "fence", NODE, "--reason", "psu dead", "--yes")
    assert refused.exit_code == 1
    assert 'cannot patch resource "nodes"' in refused.stderr


def test_who_may_fence_is_named_in_the_fence(occupied, tmp_path):
    bind(occupied, "gangbridge-fence", "carol")
    found = ask(occupied, tmp_path, "carol", "fence", SLURM, "--reason", "psu dead", "--yes")
    assert found.exit_code == 0, found.output
    assert "will be freed:\n  default/rights: claim default/rights-0-gpu, pod rights-0, gpu-0" in found.stdout
    stored = json.loads(occupied.kubectl("get", "node", NODE, "-o", "json").stdout)
    fence = Fence.loads(stored["metadata"]["annotations"][wellknown.FENCED])
    assert fence is not None
    assert (fence.by, fence.reason) == ("carol", "psu dead")
    assert fence.at > 0
    (row,) = json.loads(ask(occupied, tmp_path, "carol", "nodes", SLURM, "-o", "json").stdout)["nodes"]
    assert (row["state"], row["gpus"]["quarantined"], row["gpus"]["out-of-service"]) == ("fenced", 1, 2)
    assert ask(occupied, tmp_path, "carol", "unfence", SLURM).stdout == f"node/{NODE} unfenced\n"
    assert ask(occupied, tmp_path, "carol", "unfence", SLURM).stdout == f"node/{NODE} was not fenced\n"
