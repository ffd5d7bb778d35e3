"""The Slurm port on the fake slurmctld, each call at the mercy of a network."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractContextManager
from typing import Any

from bridge.errors import SlurmUnavailable
from bridge.model.hold import ExitStatus, HoldRequest
from bridge.model.slurm import SlurmInfo, SlurmView
from tests.machine.network import Network
from tests.machine.slurmctld import Slurmctld


def silence() -> SlurmUnavailable:
    """Return the error of a call that got no answer."""
    return SlurmUnavailable("no answer")


def at_once(call: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine of the fake slurmctld, which never waits."""
    try:
        call.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("the fake slurmctld waited")


class SlurmCalls:
    """``SlurmPort``. ``who`` is entered while a call is carried out, ``guard`` asked before a write is sent.

    A write takes along the last view that its sender had been given: on no later one was it decided.
    """

    def __init__(
        self,
        slurm: Slurmctld,
        network: Network,
        who: Callable[[], AbstractContextManager[None]],
        guard: Callable[[str], None],
    ) -> None:
        self._guard = guard
        self._slurm = slurm
        self._network = network
        self._who = who
        self._known: SlurmView | None = None

    async def info(self) -> SlurmInfo:
        return await self._read("info", self._slurm.info)

    async def view(self) -> SlurmView:
        self._known = await self._read("view", self._slurm.view)
        return self._known

    async def topology(self) -> str:
        return await self._read("topology", self._slurm.topology)

    async def allocate(self, request: HoldRequest) -> int:
        return await self._write("allocate", self._slurm.allocate, request)

    async def repin(self, job_id: int, nodes: Sequence[str]) -> None:
        await self._write("repin", self._slurm.repin, job_id, nodes)

    async def complete(self, job_id: int, status: ExitStatus) -> None:
        await self._write("complete", self._slurm.complete, job_id, status)

    async def cancel(self, job_id: int) -> None:
        await self._write("cancel", self._slurm.cancel, job_id)

    async def set_extra(self, nodes: Sequence[str], text: str) -> None:
        await self._write("set_extra", self._slurm.set_extra, nodes, text)

    async def drain(self, nodes: Sequence[str], reason: str) -> None:
        await self._write("drain", self._slurm.drain, nodes, reason)

    async def resume(self, nodes: Sequence[str], reason: str) -> None:
        await self._write("resume", self._slurm.resume, nodes, reason)

    async def close(self) -> None:
        """Do nothing."""

    async def _read(self, name: str, method: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        def work() -> Any:
            with self._who():
                return at_once(method())

        return await self._network.send(name, work, silence, is_write=False)

    async def _write(self, name: str, method: Callable[..., Coroutine[Any, Any, Any]], *values: Any) -> Any:
        known = self._known

        def work() -> Any:
            self._slurm.known = known
            with self._who():
                return at_once(method(*values))

        self._guard(name)
        said = " ".join([name, *(str(value) for value in values if not isinstance(value, HoldRequest))])
        return await self._network.send(said, work, silence, is_write=True)
