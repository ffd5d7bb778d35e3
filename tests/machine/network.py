"""What lies between one operator and the two servers: every call waits here until a test decides its fate."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Work = Callable[[], Any]
"""Carries a request out on a server; returns the answer or raises what the server says."""


@dataclass(eq=False, slots=True, kw_only=True)
class Call:
    """A request on its way and the answer to it; its caller gives up at ``late_at``.

    ``is_write`` says that carrying it out can change something.
    """

    name: str
    is_write: bool
    work: Work
    silence: Callable[[], Exception]
    future: asyncio.Future[Any]
    late_at: float
    is_committed: bool = False
    answer: Any = None
    error: Exception | None = None

    def commit(self) -> None:
        """Let the server carry it out, once."""
        if self.is_committed:
            return
        self.is_committed = True
        try:
            self.answer = self.work()
        except Exception as error:  # noqa: BLE001 - whatever the server says is the answer
            self.error = error


@dataclass
class Network:
    """``pending`` are calls without an answer, oldest first; ``adrift`` are requests whose sender no longer waits.

    Calls whose name begins with ``jammed`` get none.
    """

    pending: list[Call] = field(default_factory=list)
    adrift: list[Call] = field(default_factory=list)
    is_cut: bool = False
    jammed: str = ""

    async def send(
        self, name: str, work: Work, silence: Callable[[], Exception], *, is_write: bool, deadline_s: float = 15.0
    ) -> Any:
        """Make a call; ``silence`` makes the error of a call that gets no answer."""
        if self.is_cut:
            raise asyncio.CancelledError
        if self.jammed and name.startswith(self.jammed):
            raise silence()
        loop = asyncio.get_running_loop()
        call = Call(
            name=name,
            is_write=is_write,
            work=work,
            silence=silence,
            future=loop.create_future(),
            late_at=loop.time() + deadline_s,
        )
        self.pending.append(call)
        try:
            return await call.future
        finally:
            # Whoever gives up waiting does not call the request back.
            if call in self.pending:
                self._let_go(call)

    # Fates

    def answer(self, call: Call) -> None:
        """Carry the call out, if that was not done, and answer."""
        call.commit()
        self._end(call, call.error)

    def refuse(self, call: Call, error: Exception) -> None:
        """Answer with an error, without carrying anything out."""
        self._end(call, error)

    def lose_answer(self, call: Call) -> None:
        """Carry the call out; the caller never learns of it."""
        call.commit()
        self._end(call, call.silence())

    def drop(self, call: Call) -> None:
        """Lose the request."""
        self._end(call, call.silence())

    def delay(self, call: Call) -> None:
        """Let the caller give up; the request will arrive later, or never."""
        self._let_go(call)
        self._end(call, call.silence())

    def cut(self) -> None:
        """The caller died: what it has sent is under way."""
        self.is_cut = True
        for call in list(self.pending):
            self._let_go(call)

    def _let_go(self, call: Call) -> None:
        self.pending.remove(call)
        if call.is_write and not call.is_committed:
            self.adrift.append(call)

    def _end(self, call: Call, error: Exception | None) -> None:
        if call in self.pending:
            self.pending.remove(call)
        if call.future.done():
            return
        if error is None:
            call.future.set_result(call.answer)
        else:
            call.future.set_exception(error)
