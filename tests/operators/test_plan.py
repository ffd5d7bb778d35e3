"""``gangbridge plan``, offline through its command line and live against the fakes, beside the operator itself."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from bridge.errors import SlurmUnavailable, SpecError
from bridge.model.hostlist import expand
from operators.kube.client import KubeClient
from operators.plan import answer as answers
from operators.plan.command import plan
from operators.plan.live import live_question
from operators.plan.report import as_json, headline
from tests.builders import gang
from tests.kube.fakeapi import FakeApi
from tests.operators import objects
from tests.operators.stand import Stand, bare, job, stand

app = typer.Typer()
app.command("plan")(plan)

GANG = """\
apiVersion: gangbridge.dev/v1alpha1
kind: GangJob
metadata: {name: llm, namespace: research}
spec:
  queue: gpu
  topology: {%s}
  roles:
  - {name: worker, replicas: %d, gres: "gpu:h100:8", template: {spec: {containers: [{name: train}]}}}
"""
TREE = """\
SwitchName=rack-1 Nodes=n[1-4]
SwitchName=rack-2 Nodes=n[5-8]
SwitchName=rack-3 Nodes=n[9-12]
SwitchName=spine-1 Switches=rack-[1-2]
SwitchName=spine-2 Switches=rack-3
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a fleet of 12 nodes."""
    (tmp_path / "topology.conf").write_text(TREE)
    (tmp_path / "busy.txt").write_text("n1 drained\nn5\nn9 3\n")
    return tmp_path


def run(folder: Path, pods: int, *options: str, topology: str = "required: spine") -> Result:
    (folder / "gang.yaml").write_text(GANG % (topology, pods))
    files = ["-f", f"{folder}/gang.yaml", "--topology", f"{folder}/topology.conf", "--busy", f"{folder}/busy.txt"]
    return CliRunner().invoke(app, [*files, "--levels", "spine,rack", *options])


def test_a_gang_that_fits_is_a_table_with_its_ranks_and_quality(folder):
    found = run(folder, 4)
    assert found.exit_code == 0
    lines = found.stdout.splitlines()
    assert lines[0] == "research/llm (4 pods, 32 GPUs) would start now on 4 nodes"
    assert lines[1] == "1 spine, 2 racks (optimum 1, 2), step time x1.00"
    assert lines[2].split() == ["RANKS", "NODE", "SPINE", "RACK", "FREE", "AFTER"]
    assert [line.split()[:4] for line in lines[3:7]] == [
        ["0", "n2", "spine-1", "rack-1"],
        ["1", "n3", "spine-1", "rack-1"],
        ["2", "n4", "spine-1", "rack-1"],
        ["3", "n6", "spine-1", "rack-2"],
    ]
    assert lines[3].split()[4:] == ["8", "of", "8", "0"]
    assert lines[7].startswith("free before: 9 of 12 nodes whole, 1 partly used; most in one: spine 6, rack 3")
    assert lines[8].startswith("free after:  5 of 12 nodes whole, 1 partly used")


def test_the_same_as_json(folder):
    found = json.loads(run(folder, 4, "-o", "json").stdout)
    assert (found["gang"], found["result"], found["pods"], found["gpus"]) == ("research/llm", "Placed", 4, 32)
    assert found["nodes"][0] == {
        "node": "n2",
        "ranks": [0],
        "domains": {"spine": "spine-1", "rack": "spine-1/rack-1"},
        "freeBefore": 8,
        "freeAfter": 0,
    }
    assert found["quality"]["domains"] == found["quality"]["optimum"] == {"spine": 1, "rack": 2}
    assert found["quality"]["boundaries"] == {"spine": 0, "rack": 2}
    assert found["fragmentation"]["before"]["segmentsLost"]["2"] == 1
    assert found["fragmentation"]["after"]["wholeNodes"] == 5


def test_a_gang_that_does_not_fit_is_told_why_and_where_it_comes_nearest(folder):
    found = run(folder, 7)
    assert found.exit_code == 1
    assert found.stdout.splitlines()[0] == "research/llm (7 pods, 56 GPUs) does not fit (NoDomainFits)"
    assert "spine-1 has most: 6" in found.stdout
    assert "1 drained" in found.stdout
    as_values = json.loads(run(folder, 7, "-o", "json").stdout)
    assert (as_values["result"], as_values["reason"]) == ("Unplaceable", "NoDomainFits")
    assert "nodes" not in as_values


def test_a_refusal_is_the_operators_own(folder):
    found = run(folder, 4, topology="required: row")
    assert found.exit_code == 1
    assert "UnknownLevel" in found.stdout
    assert "has no level 'row' (levels: spine, rack)" in found.stdout
    assert "2 partly" not in found.stdout


def test_what_every_node_has_is_the_users_to_say(folder):
    assert "TooManyGpus" in run(folder, 1, "--gpus-per-node", "4").stdout
    assert "UnknownGres" in run(folder, 1, "--gpu-type", "a100").stdout
    assert run(folder, 1, "--cpus", "1").exit_code == 0


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--memory", "plenty"], "--memory: "),
        (["--topology-name", "gpu"], "--topology-name gpu"),
        (["--svg", "/nowhere/at/all.svg"], "/nowhere/at/all.svg: No such file or directory"),
        (["--busy", "gone.txt"], "gone.txt: No such file or directory"),
        (["--gpus-per-node", "0"], "--gpus-per-node"),
    ],
)
def test_bad_input_is_status_two_and_nothing_on_standard_output(folder, options, says):
    found = run(folder, 4, *options)
    assert found.exit_code == 2
    assert says in found.stderr
    assert not found.stdout


def test_levels_are_hinted_at_when_the_topology_has_other_names(folder):
    (folder / "gang.yaml").write_text(GANG % ("required: spine", 4))
    options = ["-f", f"{folder}/gang.yaml", "--topology", f"{folder}/topology.conf"]
    found = CliRunner().invoke(app, options)
    assert (found.exit_code, "--levels spine,rack" in found.stderr) == (1, True)


def test_what_is_wrong_with_the_topology_is_told_beside_the_answer(folder):
    (folder / "topology.conf").write_text(f"{TREE}SwitchName=spine-3 Switches=rack-9\n")
    assert f"note: {folder}/topology.conf: " in run(folder, 4).stdout


def test_busy_without_topology_is_refused(folder):
    run(folder, 4)
    found = CliRunner().invoke(app, ["-f", f"{folder}/gang.yaml", "--busy", f"{folder}/busy.txt"])
    assert (found.exit_code, "--busy needs --topology" in found.stderr) == (2, True)


def test_a_cluster_that_cannot_be_reached_is_status_two(folder):
    run(folder, 4)
    found = CliRunner().invoke(app, ["-f", f"{folder}/gang.yaml", "--kubeconfig", f"{folder}/gone", "--adapter", "Cli"])
    assert (found.exit_code, found.stderr.startswith("gangbridge plan: kubeconfig: ")) == (2, True)


# The live fleet


async def ask(at: Stand, **changes: object) -> answers.Answer:
    """Ask about a gang of the live fleet, and see to it that nothing at all is written for that."""
    before, calls, version = at.writes(), list(at.slurm.calls), at.api.store.version
    already = len(at.api.requests)
    found = answers.answer(await live_question(gang(**changes), at.client, at.slurm))
    asked = [said for said in at.api.requests[already:] if not said.startswith("WATCH ")]
    assert {said.partition(" ")[0] for said in asked} == {"GET"}
    assert (at.writes(), at.slurm.calls, at.api.store.version) == (before, calls, version)
    return found


async def test_the_live_plan_is_where_the_operator_then_puts_the_gang():
    async with stand("n1", "n2", "n3", "n4") as at:
        await at.settle()
        at.slurm.sbatch(gpus=8, pin=["n2"])
        found = await ask(at, replicas=3)
        assert found.result is answers.Result.PLACED
        at.put("gangjobs", job(replicas=3))
        await at.settle()
        assert found.placed
        assert list(expand(at.status()["hold"]["nodes"])) == list(found.placed.nodes) == ["n1", "n3", "n4"]


async def test_a_gang_that_has_to_wait_is_told_until_when():
    async with stand("n1", "n2") as at:
        await at.settle()
        at.slurm.sbatch(gpus=8, pin=["n2"], time_limit_min=60)
        found = await ask(at, replicas=2)
        assert found.result is answers.Result.LATER
        assert found.free_at == pytest.approx(at.slurm.now + 3600, abs=5)
        assert "would wait (InsufficientDevices) and start at 20" in headline(found)
        assert as_json(found)["nodes"][1]["node"] == "n2"
        assert "freeAfter" not in as_json(found)["nodes"][1]


async def test_live_refusals_and_shortages_name_what_the_operator_would():
    async with stand("n1", "n2") as at:
        await at.settle()
        refused = await ask(at, queue="other")
        assert (refused.result, refused.reason) == (answers.Result.REFUSED, "UnknownQueue")
        assert refused.message == "spec.queue: there is no GangQueue 'other' (known: gpu)"
        outside = await ask(at, namespace="elsewhere")
        assert outside.reason == "NamespaceNotAllowed"
        at.slurm.set_node("n2", "DRAIN")
        short = await ask(at, replicas=2)
        assert (short.result, short.reason) == (answers.Result.UNPLACEABLE, "InsufficientDevices")
        assert "1 drained" in short.message
        assert short.nodes["n2"].closed == "drained"


async def test_the_link_model_of_the_fleet_is_used():
    async with stand("n1") as at:
        at.api.objects["fleets", "", "main"]["spec"]["topology"]["linkModel"] = {"nicGBps": 100}
        question = await live_question(gang(), at.client, at.slurm)
        assert question.model.nic == 100


async def test_a_queue_that_cannot_be_read_is_told():
    async with stand("n1") as at:
        broken = objects.gangqueue(defaults={"timeLimit": "soon"})
        at.put("gangqueues", bare(broken) | {"metadata": {"name": "broken"}})
        question = await live_question(gang(), at.client, at.slurm)
        assert question.problems[0].startswith("GangQueue broken is ignored: spec.defaults.timeLimit")


async def test_no_fleet_and_no_slurmctld_are_errors():
    async with stand("n1") as at:
        at.slurm.down = True
        with pytest.raises(SlurmUnavailable):
            await live_question(gang(), at.client, at.slurm)
        at.slurm.down = False
        async with FakeApi() as empty, KubeClient(empty.connection(), deadline_s=5) as client:
            with pytest.raises(SpecError, match="Fleet: there is none in this cluster"):
                await live_question(gang(), client, at.slurm)
