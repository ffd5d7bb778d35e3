"""A daemon of the lab is its pid, start time and boot together; a pid alone is never signalled."""

import dataclasses
import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from e2e.lab import supervise
from e2e.lab.command import LabError
from e2e.lab.layout import Layout
from e2e.lab.supervise import Daemon


@pytest.fixture
def lab(tmp_path: Path) -> Layout:
    return Layout(clone=tmp_path / "clone", cache=tmp_path / "cache", state=tmp_path / "state")


def sleeper(name: str = "sleeper", *, script: str = "exec sleep 60", ready=lambda: True) -> Daemon:
    return Daemon(name=name, argv=("/bin/sh", "-c", script), ready=ready, patience=0.3)


def write_record(lab: Layout, record: supervise.Record) -> None:
    lab.run.mkdir(parents=True, exist_ok=True)
    (lab.run / f"{record.name}.json").write_text(json.dumps(dataclasses.asdict(record)))


def wait_until_gone(record: supervise.Record) -> None:
    deadline = time.monotonic() + 5
    while record.alive():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    supervise._reap(record.pid)


def test_started_once_and_found_again(lab):
    try:
        assert supervise.ensure(lab, sleeper()) is True
        first = supervise.find(lab, "sleeper")
        assert supervise.ensure(lab, sleeper()) is False
        assert supervise.find(lab, "sleeper") == first
        assert abs(supervise.since(first) - time.time()) < 5
    finally:
        supervise.stop(lab, "sleeper")
    assert supervise.start_time(first.pid) is None
    assert supervise.records(lab) == []


def test_killed_daemon_is_started_again(lab):
    try:
        supervise.ensure(lab, sleeper())
        first = supervise.find(lab, "sleeper")
        os.kill(first.pid, signal.SIGKILL)
        wait_until_gone(first)
        assert supervise.find(lab, "sleeper") is None
        assert supervise.ensure(lab, sleeper()) is True
        assert supervise.find(lab, "sleeper").pid != first.pid
    finally:
        supervise.stop(lab, "sleeper")


def test_changed_settings_restart_it(lab, tmp_path):
    settings = tmp_path / "settings"
    settings.write_text("a")
    daemon = dataclasses.replace(sleeper(), files=(settings,))
    try:
        assert supervise.ensure(lab, daemon) is True
        first = supervise.find(lab, "sleeper")
        assert supervise.ensure(lab, daemon) is False
        settings.write_text("b")
        assert supervise.ensure(lab, daemon) is True
        assert supervise.find(lab, "sleeper").pid != first.pid
        assert not first.alive()
    finally:
        supervise.stop(lab, "sleeper")


@pytest.mark.parametrize("change", [{"started": 1}, {"boot": "another boot"}])
def test_foreign_process_with_the_same_pid_is_left_alone(lab, change):
    stranger = subprocess.Popen(["sleep", "60"])
    try:
        true = supervise.Record(
            name="sleeper",
            pid=stranger.pid,
            started=supervise.start_time(stranger.pid),
            boot=supervise.BOOT_ID.read_text().strip(),
            endpoint="",
        )
        assert true.alive()
        write_record(lab, dataclasses.replace(true, **change))
        assert supervise.find(lab, "sleeper") is None
        supervise.stop(lab, "sleeper")
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_daemon_that_ends_at_once_is_an_error_with_its_log(lab):
    with pytest.raises(LabError, match=r"(?s)sleeper ended.*bad configuration in line 7"):
        supervise.ensure(lab, sleeper(script="echo bad configuration in line 7; exit 1", ready=lambda: False))
    assert supervise.find(lab, "sleeper") is None
    assert supervise._CHILDREN.popitem()[1].wait() == 1


def test_daemon_that_ignores_sigterm_is_killed(lab):
    supervise.ensure(lab, sleeper(script="trap '' TERM; while :; do sleep 0.1; done"))
    record = supervise.find(lab, "sleeper")
    supervise.stop(lab, "sleeper", grace=0.2)
    assert not record.alive()


def test_taken_port_is_named(lab):
    with supervise.socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        daemon = dataclasses.replace(sleeper(), port=port)
        with pytest.raises(LabError, match=f"sleeper: port {port} on 127.0.0.1 is taken"):
            supervise.ensure(lab, daemon)


def test_torn_record_counts_as_absent(lab):
    lab.run.mkdir(parents=True)
    (lab.run / "sleeper.json").write_text('{"name": "slee')
    assert supervise.find(lab, "sleeper") is None
    assert supervise.records(lab) == []
