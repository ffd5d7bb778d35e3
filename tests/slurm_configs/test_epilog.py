"""The epilog of ``slurm-configs`` under a POSIX shell, with a stub for scontrol; with a real slurmd: in ``e2e``."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

EPILOG = Path(__file__).parents[2] / "slurm-configs" / "epilog.sh"
STUB = Path(__file__).parent / "scontrol"
COMMAND = ("/bin/sh", str(EPILOG))
NOBODY = 65534
PATIENCE = 60.0

UPDATE = "update NodeName=gpu0 State=DRAIN Reason=gangbridge: pods of job {job} were not proven gone within {wait} s"


class Node:
    """A node as the stub shows it, and the epilogs that were started on it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "epilog.log"
        self.started: list[subprocess.Popen[str]] = []
        shutil.copy(STUB, folder / "scontrol")
        (folder / "date").write_text("#!/bin/sh\necho date >>$STUB/calls\n")
        (folder / "date").chmod(0o755)
        (folder / "calls").touch()
        self.show()

    def show(self, extra: str = "", states: str = "IDLE+COMPLETING", tail: str = "") -> None:
        line = f"NodeName=gpu0 Arch=x86_64 State={states} AveWatts=0{f' Extra={extra}' if extra else ''}{tail} \n"
        (self.folder / "next").write_text(line)
        (self.folder / "next").rename(self.folder / "node")

    def set(self, *moods: str) -> None:
        (self.folder / "mood").write_text("".join(f"{mood}\n" for mood in moods))

    def configure(self, **settings: object) -> None:
        values = {"LOG": self.log} | settings
        (self.folder / "gangbridge-epilog.conf").write_text("".join(f"{k}={v}\n" for k, v in values.items()))

    @property
    def calls(self) -> list[str]:
        return (self.folder / "calls").read_text().splitlines()

    @property
    def updates(self) -> list[str]:
        return [call for call in self.calls if not call.startswith("-o show node gpu0")]

    def start(self, job: int = 17, command: Sequence[str] = COMMAND, **changes: str) -> subprocess.Popen[str]:
        env = {
            "SLURM_JOB_ID": str(job),
            "SLURM_JOB_GPUS": "0,1",
            "SLURM_JOB_WORK_DIR": "/",
            "SLURM_JOB_USER": "alice",
            "SLURMD_NODENAME": "gpu0",
            "SLURM_CONF": str(self.folder / "slurm.conf"),
            "STUB": str(self.folder),
            "PATH": f"{self.folder}:{os.environ['PATH']}",
        }
        env = {name: value for name, value in (env | changes).items() if value != "unset"}
        process = subprocess.Popen(command, env=env, text=True, stderr=subprocess.PIPE, start_new_session=True)
        self.started.append(process)
        return process

    def run(self, job: int = 17, **changes: str) -> int:
        process = self.start(job, **changes)
        _, said = process.communicate(timeout=PATIENCE)
        assert said == ""
        return process.returncode

    def until(self, wanted: Callable[[], bool]) -> None:
        give_up = time.monotonic() + PATIENCE
        while not wanted():
            assert time.monotonic() < give_up, self.calls
            time.sleep(0.02)

    def until_asked(self, times: int = 1) -> None:
        """Wait until slurmctld has been asked so many times more."""
        before = len(self.calls)
        self.until(lambda: len(self.calls) >= before + times)


@pytest.fixture
def node(tmp_path: Path) -> object:
    node = Node(tmp_path)
    node.configure()
    yield node
    for process in node.started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def without_forks(folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the epilog where a fork fails, with its settings in ``folder``."""

    def forbid() -> None:
        resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))

    return subprocess.run(
        ["/bin/sh", shutil.copy(EPILOG, folder)],
        env={"SLURM_CONF": str(folder / "slurm.conf")} | environment,
        preexec_fn=forbid,
        user=NOBODY if os.geteuid() == 0 else None,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """A folder that ``nobody`` may write to, below pytest's private ones."""
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_mode & 0o001 == 0:
            folder.chmod(folder.stat().st_mode | 0o011)
    tmp_path.chmod(0o777)
    return tmp_path


class TestJobsOfOthers:
    """They cost no process: not a single fork."""

    @pytest.mark.parametrize("gpus", [{}, {"SLURM_JOB_GPUS": ""}])
    def test_a_job_without_gpus(self, shared: Path, gpus: dict[str, str]) -> None:
        (shared / "gangbridge-epilog.conf").write_text("LOG=log\nexit 9\n")  # not even this is read
        done = without_forks(shared, SLURM_JOB_WORK_DIR="/", **gpus)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")

    def test_a_job_with_gpus_and_a_home(self, shared: Path) -> None:
        (shared / "gangbridge-epilog.conf").write_text(f"LOG={shared}/log\n")
        done = without_forks(
            shared,
            SLURM_JOB_GPUS="2,3",
            SLURM_JOB_WORK_DIR="/home/bob",
            SLURM_JOB_ID="18",
            SLURM_JOB_USER="bob",
            SLURMD_NODENAME="gpu0",
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        (line,) = (shared / "log").read_text().splitlines()
        assert line.split(maxsplit=1)[1] == "epilog node=gpu0 job=18 user=bob gpus=2,3"

    def test_a_log_that_cannot_be_written_is_no_error(self, shared: Path) -> None:
        (shared / "gangbridge-epilog.conf").write_text(f"LOG={shared}/no/such/folder\n")
        done = without_forks(shared, SLURM_JOB_GPUS="2", SLURM_JOB_WORK_DIR="/home/bob")
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")

    def test_a_fork_would_be_seen(self, shared: Path) -> None:
        done = without_forks(shared, SLURM_JOB_GPUS="2", SLURM_JOB_WORK_DIR="/")
        assert done.returncode
        assert "fork" in done.stderr


@pytest.mark.parametrize(
    "extra", ["", "gangbridge:", "gangbridge:1,170,117,71", "rack 7", "other:17", "17", "gangbridge:18 17"]
)
def test_a_hold_that_is_not_listed_ends_at_once(node: Node, extra: str) -> None:
    node.show(extra)
    assert node.run() == 0
    assert node.calls == ["-o show node gpu0"]


def test_an_epilog_that_does_not_know_the_folder_asks(node: Node) -> None:
    assert node.run(SLURM_JOB_WORK_DIR="unset") == 0
    assert node.calls == ["-o show node gpu0"]


@pytest.mark.parametrize("extra", ["gangbridge:17", "gangbridge:17,23", "gangbridge:5,17,23", "gangbridge:5,17"])
def test_a_listed_hold_waits_until_it_is_not_listed(node: Node, extra: str) -> None:
    node.show(extra, tail=" Reason=bad fan [root@2026-11-30T22:39:04]")
    process = node.start()
    node.until_asked(2)
    assert process.poll() is None
    node.show("gangbridge:5,23")
    assert process.wait(PATIENCE) == 0
    assert node.updates == []
    assert "job=17 free after" in node.log.read_text()


def test_no_answer_is_not_gone(node: Node) -> None:
    node.configure(ANSWER=1)
    node.show("gangbridge:17")
    node.set("silent", "cut", "slow")
    process = node.start()
    node.until(lambda: len(node.calls) >= 4)
    assert process.poll() is None
    node.show()
    assert process.wait(PATIENCE) == 0
    assert node.updates == []


@pytest.mark.parametrize("text", ["", "Node gpu0 not found\n", "NodeName=gpu00 State=IDLE \n"])
def test_another_answer_is_no_answer(node: Node, text: str) -> None:
    (node.folder / "node").write_text(text)
    process = node.start()
    node.until_asked(2)
    assert process.poll() is None


class TestPastTheBound:
    def test_the_node_is_drained_with_our_reason(self, node: Node) -> None:
        node.configure(WAIT=0)
        node.show("gangbridge:17")
        assert node.run() == 0
        assert node.updates == [UPDATE.format(job=17, wait=0)]
        assert node.calls[-1] == "-o show node gpu0"  # it ends only when slurmctld shows the drain
        assert "job=17 drained after" in node.log.read_text()

    def test_not_before_it(self, node: Node) -> None:
        node.configure(WAIT=4)
        node.show("gangbridge:17")
        assert node.run() == 0
        assert node.calls.index(UPDATE.format(job=17, wait=4)) >= 2

    def test_the_drain_is_repeated_until_slurmctld_shows_it(self, node: Node) -> None:
        node.configure(WAIT=0)
        node.show("gangbridge:17")
        node.set("", "silent", "silent", "", "deaf", "")
        assert node.run() == 0
        assert len(node.updates) == 3

    @pytest.mark.parametrize("states", ["IDLE+COMPLETING+DRAIN", "MIXED+COMPLETING+FAIL"])
    def test_a_drain_of_somebody_else_is_one_too(self, node: Node, states: str) -> None:
        node.configure(WAIT=4)
        node.show("gangbridge:17", states, " Reason=bad fan [root@2026-11-30T22:39:04]")
        assert node.run() == 0
        assert node.updates == []
        assert len(node.calls) >= 3

    def test_who_is_proven_gone_in_the_end_is_not_fenced(self, node: Node) -> None:
        node.configure(WAIT=0)
        node.show("gangbridge:18")
        assert node.run() == 0
        assert node.updates == []

    def test_it_fails_when_slurmctld_cannot_be_had(self, node: Node) -> None:
        node.configure(WAIT=0, FENCE=1)
        node.set(*["silent"] * 99)
        assert node.run() == 1
        assert node.updates == []  # nobody said that the node is not drained already
        assert "job=17 given up after" in node.log.read_text()

    def test_it_fails_when_the_drain_does_not_take(self, node: Node) -> None:
        node.configure(WAIT=0, FENCE=1)
        node.show("gangbridge:17")
        node.set(*["deaf"] * 99)
        assert node.run() == 1
        assert node.updates


def test_a_terminated_epilog_fences_at_once(node: Node) -> None:
    node.show("gangbridge:17")
    process = node.start()
    node.until_asked(2)
    process.terminate()
    assert process.wait(PATIENCE) == 0
    assert len(node.updates) == 1
    assert node.updates[0].startswith(UPDATE.format(job=17, wait="").removesuffix(" s"))


def test_an_epilog_whose_slurmd_has_gone_fences_at_once(node: Node) -> None:
    """Nobody hears its exit status any more."""
    node.show("gangbridge:17")
    slurmd = node.start(command=["/bin/sh", "-c", 'sh "$0" & sleep 60', str(EPILOG)])
    node.until_asked(3)
    assert node.updates == []
    slurmd.kill()
    slurmd.wait(PATIENCE)
    node.until(lambda: "job=17 drained after" in node.log.read_text())
    assert len(node.updates) == 1


def test_holds_that_end_side_by_side_wait_for_themselves(node: Node) -> None:
    node.show("gangbridge:17,23")
    first, second = node.start(17), node.start(23)
    node.until_asked(4)
    node.show("gangbridge:23")
    assert first.wait(PATIENCE) == 0
    node.until_asked(2)
    assert second.poll() is None
    node.show()
    assert second.wait(PATIENCE) == 0


def test_one_drain_is_enough_for_holds_side_by_side(node: Node) -> None:
    node.configure(WAIT=0)
    node.show("gangbridge:17,23")
    assert (node.run(17), node.run(23)) == (0, 0)
    assert node.updates == [UPDATE.format(job=17, wait=0)]
