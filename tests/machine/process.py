"""One operator process: the real observer, poller, loop and applier, with a memory and a wall clock of their own."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from operators import apply, events, leader, loop, observer, slurm_poller
from operators.apply import Applier
from operators.kube import reflector
from operators.kube.resources import FLEETS, GANGJOBS, GANGQUEUES
from operators.leader import Deposed, Leadership
from operators.loop import Loop
from operators.observer import Observer
from operators.slurm_poller import SlurmPoller
from tests.kube.fakestore import Store
from tests.machine.clockwork import Clock, Clockwork
from tests.machine.invariants import Violation
from tests.machine.kubeport import KubePort, _since
from tests.machine.network import Network
from tests.machine.slurmctld import Slurmctld
from tests.machine.slurmport import SlurmCalls

_KINDS = {resource.plural: resource for resource in (GANGJOBS, GANGQUEUES, FLEETS)}
_WITH_TIME = (apply, events, leader, loop, observer, reflector, slurm_poller)
POLL_S = 1.0
LEASE_S = 15


class Hands:
    """The module ``time`` as operators see it: that of the process whose code runs."""

    def __init__(self) -> None:
        self.clock = Clock(0.0)
        self.off = 0.0

    def time(self) -> float:
        return self.clock.now + self.off

    def monotonic(self) -> float:
        return self.clock.passed

    def time_ns(self) -> int:
        return int(self.time() * 1e9)


@contextmanager
def borrowed_time(hands: Hands) -> Iterator[None]:
    """Let the operators' modules read their clocks from ``hands``."""
    for module in _WITH_TIME:
        module.time = hands
    try:
        yield
    finally:
        for module in _WITH_TIME:
            module.time = time


class Process:
    """``lagging`` are the plurals whose watch is silent; ``is_frozen`` is SIGSTOP, ``is_deposed`` before the exit."""

    def __init__(
        self,
        name: str,
        *,
        hands: Hands,
        store: Store,
        slurm: Slurmctld,
        who: Callable[[str], AbstractContextManager[None]],
    ) -> None:
        self.name = name
        self.network = Network()
        self.lagging: set[str] = set()
        self.is_frozen = False
        self.is_deposed = False
        self.wall_off = 0.0
        self._hands = hands
        self._store = store
        self._kinds_at = store.version
        self._clockwork = Clockwork(hands.clock)
        own = KubePort(store, self.network, lambda: who(name), deadline_s=LEASE_S / 5)
        self.leadership = Leadership(
            own,  # type: ignore[arg-type]
            identity=name,
            namespace="gangbridge-system",
            duration_s=LEASE_S,
            clock=hands.monotonic,
        )
        guard = self.leadership.guard
        self.client = KubePort(store, self.network, lambda: who(name), guard=guard)
        port = SlurmCalls(slurm, self.network, lambda: who(name), guard)
        self.observer = Observer(self.client, self._wake)  # type: ignore[arg-type]
        self.poller = SlurmPoller(port, POLL_S, self._wake)
        applier = Applier(self.client, port, self.observer)  # type: ignore[arg-type]
        self.loop = Loop(self.client, self.observer, self.poller, applier, self.leadership)  # type: ignore[arg-type]
        self.leadership.on_taken = self._wake
        self._tasks = [
            self._clockwork.create_task(self.leadership.run(), name="leadership"),
            self._clockwork.create_task(self._observe(), name="observer"),
            self._clockwork.create_task(self.poller.run(), name="slurm"),
            self._clockwork.create_task(self.loop.run(), name="loop"),
        ]
        self._tell_all()

    def run(self) -> None:
        """Run until everything waits; raise what no process of ours should ever raise."""
        self._hands.off = self.wall_off
        self._clockwork.run_ready()
        for task in self._tasks:
            problem = task.exception() if task.done() and not task.cancelled() else None
            match problem:
                case None:
                    continue
                case Deposed():
                    self.is_deposed = True
                case Violation():
                    raise problem
                case _:
                    raise AssertionError(f"{self.name}: {task.get_name()} ended by itself") from problem
        if self._clockwork.fault is not None:
            raise AssertionError(f"{self.name}: an exception that nobody took") from self._clockwork.fault

    @property
    def settles_at(self) -> float | None:
        """When the next timer is due, in seconds since the start."""
        return self._clockwork.next_at

    def hears(self, plural: str) -> bool:
        """Return whether the process learns at once what happens to objects of a type, and writes none just now."""
        is_open = any(stream.resource.plural == plural and not stream.is_broken for stream in self.client.streams)
        return is_open and not any(plural in call.name for call in self.network.pending)

    def deliver(self, plural: str = "", most: int | None = None) -> bool:
        """Let watches tell: ``plural`` alone, or all that do not lag. Return whether there was any news."""
        told = [
            stream.deliver(self._store, most)
            for stream in list(self.client.streams)
            if (stream.resource.plural == plural if plural else stream.resource.plural not in self.lagging)
        ]
        if plural in _KINDS or (not plural and not self.lagging & _KINDS.keys()):
            told.append(self._tell_kinds(most))
        return any(told)

    def break_watches(self, error: Exception) -> None:
        """Break every watch. kopf's come back with a list that is silent about what vanished."""
        for stream in list(self.client.streams):
            stream.fail(error)
        self._tell_all()

    def die(self) -> None:
        """SIGKILL."""
        self.network.cut()
        for task in self._tasks:
            task.cancel()
        self._clockwork.run_ready()

    async def _observe(self) -> None:
        await self.leadership.looked.wait()
        await self.observer.run()

    def _wake(self) -> None:
        self.loop.wake()

    def _tell_all(self) -> None:
        self._kinds_at = self._store.version
        for (plural, _, _), obj in sorted(self._store.objects.items()):
            if plural in _KINDS:
                self._tell("ADDED", plural, obj)

    def _tell_kinds(self, most: int | None) -> bool:
        told = 0
        for change in _since(self._store.history, self._kinds_at):
            if told == most:
                break
            self._kinds_at = change.version
            if change.plural in _KINDS:
                self._tell(change.event, change.plural, change.obj)
                told += 1
        return bool(told)

    def _tell(self, event: str, plural: str, obj: dict[str, Any]) -> None:
        self._clockwork.call_soon(self.observer.take, _KINDS[plural], event, obj)
