"""``gangbridge audit`` as a person or a CI job runs it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest
from click.testing import Result
from typer.testing import CliRunner

from operators.cli import app
from tests.auditor.servers import Servers, served
from tests.auditor.world import HOLD, World


@pytest.fixture
def servers(tmp_path) -> Iterator[Servers]:
    with served(World(), tmp_path) as servers:
        yield servers


def run(servers: Servers, *args: str) -> Result:
    return CliRunner().invoke(app, ["audit", *options(servers), *args])


def options(servers: Servers) -> list[str]:
    return ["--kubeconfig", str(servers.kubeconfig), "--slurm-exec", servers.slurm_exec, "--pause", "0"]


def test_a_clean_fleet_ends_with_0_and_says_what_was_looked_at(servers):
    done = run(servers)
    assert done.exit_code == 0
    first, second = done.stdout.splitlines()
    assert first == "clean: I1-I8 hold"
    assert second.startswith("read 2 jobs, 2 slurmNodes, 2 nodes, 16 devices, 3 claims, 2 pods, 1 gangs, 1 mirrors in ")


def test_violations_end_with_1_and_are_blocks_with_both_sides_evidence(servers):
    servers.world.nodes["gpu0"]["extra"] = ""
    servers.refresh()
    done = run(servers)
    assert done.exit_code == 1
    assert done.stdout.splitlines()[:5] == [
        "I5  node gpu0, hold 100",
        "    pods of hold 100 may run on gpu0, whose Extra does not guard it",
        "    Slurm       node gpu0, MIXED",
        "                job 100 of alice, RUNNING, hold of research/llm attempt 1, on gpu0 (IDX 0-1)",
        "    Kubernetes  pod research/llm-1-1, Running on k8s-gpu0",
    ]
    assert done.stdout.splitlines()[5] == "1 violation: I5 1"


def test_json_has_everything_that_the_blocks_have(servers):
    servers.world.jobs.pop(HOLD)
    servers.refresh()
    done = run(servers, "--output", "json")
    assert done.exit_code == 1
    value = json.loads(done.stdout)
    assert value["clean"] is False
    assert value["read"]["jobs"] == 1
    assert [each["invariant"] for each in value["violations"]] == ["I2", "I2", "I5", "I5"]
    assert value["violations"][0] == {
        "invariant": "I2",
        "subject": "claim research/llm-1-0-gpu",
        "sentence": "claim research/llm-1-0-gpu has ext0 index 0-1, which no hold of its gang's attempt 1 holds",
        "slurm": ["no job of gang uid-llm attempt 1", "node ext0, EXTERNAL+MIXED"],
        "kubernetes": ["claim research/llm-1-0-gpu: gpu-0, gpu-1 of k8s-ext0, reserved for pods/llm-1-0"],
    }


def test_notes_are_printed_and_change_no_exit_status(servers):
    servers.world.nodes["ext0"] |= {"reason": "gangbridge: x", "reason_set_by_user": "mallory"}
    servers.refresh()
    done = run(servers)
    assert done.exit_code == 0
    assert done.stdout.startswith('note: node ext0: the reason "gangbridge: x" looks like ours, but mallory set it\n')
    assert json.loads(run(servers, "-o", "json").stdout)["notes"] == [
        done.stdout.splitlines()[0].removeprefix("note: ")
    ]


@pytest.mark.parametrize("server", ["Slurm", "Kubernetes"])
def test_a_server_that_cannot_be_read_ends_with_2_and_is_named(servers, server):
    if server == "Slurm":
        (servers.folder / "squeue").unlink()
    else:
        servers.refuse = ("gangjobs", 404)
    done = run(servers, "-o", "json")
    assert done.exit_code == 2
    value = json.loads(done.stdout)
    assert (value["clean"], value["error"]["server"]) == (None, server)
    assert done.stderr.startswith(f"gangbridge audit: {server} could not be read: ")


def test_watch_goes_on_until_it_is_interrupted_and_ends_with_the_last_word(servers):
    command = [sys.executable, "-c", "from operators.cli import app; app()", "audit", *options(servers)]
    with subprocess.Popen([*command, "--watch", "0.1"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = iter(process.stdout)
        assert next(said) == "clean: I1-I8 hold\n"
        servers.world.nodes["gpu0"]["extra"] = ""
        servers.refresh()
        assert "1 violation: I5 1\n" in said
        process.send_signal(signal.SIGINT)
    assert process.returncode == 1
