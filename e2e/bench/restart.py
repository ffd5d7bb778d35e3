"""A crash at scale: how long until an operator that is started again places something new. `make bench-restart`."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
import time
import urllib.request
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import psutil

from e2e.bench import world
from e2e.bench.sight import running_pod, watching
from e2e.bench.table import Row, show
from e2e.demo import background
from e2e.lab import external, fleet, layout, lifecycle
from e2e.operator import LOG, PROBE_PORT, Operator, install
from operators.kube.client import KubeClient
from operators.kube.resources import GANGJOBS, PODS

NODES, GANGS, PODS_PER_GANG, GPUS = 2000, 1000, 2, 4
BATCH = 100
ROUNDS = 3
DRIVER = "gpu.gangbridge.dev"
_LIST = re.compile(r'gangbridge_kube_requests_total\{.*resource="(?P<resource>[\w/]+)",verb="list"\} (?P<count>\S+)')
_RPC = re.compile(r"^\s+(?P<name>[A-Z_]+)\s+\(\s*\d+\) count:(?P<count>\d+)", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """Seconds from the start of the process, and what it cost."""

    ready: float
    submitted: float
    running: float
    bound: float
    rss_mib: float
    worker_mib: float
    lists: Counter[str]
    calls: Counter[str]


@dataclass
class Bench:
    """One fleet, loaded once, and several crashes."""

    client: KubeClient
    operator: Operator = field(default_factory=Operator)
    began: float = field(default_factory=time.monotonic)

    async def run(self) -> list[Restart]:
        await asyncio.to_thread(self.operator.start, 120)
        await world.remove_all(self.client, GANGJOBS)
        await world.until_empty(self.client, GANGJOBS, *world.LEFT, timeout_s=300)
        await world.until_published(self.client, DRIVER, NODES + len(fleet.gpu_nodes()), timeout_s=300)
        self.say(f"{NODES} nodes are published")
        try:
            await self._fill()
            return [await self._crash(number) for number in range(ROUNDS)]
        finally:
            self.say("everything is deleted again")
            await world.remove_all(self.client, GANGJOBS)
            await world.until_empty(self.client, GANGJOBS, *world.LEFT, timeout_s=400)

    async def _fill(self) -> None:
        async with watching(self.client, PODS, running_pod, world.NAMESPACE) as sight:
            for first in range(0, GANGS, BATCH):
                names = [f"old-{number}" for number in range(first, first + BATCH)]
                await asyncio.gather(*(self._apply(name) for name in names))
                await sight.until((first + BATCH) * PODS_PER_GANG, timeout_s=300)
                self.say(f"{first + BATCH} of {GANGS} gangs run")

    async def _apply(self, name: str) -> None:
        await self.client.create(GANGJOBS, world.gang(name, PODS_PER_GANG, GPUS))

    async def _crash(self, number: int) -> Restart:
        # What the last round began is over.
        await asyncio.sleep(5)
        await asyncio.to_thread(self.operator.kill)
        name = f"new-{number}"
        await self._apply(name)
        before, log_from = rpcs(), LOG.stat().st_size
        async with watching(self.client, PODS, _bound_to(f"{world.PREFIX}{name}"), world.NAMESPACE) as sight:
            started = time.time()
            self.operator.launch()
            ready, running = await asyncio.gather(
                asyncio.to_thread(self._until_ready), asyncio.to_thread(_until_running, f"{world.PREFIX}{name}")
            )
            bound = await sight.until(PODS_PER_GANG, timeout_s=120)
        if self.operator.process is None:
            raise RuntimeError("the operator does not run")
        process = psutil.Process(self.operator.process.pid)
        found = Restart(
            ready=ready - started,
            submitted=_logged(log_from, "hold_submitted") - started,
            running=running - started,
            bound=bound - started,
            rss_mib=_peak_mib(process),
            worker_mib=sum(_peak_mib(child) for child in process.children()),
            lists=lists(),
            calls=rpcs() - before,
        )
        self.say(f"ready {found.ready:.1f} s, hold {found.running:.1f} s, pods bound {found.bound:.1f} s")
        return found

    def _until_ready(self) -> float:
        while not self.operator.is_ready():
            if not self.operator.is_alive:
                raise RuntimeError(f"the operator ended; see {LOG}")
            time.sleep(0.05)
        return time.time()

    def say(self, text: str) -> None:
        print(f"[{time.monotonic() - self.began:5.1f} s] {text}", flush=True)


def lists() -> Counter[str]:
    """Return how many list requests the operator has made, by resource."""
    with urllib.request.urlopen(f"http://127.0.0.1:{PROBE_PORT}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    return Counter({found["resource"]: int(float(found["count"])) for found in _LIST.finditer(text)})


def rpcs() -> Counter[str]:
    """Return how many calls slurmctld has had since its start, by type, from everybody."""
    text = world.slurm("sdiag").partition("Remote Procedure Call statistics by message type")[2]
    by_type = text.partition("Remote Procedure Call statistics by user")[0]
    return Counter({found["name"]: int(found["count"]) for found in _RPC.finditer(by_type)})


def rows(found: list[Restart]) -> list[Row]:
    """Return the table."""
    fleet_text = (
        f"{NODES} EXTERNAL/KWOK nodes, {GANGS} running gangs of {PODS_PER_GANG} pods; SIGKILL, then started again"
    )

    def times(name: str) -> str:
        return ", ".join(f"{getattr(restart, name):.1f}" for restart in found) + " s"

    last = found[-1]
    return [
        ("ready", times("ready"), f"{fleet_text}; from the start of the process until /readyz says so"),
        ("first decision carried out", times("submitted"), "its log says that the new hold was submitted"),
        ("new hold RUNNING", times("running"), "squeue shows it; the GangJob was applied while the operator was dead"),
        ("new pods bound", times("bound"), "a watch shows spec.nodeName and no gate; goal: 10 s for 10 000 nodes"),
        ("memory", f"operator {last.rss_mib:.0f} MiB\nworker {last.worker_mib:.0f} MiB", "peak RSS, last round"),
        ("list requests", f"{last.lists.total()}: {_shown(last.lists)}", "large lists are read in pages of 500"),
        ("calls to slurmctld", f"{last.calls.total()}: {_shown(last.calls)}", "by everybody, this squeue too"),
    ]  # fmt: skip


def _shown(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.most_common(6))


def _bound_to(gang: str):
    def key(obj: Any) -> str | None:
        meta, spec = obj["metadata"], obj["spec"]
        is_bound = spec.get("nodeName") and not spec.get("schedulingGates")
        return meta["name"] if is_bound and meta["labels"].get("gangbridge.dev/gang") == gang else None

    return key


def _until_running(name: str, timeout_s: float = 120) -> float:
    deadline = time.time() + timeout_s
    while not world.slurm("squeue", "-h", "-n", name, "-t", "R", "-o", "%i").strip():
        if time.time() > deadline:
            raise TimeoutError(f"no hold of {name} runs after {timeout_s} s")
        time.sleep(0.1)
    return time.time()


def _logged(offset: int, event: str) -> float:
    with LOG.open() as log:
        log.seek(offset)
        lines = (json.loads(line) for line in log if line.startswith("{"))
        first = next(line for line in lines if line["event"] == event)
    return datetime.fromisoformat(first["timestamp"]).timestamp()


def _peak_mib(process: psutil.Process) -> float:
    with open(f"/proc/{process.pid}/status") as status:  # noqa: PTH123
        kib = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
    return kib / 1024


async def measure() -> list[Restart]:
    current = asyncio.current_task()
    if current is not None:
        # Whoever ends it early gets a clean lab back too.
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, current.cancel)
    async with await KubeClient.connect(os.environ["KUBECONFIG"], concurrency=64) as client:
        bench = Bench(client)
        try:
            return await bench.run()
        finally:
            await asyncio.to_thread(bench.operator.stop)


def main() -> None:
    if background.stop():
        print("the operator that ran in the background was stopped for the measurement")
    lab = layout.layout()
    install()
    world.create()
    before = len(external.present(lab))
    with lifecycle.exclusive(lab):
        lifecycle.set_external(lab, NODES)
    try:
        show(rows(asyncio.run(measure())), f"fleet: {NODES} EXTERNAL + {len(fleet.gpu_nodes())} slurmd nodes")
    finally:
        world.delete()
        with lifecycle.exclusive(lab):
            lifecycle.set_external(lab, before)


if __name__ == "__main__":
    sys.exit(main())
