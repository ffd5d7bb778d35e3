"""Daemons of the lab: started detached, remembered by pid *and* start time, probed, stopped by that identity only."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from e2e.lab.command import LabError, tail
from e2e.lab.layout import Layout
from e2e.lab.progress import say

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
PROBE_INTERVAL = 0.05  # seconds
_CHILDREN: dict[int, subprocess.Popen[bytes]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Daemon:
    """A process that stays in the foreground. `ready` is asked until it is true, at most `patience` seconds.

    It is restarted when its command line, its environment or one of `files` is not what it was started with.
    """

    name: str
    argv: tuple[str, ...]
    ready: Callable[[], bool]
    endpoint: str = ""
    port: int = 0  # on loopback; checked to be free before the start
    env: Mapping[str, str] = field(default_factory=dict)
    files: tuple[Path, ...] = ()  # read by the daemon at its start
    cwd: Path = Path("/")
    patience: float = 60
    grace: float = 10  # seconds between SIGTERM and SIGKILL

    def fingerprint(self) -> str:
        digest = hashlib.sha256(json.dumps([self.argv, dict(self.env)]).encode())
        for path in self.files:
            digest.update(path.read_bytes())
        return digest.hexdigest()[:16]


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """Identity of a started process: a pid alone may be reused, pid + start time + boot may not."""

    name: str
    pid: int
    started: int  # clock ticks since boot, field 22 of /proc/PID/stat
    boot: str
    endpoint: str
    fingerprint: str = ""

    def alive(self) -> bool:
        return self.boot == BOOT_ID.read_text().strip() and start_time(self.pid) == self.started


def start_time(pid: int) -> int | None:
    """Start of a living process in clock ticks since boot; None when there is none, or only a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = stat.rpartition(")")[2].split()  # the command name may hold blanks and parentheses
    return None if fields[0] in "ZX" else int(fields[19])


def since(record: Record) -> float:
    """Unix time at which the process of `record` started."""
    boot_time = next(int(line.split()[1]) for line in Path("/proc/stat").read_text().splitlines() if "btime" in line)
    return boot_time + record.started / os.sysconf("SC_CLK_TCK")


def listening(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def answering(path: Path) -> bool:
    """Somebody accepts connections on the unix socket `path`; the file alone may be left over from a crash."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(1)
        return probe.connect_ex(str(path)) == 0


def records(lab: Layout) -> list[Record]:
    return [found for path in sorted(lab.run.glob("*.json")) if (found := _read(path)) is not None]


def _read(path: Path) -> Record | None:
    try:
        return Record(**json.loads(path.read_text()))
    except (FileNotFoundError, ValueError, TypeError):  # absent, or torn by a crash of the machine
        return None


def find(lab: Layout, name: str) -> Record | None:
    record = _read(lab.run / f"{name}.json")
    return record if record is not None and record.alive() else None


def log_of(lab: Layout, name: str) -> Path:
    return lab.logs / f"{name}.log"


def ensure(lab: Layout, daemon: Daemon) -> bool:
    """Make `daemon` run and be ready. True if it had to be started; LabError with the end of its log if it fails."""
    record = find(lab, daemon.name)
    if record is not None and record.fingerprint not in {"", daemon.fingerprint()}:
        say(f"{daemon.name}: its settings changed, restarting it")
        stop(lab, daemon.name, grace=daemon.grace)
        record = None
    if record is not None and _wait(daemon, record, 10):
        return False
    if record is not None:
        say(f"{daemon.name}: alive but not answering for 10 s, restarting it")
        stop(lab, daemon.name, grace=2)
    record = _launch(lab, daemon)
    began = time.monotonic()
    if not _wait(daemon, record, daemon.patience):
        state = "is not ready" if record.alive() else "ended"
        log = log_of(lab, daemon.name)
        raise LabError(f"{daemon.name} {state}; its log ({log}) ends with:\n{tail(log.read_text(errors='replace'))}")
    say(f"{daemon.name}: up after {time.monotonic() - began:.1f} s {daemon.endpoint}")
    return True


def _wait(daemon: Daemon, record: Record, patience: float) -> bool:
    deadline = time.monotonic() + patience
    while record.alive():
        _reap(record.pid)
        if daemon.ready():
            return True
        if time.monotonic() > deadline:
            break
        time.sleep(PROBE_INTERVAL)
    return False


def _freed(port: int, patience: float = 5) -> bool:
    """Nobody listens on `port`. The main thread of a process just stopped may be gone before its sockets are."""
    deadline = time.monotonic() + patience
    while listening(port):
        if time.monotonic() > deadline:
            return False
        time.sleep(PROBE_INTERVAL)
    return True


def _launch(lab: Layout, daemon: Daemon) -> Record:
    if daemon.port and not _freed(daemon.port):
        raise LabError(
            f"{daemon.name}: port {daemon.port} on 127.0.0.1 is taken by a process that this lab did not record "
            f"(find it with `ss -ltnp sport = :{daemon.port}`)"
        )
    lab.run.mkdir(parents=True, exist_ok=True)
    log = log_of(lab, daemon.name)
    log.parent.mkdir(parents=True, exist_ok=True)
    base = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LC_ALL": "C.UTF-8"}
    with log.open("a") as sink:
        process = subprocess.Popen(
            daemon.argv, env={**base, **daemon.env}, cwd=daemon.cwd,
            stdin=subprocess.DEVNULL, stdout=sink, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
    _CHILDREN[process.pid] = process
    record = Record(
        name=daemon.name, pid=process.pid, started=start_time(process.pid) or 0,
        boot=BOOT_ID.read_text().strip(), endpoint=daemon.endpoint, fingerprint=daemon.fingerprint(),
    )  # fmt: skip
    path = lab.run / f"{daemon.name}.json"
    partial = path.with_suffix(".tmp")
    partial.write_text(json.dumps({name: getattr(record, name) for name in Record.__slots__}))
    partial.rename(path)
    return record


def stop(lab: Layout, name: str, *, grace: float = 10) -> None:
    """SIGTERM, after `grace` seconds SIGKILL; only if the recorded process is still that process."""
    record = find(lab, name)
    if record is not None:
        _signal(record, signal.SIGTERM)
        deadline = time.monotonic() + grace
        while record.alive() and time.monotonic() < deadline:
            _reap(record.pid)
            time.sleep(0.02)
        if record.alive():
            say(f"{name}: did not end within {grace:.0f} s, killed")
            _signal(record, signal.SIGKILL)
            while record.alive():
                _reap(record.pid)
                time.sleep(0.02)
    (lab.run / f"{name}.json").unlink(missing_ok=True)


def send(lab: Layout, name: str, number: signal.Signals) -> bool:
    """Send a signal to the recorded process; False when it does not run."""
    record = find(lab, name)
    if record is not None:
        _signal(record, number)
    return record is not None


def _signal(record: Record, number: signal.Signals) -> None:
    try:
        os.kill(record.pid, number)
    except ProcessLookupError:
        return


def _reap(pid: int) -> None:
    """A child of this very command stays a zombie until it is asked for; earlier ones are no children any more."""
    child = _CHILDREN.get(pid)
    if child is not None:
        child.poll()
