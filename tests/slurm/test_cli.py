"""The command line adapter, against recorded outputs and texts seen on a real 26.05 controller."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from bridge.errors import SlurmRejected, SlurmUnavailable
from bridge.model.gres import GresRequest
from bridge.model.hold import ExitStatus, GangKey, HoldRequest, Marker
from bridge.slurm.cli import CliPort, _environment
from bridge.slurm.client import Deadlines

STUB = Path(__file__).parent / "stub_cli.py"

HOLD = HoldRequest(
    marker=Marker(key=GangKey(uid="u", attempt=1), namespace="ns", name="g"),
    name="g-1",
    partition="gpu",
    account="physics",
    qos="normal",
    user="alice",
    nodes=("n2", "n1"),
    gres_per_node=(GresRequest(name="gpu", type="h100", count=2),),
    tasks_per_node=2,
    cpus_per_task=3,
    memory_mib_per_node=0,
    time_limit_min=10,
)

Log = Callable[[], list[str]]


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Log:
    """Return the commands that were run."""
    file = tmp_path / "log"
    monkeypatch.setenv("STUB_LOG", str(file))
    return lambda: file.read_text().splitlines()


def port(scenario: str) -> CliPort:
    return CliPort([sys.executable, str(STUB), scenario], deadlines=Deadlines(read=10.0, write=3.0))


async def test_info() -> None:
    info = await port("well").info()
    assert (info.version, info.cluster, info.adapter) == ("26.05.5", "test", "cli")
    assert not info.exact_exit_status


async def test_a_view_is_read() -> None:
    view = await port("well").view()
    assert len(view.jobs) == 14
    assert view.nodes["n1"].partitions == {"main"}
    assert view.taken_at == 1796056999  # last_update of the jobs


async def test_node_writes_are_one_command_each(log: Log) -> None:
    cli = port("well")
    await cli.set_extra(["n2", "n1"], "gangbridge:6")
    await cli.set_extra(["n2"], "")
    await cli.drain(["n1", "n3"], "gangbridge: x")  # n3 is drained: "k8s: cordon test"
    await cli.resume(["n1", "n3"], "k8s: cordon test")
    await cli.resume(["n1", "n3"], "gangbridge: x")
    assert [line for line in log() if line.startswith("scontrol update")] == [
        "scontrol update NodeName=n[1-2] Extra=gangbridge:6",
        "scontrol update NodeName=n2 Extra=",
        "scontrol update NodeName=n1 State=DRAIN Reason=gangbridge: x",
        "scontrol update NodeName=n3 State=UNDRAIN",
    ]


async def test_nodes_that_slurmctld_does_not_know_are_named() -> None:
    for call in (port("well").set_extra(["n1", "no-such-node"], "x"), port("well").drain(["n1", "no-such-node"], "x")):
        with pytest.raises(SlurmRejected, match=r"Invalid node name specified: no-such-node$"):
            await call


async def test_nodes_that_cannot_be_read_are_not_written(log: Log) -> None:
    with pytest.raises(SlurmUnavailable, match="unreadable"):
        await port("odd").drain(["n1"], "gangbridge: x")
    assert not any(line.startswith("scontrol update") for line in log())


async def test_a_hold_that_runs_at_once(log: Log) -> None:
    assert await port("well").allocate(HOLD) == 16
    identity, submit, seal = log()
    assert identity == "id -g alice"
    assert submit == (
        "setpriv --reuid=alice --regid=1001 --init-groups -- env --chdir=/ salloc --no-shell --job-name=g-1 "
        "--account=physics --partition=gpu --qos=normal --nodelist=n[1-2] --nodes=2 --ntasks=4 --ntasks-per-node=2 "
        "--cpus-per-task=3 --gres=gpu:h100:2 --time=10 --comment=" + HOLD.marker.dumps()
    )
    assert seal == f"scontrol update JobId=16 AdminComment={HOLD.marker.dumps()}"


async def test_a_hold_that_waits_is_left_in_the_queue() -> None:
    began = time.monotonic()
    assert await port("pending").allocate(HOLD) == 17
    assert time.monotonic() - began < 30
    left = [p for p in psutil.process_iter(["cmdline"]) if str(STUB) in (p.info["cmdline"] or ())]
    assert left == []


async def test_memory_is_asked_for_only_when_given(log: Log) -> None:
    await port("well").allocate(replace(HOLD, memory_mib_per_node=2000, gres_per_node=()))
    submit = log()[1]
    assert "--mem=2000M" in submit
    assert "--gres" not in submit


async def test_an_external_hold_goes_through_sbatch(log: Log) -> None:
    cli = CliPort([sys.executable, str(STUB), "well"], as_user=())
    assert await cli.allocate(replace(HOLD, external=True)) == 18
    assert log()[0].startswith("env --chdir=/ sbatch --external --parsable --job-name=g-1")


@pytest.mark.parametrize(
    ("scenario", "kind", "words"),
    [
        ("refused", SlurmRejected, "Invalid partition name specified"),
        ("down", SlurmUnavailable, "Unable to contact slurm controller"),
        ("hang", SlurmUnavailable, "no answer within 3.0 s"),
        ("broken", SlurmUnavailable, "chroot: failed to run command"),
    ],
)
async def test_holds_that_fail(scenario: str, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        await port(scenario).allocate(HOLD)


async def test_an_unknown_user_is_refused() -> None:
    with pytest.raises(SlurmRejected, match="user nobody-here is unknown"):
        await port("well").allocate(replace(HOLD, user="nobody-here"))


async def test_an_unreachable_slurmctld_is_not_an_empty_cluster() -> None:
    with pytest.raises(SlurmUnavailable, match="Unable to contact"):
        await port("down").view()


async def test_json_of_another_shape_is_unavailable() -> None:
    with pytest.raises(SlurmUnavailable, match="unreadable"):
        await port("odd").view()


async def test_an_unknown_job_is_refused_although_scancel_would_not_mind(log: Log) -> None:
    for call in (port("well").cancel(999_999), port("well").complete(999_999, ExitStatus())):
        with pytest.raises(SlurmRejected, match="Invalid job id"):
            await call
    assert not any(line.startswith("scancel") for line in log())


async def test_refusals_on_standard_output_count_too() -> None:
    with pytest.raises(SlurmRejected, match="Job has already finished"):
        await port("finished").repin(6, ["n1"])


async def test_a_cancel_without_rights_is_refused() -> None:
    with pytest.raises(SlurmRejected, match="Access/permission denied"):
        await port("denied").cancel(6)


async def test_commands_that_are_not_there() -> None:
    with pytest.raises(SlurmUnavailable, match="cannot be started"):
        await CliPort(["/no/such/root"]).info()


def test_settings_of_the_operators_own_job_do_not_leak() -> None:
    own = {"SALLOC_ACCOUNT": "x", "SLURM_TRES_PER_TASK": "y", "SLURM_CONF": "/c", "SLURM_JWT": "t", "PATH": "/bin"}
    assert _environment(own) == {"SLURM_CONF": "/c", "SLURM_JWT": "t", "PATH": "/bin", "LC_ALL": "C.UTF-8"}


TOPOLOGIES = STUB.parents[1] / "data" / "topologies" / "slurm-26.05.5"


@pytest.mark.parametrize(
    ("scenario", "file"),
    [("well", "topoconf.yaml"), ("lines", "show-fabric.txt"), ("old", "show-fabric.txt")],
)
async def test_the_topologies_are_those_of_the_yaml_or_else_the_lines(scenario: str, file: str) -> None:
    assert await port(scenario).topology() == (TOPOLOGIES / file).read_text()


@pytest.mark.parametrize(("scenario", "said"), [("down", "Unable to contact"), ("mute", "topoconf: it said nothing")])
async def test_no_answer_is_not_a_flat_topology(scenario: str, said: str) -> None:
    with pytest.raises(SlurmUnavailable, match=said):
        await port(scenario).topology()


async def test_the_guard_is_asked_before_commands_that_write(log: Log) -> None:
    def refuse(write: str) -> None:
        raise PermissionError(write)

    guarded = CliPort([sys.executable, str(STUB), "well"], as_user=(), guard=refuse)
    await guarded.view()
    before = log()
    external = replace(HOLD, external=True)
    writes = guarded.allocate(HOLD), guarded.allocate(external), guarded.repin(3, ["n1"]), guarded.cancel(3)
    for write in writes:
        with pytest.raises(PermissionError):
            await write
    assert log() == before
