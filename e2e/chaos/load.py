"""The mixed load: GangJobs and sbatch jobs of all sorts, each with a known end, so many at a time."""

from __future__ import annotations

import contextlib
import random
import threading
import time
from dataclasses import dataclass, field
from typing import Any

from e2e.chaos import sight
from e2e.chaos.witness import Witness
from e2e.scenario import gang
from e2e.scenario.commands import apply, kubectl, slurm

NAMESPACE = "chaos"
GANGS, JOBS = 16, 5
"""So many of each are kept going."""
STEP_S = 0.25
LIVE = frozenset({"PENDING", "RUNNING", "COMPLETING", "SUSPENDED", "CONFIGURING"})
QUEUES = {"chaos-gpu": ("gpu", "normal"), "chaos-low": ("gpu", "low"), "chaos-ext": ("ext", "normal")}
"""Partition and QOS by queue; jobs of QOS high preempt those of low."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """What a gang will do when it is left alone: end with ``code``, in each of ``1 + restarts`` attempts."""

    name: str
    code: int
    restarts: int


@dataclass
class Load:
    """One thread. Everything is drawn from ``rng``."""

    seed: int
    rng: random.Random
    witness: Witness
    intents: dict[str, Intent] = field(default_factory=dict)
    errands: dict[str, float] = field(default_factory=dict)
    """When the user of each sbatch job will cancel it (0: never), by job name."""
    _stopping: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to submit."""
        self._thread = threading.Thread(target=self._run, name="load", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Submit no more; what was submitted goes on."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()

    def live_jobs(self) -> list[sight.Job]:
        """Return our sbatch jobs that have not ended, as last seen."""
        return [job for job in self.witness.latest.jobs if job.name in self.errands and job.state in LIVE]

    def unfinished(self) -> list[dict[str, Any]]:
        """Return the gangs that have not ended, as last seen."""
        return [obj for obj in self.witness.latest.gangs if not is_over(obj)]

    def cancel_due(self, *, now: float) -> None:
        """Let users cancel what they meant to: an external job never ends by itself."""
        due = [str(job.job_id) for job in self.live_jobs() if 0 < self.errands[job.name] <= now]
        if due:
            slurm("scancel", *due, timeout_s=8)

    def _run(self) -> None:
        while not self._stopping.wait(STEP_S):
            with contextlib.suppress(*sight.UNREACHABLE):
                self._step()

    def _step(self) -> None:
        seen = {obj["metadata"]["name"] for obj in self.witness.latest.gangs}
        fresh = [name for name in list(self.intents)[-GANGS:] if name not in seen]
        if len(self.unfinished()) + len(fresh) < GANGS:
            self._submit_gang()
        if len(self.live_jobs()) < JOBS and self.rng.random() < 0.5:
            self._submit_job()
        self.cancel_due(now=time.time())
        self._tidy()

    def _submit_gang(self) -> None:
        draw = self.rng
        name = f"chaos-{self.seed}-{len(self.intents)}"
        code = draw.choice((0, 0, 0, 0, 1, 3, 42))
        intent = Intent(name=name, code=code, restarts=draw.choice((0, 0, 1, 2)) if code else draw.choice((0, 1)))
        after = draw.choice((1, 1, 2, 3))
        manifest = gang.manifest(
            name,
            namespace=NAMESPACE,
            queue=draw.choice(("chaos-gpu", "chaos-gpu", "chaos-low", "chaos-ext", "chaos-ext")),
            pods=draw.choice((1, 2, 2, 3, 4)),
            gpus=draw.choice((1, 1, 2, 4)),
            script=f"sleep {after}; exit {code}",
            kwok="fail" if code else "succeed",
            failurePolicy={"maxRestarts": intent.restarts},
        )
        annotations = manifest["spec"]["roles"][0]["template"]["metadata"]["annotations"]
        annotations |= {"kwok.gangbridge.dev/after": f"{after}s", "kwok.gangbridge.dev/exit-code": str(code)}
        annotations |= {"kwok.gangbridge.dev/terminating": f"{draw.choice((0, 0, 1, 2))}s"}
        self.intents[name] = intent
        sight.api().apply(f"/apis/gangbridge.dev/v1alpha1/namespaces/{NAMESPACE}/gangjobs/{name}", manifest)

    def _submit_job(self) -> None:
        draw = self.rng
        name = f"chaos-{self.seed}-job-{len(self.errands)}"
        kind = draw.choice(("batch", "batch", "array", "urgent", "external"))
        options = ["--parsable", "-J", name, f"--gres=gpu:h100:{draw.choice((1, 2, 4))}", "-t", "5", "-o", "/dev/null"]
        if kind == "external":
            options += ["-p", "ext", "--external"]
        else:
            options += ["-p", "gpu", "--wrap", f"sleep {draw.choice((1, 2, 4))}"]
        if kind == "array":
            options.append("--array=0-2")
        if kind == "urgent":
            options.append("--qos=high")
        is_cancelled = kind == "external" or draw.random() < 0.15
        self.errands[name] = time.time() + draw.uniform(2, 6) if is_cancelled else 0.0
        slurm("sbatch", *options, user="alice", timeout_s=8)

    def _tidy(self) -> None:
        """Users delete what has ended, some of it."""
        over = [obj for obj in self.witness.latest.gangs if is_over(obj) and not is_deleting(obj)]
        for obj in over[: max(0, len(over) - GANGS)]:
            meta = obj["metadata"]
            sight.api().delete(f"/apis/gangbridge.dev/v1alpha1/namespaces/{NAMESPACE}/gangjobs/{meta['name']}")


def is_over(obj: dict[str, Any]) -> bool:
    """Return whether a GangJob has ended."""
    return obj.get("status", {}).get("phase") in gang.OVER


def is_deleting(obj: dict[str, Any]) -> bool:
    """Return whether somebody has deleted it."""
    return "deletionTimestamp" in obj["metadata"]


def install() -> None:
    """Create the namespace and the queues of the run."""
    queues = [
        {
            "apiVersion": "gangbridge.dev/v1alpha1",
            "kind": "GangQueue",
            "metadata": {"name": name},
            "spec": {
                "fleet": "main",
                "namespaces": {"names": [NAMESPACE]},
                "slurm": {"partition": partition, "account": "physics", "qos": [qos], "user": "alice"},
                "defaults": {"timeLimit": "30m"},
                "limits": {"maxTimeLimit": "2h", "maxGpusPerGang": 512},
            },
        }
        for name, (partition, qos) in QUEUES.items()
    ]
    apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}, *queues)
    # Pods are refused before the controller manager has made it.
    kubectl("wait", "--for=create", "serviceaccount/default", "-n", NAMESPACE, "--timeout=30s")


def uninstall() -> None:
    """Delete the queues: other scenarios count them. Gangs of a failed run keep their namespace."""
    kubectl("delete", "gangqueue", *QUEUES, "--ignore-not-found")
