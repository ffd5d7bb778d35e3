"""The newest view of slurmctld, kept by one task; None while it does not answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress

import structlog

from bridge.errors import SlurmError
from bridge.model.slurm import SlurmInfo, SlurmView
from bridge.slurm.port import SlurmPort

log = structlog.get_logger()

TOPOLOGY_S = 60.0
"""Switches move rarely: their topology is read so often, and whenever a controller comes back."""


class SlurmPoller:
    """Polls every ``interval_s``, and at once when asked. While ``view`` is None, ``error`` says why."""

    def __init__(self, port: SlurmPort, interval_s: float, on_change: Callable[[], None]) -> None:
        self.view: SlurmView | None = None
        self.info: SlurmInfo | None = None
        self.topology = ""
        """Slurm's topologies as text (``SlurmPort.topology``), as old as the last minute."""
        self.error = "slurmctld has not answered yet"
        self.polls = 0
        self._port = port
        self._interval_s = interval_s
        self._on_change = on_change
        self._wanted = asyncio.Event()
        self._waiters: list[asyncio.Future[None]] = []
        self._topology_read = 0.0

    async def run(self) -> None:
        """Poll until cancelled."""
        while True:
            self._wanted.clear()
            waiters, self._waiters = self._waiters, []
            before = self._facts()
            await self._poll()
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)
            # Who asked looks by himself; a call that slurmctld refuses must not wake the loop to make it again at once.
            if not waiters or self._facts() != before:
                self._on_change()
            # NB: not wait_for(): before Python 3.12 it loses a cancellation that comes with what it waits for.
            with suppress(TimeoutError):
                async with asyncio.timeout(self._interval_s):
                    await self._wanted.wait()

    async def refresh(self) -> None:
        """Return after a poll that began after this call; whether it succeeded is in ``view``."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        self._wanted.set()
        await waiter

    def lost(self, error: str) -> None:
        """Take note that another call got no answer: what was seen before it counts no longer.

        The next look comes when it is due: a call that fails each time at once would have us look without a pause.
        """
        self.view, self.info, self.error = None, None, error
        self._on_change()

    def _facts(self) -> object:
        return None if self.view is None else (self.view.jobs, self.view.nodes)

    async def _poll(self) -> None:
        self.polls += 1
        try:
            if self.info is None:
                self.info, self._topology_read = await self._port.info(), 0.0
            if time.monotonic() - self._topology_read > TOPOLOGY_S:
                self.topology, self._topology_read = await self._port.topology(), time.monotonic()
            self.view = await self._port.view()
        except SlurmError as error:
            if self.view is not None or str(error) != self.error:
                log.warning("slurm_unavailable", error=str(error))
            self.view, self.error = None, str(error)
            # A controller that comes back may be another version.
            self.info = None
