"""One operator process: reflectors, kopf, the Slurm poller and the loop, until a signal or the first failure."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import time
from typing import Any

import kopf
import structlog
from prometheus_client import CollectorRegistry, Gauge

from auditor.audit import read_servers
from bridge.slurm.port import SlurmPort
from operators.apply import Applier
from operators.audit import Auditing
from operators.handlers.kinds import build_registry, build_settings
from operators.kube.client import Guard, KubeClient
from operators.kube.resources import FLEETS, GANGJOBS, GANGQUEUES
from operators.leader import Leadership, own_identity
from operators.loop import Loop
from operators.observer import Observer
from operators.probes import serve
from operators.settings import Adapter, Settings
from operators.slurm_poller import SlurmPoller

log = structlog.get_logger()

_KINDS = {resource.plural: resource for resource in (GANGJOBS, GANGQUEUES, FLEETS)}


def build_port(settings: Settings, guard: Guard | None = None) -> SlurmPort:
    """Return the adapter that the settings name; ``guard`` is asked before it writes. Nothing is started yet."""
    if settings.adapter is Adapter.CLI:
        from bridge.slurm.cli import CliPort  # noqa: PLC0415 - the other adapter's needs stay untouched

        return CliPort(settings.slurm_prefix, guard=guard)
    from bridge.slurm.client import PyslurmPort  # noqa: PLC0415

    command = [*settings.slurm_prefix, settings.worker_python, "-m", "bridge.slurm.worker"]
    return PyslurmPort(command, guard=guard)


async def run(settings: Settings) -> None:
    """Run the operator until SIGTERM or SIGINT. Raises what ended it otherwise: the caller's supervisor restarts it."""
    if settings.kubeconfig:
        # kopf reads the variable, not our settings.
        os.environ["KUBECONFIG"] = settings.kubeconfig
    registry = CollectorRegistry()
    async with await KubeClient.connect(settings.kubeconfig, deadline_s=settings.lease_duration_s / 5) as own:
        leadership = Leadership(
            own,
            identity=own_identity(),
            namespace=settings.lease_namespace,
            duration_s=settings.lease_duration_s,
            registry=registry,
        )
        port = build_port(settings, leadership.guard)
        try:
            async with await KubeClient.connect(
                settings.kubeconfig, concurrency=settings.concurrency, registry=registry, guard=leadership.guard
            ) as client:
                await _run(settings, client, port, leadership)
        finally:
            await port.close()


async def _run(settings: Settings, client: KubeClient, port: SlurmPort, leadership: Leadership) -> None:
    wakers: list[Any] = []

    def wake() -> None:
        for waker in wakers:
            waker()

    observer = Observer(client, wake)
    poller = SlurmPoller(port, settings.poll_s, wake)
    auditing = Auditing(
        lambda: read_servers(settings.kubeconfig, settings.slurm_prefix),
        settings.audit_s,
        client.traffic.registry,
        leads=lambda: leadership.leads,
    )
    loop = Loop(client, observer, poller, Applier(client, port, observer), leadership, auditing)
    brake = Gauge("gangbridge_brake", "1 while too much looks lost to go on.", registry=client.traffic.registry)
    brake.set_function(lambda: loop.is_braked)
    wakers.append(loop.wake)
    leadership.on_taken = loop.wake
    kopf_ready, kopf_stop, synced = asyncio.Event(), asyncio.Event(), asyncio.Event()
    registry = build_registry(lambda plural, event, obj: observer.take(_KINDS[plural], event, obj))

    async def observe() -> None:
        # What is listed after the Lease was taken need not be listed again.
        await leadership.looked.wait()
        await observer.run()

    def is_ready() -> bool:
        return synced.is_set() and poller.view is not None

    runner = await serve(settings.probe_port, client.traffic.registry, lambda: loop.beat.at, is_ready)
    handlers = kopf.operator(
        registry=registry, settings=build_settings(), clusterwide=True, ready_flag=kopf_ready, stop_flag=kopf_stop
    )
    kopf_task = asyncio.create_task(handlers, name="kopf")
    tasks = [
        asyncio.create_task(leadership.run(), name="leadership"),
        asyncio.create_task(observe(), name="observer"),
        asyncio.create_task(poller.run(), name="slurm"),
        asyncio.create_task(loop.run(), name="loop"),
        asyncio.create_task(auditing.run(), name="audit"),
    ]
    announcing = asyncio.create_task(_announce(observer, synced, time.monotonic()))
    try:
        await kopf_ready.wait()
        await _until_stopped([*tasks, kopf_task])
    finally:
        # kopf waits for every other task of the event loop before it ends: ours have to go first.
        for task in (*tasks, announcing):
            task.cancel()
        await asyncio.gather(*tasks, announcing, return_exceptions=True)
        await leadership.release()
        await runner.cleanup()
        kopf_stop.set()
        await asyncio.gather(kopf_task, return_exceptions=True)


async def _until_stopped(tasks: list[asyncio.Task[None]]) -> None:
    """Return at SIGTERM or SIGINT; raise as soon as a task ends by itself, because none of them ever should."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        # NB: after kopf's start, which sets handlers of its own.
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    stopping = asyncio.create_task(stop.wait())
    done, _ = await asyncio.wait({stopping, *tasks}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    for task in done - {stopping}:
        task.result()
        raise RuntimeError(f"{task.get_name()} ended by itself")


async def _announce(observer: Observer, synced: asyncio.Event, started: float) -> None:
    await observer.synced()
    # What was just read stays: the collector need not walk through it again and again (60 ms for 10 000 objects).
    gc.collect()
    gc.freeze()
    synced.set()
    log.info("operator_ready", seconds=round(time.monotonic() - started, 2))
