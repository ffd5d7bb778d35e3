"""An event loop without sockets and without time of its own: what is ready runs when a test says so."""

from __future__ import annotations

import asyncio
import contextvars
import heapq
import itertools
from asyncio import events
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any


class Clock:
    """Time that passes when a test says so; the wall clocks of operators may differ from it."""

    def __init__(self, start: float) -> None:
        self.start = start
        self.passed = 0.0

    @property
    def now(self) -> float:
        """The true time, in seconds since the epoch."""
        return self.start + self.passed


class Clockwork(asyncio.AbstractEventLoop):
    """Runs coroutines in the order in which they became ready. ``fault`` is the first exception that nobody took."""

    def __init__(self, clock: Clock) -> None:
        self.fault: BaseException | None = None
        self._clock = clock
        self._ready: deque[asyncio.Handle] = deque()
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._order = itertools.count()

    def run_ready(self) -> None:
        """Run until everything waits for an answer or for a time that has not come."""
        events._set_running_loop(self)
        try:
            while True:
                while self._timers and self._timers[0][0] <= self.time():
                    self._ready.append(heapq.heappop(self._timers)[2])
                if not self._ready:
                    return
                handle = self._ready.popleft()
                if not handle.cancelled():
                    handle._run()
        finally:
            events._set_running_loop(None)

    @property
    def next_at(self) -> float | None:
        """When the next timer is due, in the loop's time."""
        return min((at for at, _, handle in self._timers if not handle.cancelled()), default=None)

    # What asyncio asks of a loop

    def time(self) -> float:
        return self._clock.passed

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(self, coro: Coroutine[Any, Any, Any], *, name: str | None = None, **_: Any) -> asyncio.Task[Any]:
        return asyncio.Task(coro, loop=self, name=name)

    def call_soon(
        self, callback: Callable[..., Any], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_later(
        self, delay: float, callback: Callable[..., Any], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[..., Any], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        heapq.heappush(self._timers, (when, next(self._order), handle))
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """asyncio's hook; a cancelled timer is dropped when it is due."""

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        self.fault = self.fault or context.get("exception")

    async def shutdown_asyncgens(self) -> None:
        """Do nothing: generators are closed by who uses them."""
