"""The operator against the lab: installed with kubectl as an admin would, run as processes with its own identity."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STATE = Path(os.environ.get("GANGBRIDGE_STATE", "/var/tmp/gangbridge-lab"))
PROBE_PORT = 18080
_CALL = re.compile(r'gangbridge_kube_requests_total\{.*verb="(?P<verb>\w+)".*\} (?P<count>\S+)')
_READS = {"get", "list", "watch"}
_LEADS = "gangbridge_leader 1.0"
NAME = "operator"
LOG = STATE / "logs" / f"{NAME}.log"
PID = STATE / f"{NAME}.pid"


def kubectl(*args: str, stdin: str | None = None) -> str:
    """Run kubectl as the lab's admin and return what it prints."""
    done = subprocess.run(["kubectl", *args], input=stdin, text=True, capture_output=True, check=False)
    if done.returncode:
        raise RuntimeError(f"kubectl {' '.join(args)}: {done.stderr.strip()}")
    return done.stdout


def install() -> None:
    """Apply the custom resources, the rights and policies, the fleet and its queues. Idempotent."""
    kubectl("apply", "-k", str(ROOT / "crds"))
    kubectl("wait", "--for=condition=Established", "crd", "gangjobs.gangbridge.dev", "--timeout=30s")
    kubectl("apply", "-k", str(ROOT / "operators" / "manifests" / "access"))
    kubectl("apply", "-f", str(ROOT / "e2e" / "manifests" / "fleet.yaml"))


class Operator:
    """One process. ``env`` is added to its environment (failpoints, another adapter).

    ``name`` stands for the name of its pod: its next life has it too, and no other process that lives at the same time.
    """

    def __init__(
        self, *args: str, name: str = NAME, probe_port: int = PROBE_PORT, env: dict[str, str] | None = None
    ) -> None:
        self.args = args
        self.name = name
        self.log = STATE / "logs" / f"{name}.log"
        self._pid_file = STATE / f"{name}.pid"
        self._url = f"http://127.0.0.1:{probe_port}"
        self._probe_port = probe_port
        self.env = env or {}
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, timeout_s: float = 30) -> None:
        """Start it and return when it has read both servers."""
        self.launch()
        deadline = time.monotonic() + timeout_s
        while not self.is_ready():
            if self.process is not None and self.process.poll() is not None:
                raise RuntimeError(f"{self.name} ended with {self.process.returncode}; see {self.log}")
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.name} is not ready after {timeout_s} s; see {self.log}")
            time.sleep(0.05)

    def launch(self) -> None:
        """Start it and return at once."""
        kubeconfig = STATE / "kubeconfig" / "gangbridge.kubeconfig"
        command = [sys.executable, "-m", "operators", "--worker-python", "/opt/venv/bin/python"]
        command += ["--probe-port", str(self._probe_port), "--kubeconfig", str(kubeconfig), *self.args]
        environment = {**os.environ, "POD_NAME": self.name, **self.env}
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log)
        self._pid_file.write_text(f"{self.process.pid}\n")

    @property
    def is_alive(self) -> bool:
        """True while the process that was started runs."""
        return self.process is not None and self.process.poll() is None

    def live_until(self, place: str) -> None:
        """Start a process that kills itself at ``place`` (see ``operators.failpoints``)."""
        if self.is_alive:
            self.kill()
        self.env = {"GANGBRIDGE_DIE_AT": place}
        self.launch()

    def live(self) -> None:
        """Start a process without a failpoint, unless one runs."""
        if self.env and self.is_alive:
            self.kill()
        self.env = {}
        if not self.is_alive:
            self.start()

    def kill(self) -> None:
        """End it by SIGKILL, as a crash would."""
        self.stop(signal.SIGKILL)

    def wait_killed(self, timeout_s: float = 20) -> None:
        """Return once it has died by SIGKILL, as a failpoint has it; RuntimeError when it ends otherwise or not."""
        if self.process is None:
            raise RuntimeError("the operator was not started")
        try:
            status = self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise RuntimeError(f"{self.name} lives on after {timeout_s} s: its failpoint was not reached") from None
        if status != -signal.SIGKILL:
            raise RuntimeError(f"{self.name} ended with {status} and not by SIGKILL; see {self.log}")
        self.process = None

    def writes(self) -> int:
        """Return how many writes to the API server it has made so far, refused ones included."""
        calls = (_CALL.match(line) for line in self._metrics())
        return sum(int(float(call["count"])) for call in calls if call and call["verb"] not in _READS)

    def leads(self) -> bool:
        """Return whether it says that it is the replica that acts."""
        return _LEADS in self._metrics()

    def freeze(self) -> None:
        """Stop it in the middle of whatever it does."""
        self._signal(signal.SIGSTOP)

    def is_frozen(self) -> bool:
        """Return whether it was stopped, by us or by itself at a failpoint."""
        if self.process is None:
            return False
        state = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()[0]
        return state == "T"

    def thaw(self) -> None:
        """Let it go on where it was stopped."""
        self._signal(signal.SIGCONT)

    def wait_ended(self, timeout_s: float = 20) -> int:
        """Return the exit status with which it ends by itself."""
        if self.process is None:
            raise RuntimeError(f"{self.name} was not started")
        return self.process.wait(timeout_s)

    def is_ready(self) -> bool:
        """Return whether ``/readyz`` says so."""
        try:
            with urllib.request.urlopen(f"{self._url}/readyz", timeout=2) as answer:
                return answer.status == 200
        except (urllib.error.URLError, OSError):
            return False

    def stop(self, how: signal.Signals = signal.SIGTERM, timeout_s: float = 20) -> int:
        """End it and return its exit status; SIGKILL for a crash."""
        if self.process is None:
            return 0
        self.process.send_signal(how)
        try:
            return self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise
        finally:
            self.process = None
            self._pid_file.unlink(missing_ok=True)

    def _signal(self, number: signal.Signals) -> None:
        if self.process is None:
            raise RuntimeError(f"{self.name} was not started")
        self.process.send_signal(number)

    def _metrics(self) -> list[str]:
        with urllib.request.urlopen(f"{self._url}/metrics", timeout=5) as answer:
            lines: list[str] = answer.read().decode().splitlines()
        return lines


def main() -> None:
    """Install, then run in the foreground until interrupted."""
    install()
    operator = Operator()
    operator.launch()
    if operator.process is None:
        return
    print(f"the operator runs; its log is {LOG}; Ctrl-C ends it", flush=True)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: operator.process and operator.process.terminate())
    sys.exit(operator.process.wait())


if __name__ == "__main__":
    main()
