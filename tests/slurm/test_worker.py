"""The worker's own decisions, with pyslurm and libslurm replaced; the real ones are tested in ``e2e``."""

from __future__ import annotations

import json
import os
import pwd
import subprocess
import sys
from types import SimpleNamespace

import pytest

from bridge.errors import SlurmRejected, SlurmUnavailable
from bridge.slurm import wire, worker
from bridge.slurm.run_as import run_as

ME = pwd.getpwuid(os.geteuid()).pw_name
REQUEST = {"user": ME, "comment": '{"gangbridge":1}', "deadline": 2.0}


class RPCError(Exception):
    def __init__(self, errno: int, text: str) -> None:
        super().__init__(text)
        self.errno = errno


class Pyslurm:
    """The part of pyslurm that the worker calls."""

    RPCError = RPCError

    def __init__(self) -> None:
        self.updates: list[tuple[int, dict[str, object]]] = []
        self.cancelled: list[int] = []
        self.refuse: RPCError | None = None
        self.slurmctld = SimpleNamespace(
            Config=SimpleNamespace(load=lambda: SimpleNamespace(version="1", cluster_name="c"))
        )
        self.Partitions = SimpleNamespace(load=lambda: {"main": SimpleNamespace(nodes="n[1-2]")})

    def slurm_init(self) -> None:
        pass

    def JobSubmitDescription(self, **changes: object) -> dict[str, object]:  # noqa: N802
        return changes

    def Job(self, job_id: int) -> SimpleNamespace:  # noqa: N802
        def modify(changes: dict[str, object]) -> None:
            if self.refuse:
                raise self.refuse
            self.updates.append((job_id, changes))

        return SimpleNamespace(modify=modify)


class Libslurm:
    def allocate(self, request: object) -> int:
        return 42

    def __init__(self) -> None:
        self.updates: list[object] = []
        self.refuse: SlurmRejected | None = None

    def load_jobs(self) -> tuple[float, list[object]]:
        return 5.0, []

    def load_nodes(self) -> list[dict[str, object]]:
        return [
            {"name": "free", "state": ["IDLE"]},
            {"name": "ours", "state": ["IDLE", "DRAIN"], "reason": "gangbridge: x"},
            {"name": "theirs", "state": ["IDLE", "DRAIN"], "reason": "bad fan"},
            {"name": "lost", "state": ["DOWN"], "reason": "Not responding"},
            {"name": "broken", "state": ["DOWN"], "reason": "bad fan"},
        ]

    def update_nodes(self, names: list[str], **changes: object) -> None:
        if self.refuse:
            raise self.refuse
        self.updates.append((names, changes))


@pytest.fixture
def pyslurm(monkeypatch: pytest.MonkeyPatch) -> Pyslurm:
    found = Pyslurm()
    monkeypatch.setitem(sys.modules, "pyslurm", found)
    monkeypatch.setattr(worker, "Libslurm", Libslurm)
    monkeypatch.delenv("SLURM_JWT", raising=False)
    return found


def test_the_marker_is_copied_to_the_administrators_comment(pyslurm: Pyslurm) -> None:
    assert worker.Worker().allocate(REQUEST) == 42
    assert pyslurm.updates == [(42, {"admin_comment": '{"gangbridge":1}'})]


def test_a_hold_that_exists_is_reported_even_if_it_cannot_be_sealed(pyslurm: Pyslurm) -> None:
    pyslurm.refuse = RPCError(2002, "Access/permission denied")
    assert worker.Worker().allocate(REQUEST) == 42


def test_a_refusal_for_want_of_rights_says_what_to_grant(pyslurm: Pyslurm) -> None:
    pyslurm.refuse = RPCError(2002, "Access/permission denied")
    with pytest.raises(SlurmRejected, match="adminlevel=admin"):
        worker.Worker().repin({"job_id": 1, "nodes": "n1"})


def test_a_view_has_the_time_of_slurmctld(pyslurm: Pyslurm) -> None:
    assert worker.Worker().view({})["taken_at"] == 5.0


def test_nobody_elses_word_is_changed(pyslurm: Pyslurm) -> None:
    found = worker.Worker()
    nodes = ["free", "ours", "theirs", "lost", "broken"]
    found.drain({"nodes": nodes, "reason": "gangbridge: y"})
    found.resume({"nodes": nodes, "reason": "gangbridge: y"})
    found.resume({"nodes": nodes, "reason": "gangbridge: x"})
    assert found._libslurm.updates == [
        (["free", "lost"], {"drain": True, "reason": "gangbridge: y"}),
        ([], {"drain": False}),
        (["ours"], {"drain": False}),
    ]


def test_a_refused_text_names_the_nodes_that_are_unknown(pyslurm: Pyslurm) -> None:
    found = worker.Worker()
    found.set_extra({"nodes": ["free"], "extra": "gangbridge:1"})
    assert found._libslurm.updates == [(["free"], {"extra": "gangbridge:1"})]
    found._libslurm.refuse = SlurmRejected("Invalid node name specified", 2018)
    with pytest.raises(SlurmRejected, match=r"specified: nowhere$"):
        found.set_extra({"nodes": ["free", "nowhere"], "extra": ""})
    found._libslurm.refuse = SlurmRejected("Access/permission denied", 2002)
    with pytest.raises(SlurmRejected, match="denied"):
        found.set_extra({"nodes": ["free"], "extra": ""})


def test_the_owner_of_the_token_is_who_submits(pyslurm: Pyslurm, monkeypatch: pytest.MonkeyPatch) -> None:
    payload = "eyJzdW4iOiJhbGljZSJ9"  # {"sun":"alice"}
    monkeypatch.setenv("SLURM_JWT", f"e30.{payload}.x")
    assert worker.Worker().info({})["user"] == "alice"
    assert worker.Worker().allocate(REQUEST | {"user": "alice"}) == 42
    with pytest.raises(SlurmRejected, match="acts as alice and may not submit for bob"):
        worker.Worker().allocate(REQUEST | {"user": "bob"})


def test_a_worker_without_root_submits_for_itself_alone(pyslurm: Pyslurm, monkeypatch: pytest.MonkeyPatch) -> None:
    found = worker.Worker()
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert found.allocate(REQUEST) == 42
    with pytest.raises(SlurmRejected, match=f"acts as {ME} and may not submit for bob"):
        found.allocate(REQUEST | {"user": "bob"})


@pytest.mark.parametrize(
    ("errno", "kind"),
    [
        (1800, SlurmUnavailable),  # connection refused
        (5004, SlurmUnavailable),  # socket timed out
        (110, SlurmUnavailable),  # ETIMEDOUT
        (-1, SlurmUnavailable),
        (2017, SlurmRejected),  # invalid job id
        (2045, SlurmRejected),  # invalid account
        (7000, SlurmRejected),
    ],
)
def test_only_slurmctlds_own_no_is_a_refusal(errno: int, kind: type[Exception]) -> None:
    assert type(wire.refusal(errno, "text")) is kind


@pytest.mark.parametrize("error", [SlurmRejected("no", 2045), SlurmUnavailable("where?")])
def test_errors_cross_the_wire(error: SlurmRejected | SlurmUnavailable) -> None:
    with pytest.raises(type(error)) as caught:
        wire.result_of(json.loads(wire.dump_error(3, error)))
    assert (str(caught.value), getattr(caught.value, "errno", 0)) == (str(error), getattr(error, "errno", 0))


def test_an_unknown_user_is_refused() -> None:
    with pytest.raises(SlurmRejected, match="no-such-user is unknown"):
        run_as("no-such-user", lambda: b"x", 1.0)


_RUN_AS_ROOT = """
import os, time
from bridge.errors import SlurmUnavailable
from bridge.slurm.run_as import run_as
os.initgroups = os.setresgid = os.setresuid = lambda *_: None
me = __import__("pwd").getpwuid(os.geteuid()).pw_name
assert run_as(me, lambda: b"x" * 300_000, 5.0) == b"x" * 300_000
for call, problem in (
    (lambda: time.sleep(60), "did not end within 0.3 s"),
    (lambda: 1 / 0, "ended without an answer"),
    (lambda: b"", "ended without an answer"),
):
    began = time.monotonic()
    try:
        run_as(me, call, 0.3)
    except SlurmUnavailable as error:
        assert problem in str(error), error
        assert time.monotonic() - began < 30
    else:
        raise AssertionError("it answered")
try:
    os.waitpid(-1, os.WNOHANG)
except ChildProcessError:
    print("no child left")
"""


def test_a_child_is_heard_out_or_killed() -> None:
    """In a process of its own: pytest's has threads, and a fork there would not be the worker's."""
    done = subprocess.run([sys.executable, "-c", _RUN_AS_ROOT], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "no child left\n", done.stderr
    assert "ZeroDivisionError" in done.stderr
