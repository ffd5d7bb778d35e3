"""The auditor at work beside the loop: every so often, in a thread of its own, sharing nothing with what it checks."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

import structlog
from prometheus_client import CollectorRegistry, Gauge

from auditor.audit import PAUSE_S, audit
from auditor.errors import Unreadable
from auditor.evidence import Evidence
from auditor.violation import Invariant, Violation
from operators.audited import Audited

T = TypeVar("T")

log = structlog.get_logger()


class Auditing:
    """Audits every ``every_s`` seconds while ``leads`` says so, never when that is 0.

    ``last`` is None before the first one has ended.
    """

    def __init__(
        self,
        read: Callable[[], Evidence],
        every_s: float,
        registry: CollectorRegistry,
        *,
        pause_s: float = PAUSE_S,
        leads: Callable[[], bool] = lambda: True,
    ) -> None:
        self.last: Audited | None = None
        self._read = read
        self._every_s = every_s
        self._pause_s = pause_s
        self._leads = leads
        self._told: set[tuple[Invariant, str]] = set()
        self._succeeded = time.monotonic()
        self._violations = Gauge(
            "gangbridge_violations", "Broken invariants in the last audit.", ["invariant"], registry=registry
        )
        self._seconds = Gauge("gangbridge_audit_seconds", "How long the last audit took.", registry=registry)
        age = Gauge("gangbridge_audit_age_seconds", "Seconds since an audit last read both servers.", registry=registry)
        age.set_function(lambda: time.monotonic() - self._succeeded)

    async def run(self) -> None:
        """Audit until cancelled."""
        while True:
            if self._every_s and self._leads():
                await self.audit()
            await asyncio.sleep(self._every_s or 3600)

    async def audit(self) -> None:
        """Audit once."""
        try:
            report = await _in_thread(lambda: audit(self._read, pause_s=self._pause_s))
        except Unreadable as error:
            log.warning("audit_failed", error=str(error))
            self.last = Audited(report=self.last.report if self.last else None, error=str(error))
            return
        self.last, self._succeeded = Audited(report=report), time.monotonic()
        counts = Counter(violation.invariant for violation in report.violations)
        for invariant in Invariant:
            self._violations.labels(invariant=invariant.value).set(counts[invariant])
        self._seconds.set(report.seconds)
        if report.violations:
            log.warning("invariants_broken", violations=len(report.violations), first=report.violations[0].sentence)

    def fresh(self) -> list[Violation]:
        """Return the violations of the last report that were not returned before; what has gone is new again."""
        report = self.last.report if self.last else None
        found = {(each.invariant, each.subject): each for each in report.violations} if report else {}
        new = [violation for key, violation in found.items() if key not in self._told]
        self._told = set(found)
        return new


async def _in_thread(function: Callable[[], T]) -> T:
    """Run ``function`` in a thread that nobody waits for at exit: a silent slurmctld may keep it for a minute."""
    future: Future[T] = Future()

    def work() -> None:
        future.set_running_or_notify_cancel()
        try:
            future.set_result(function())
        except BaseException as error:  # noqa: BLE001 - it is raised where the answer is awaited
            future.set_exception(error)

    threading.Thread(target=work, name="audit", daemon=True).start()
    return await asyncio.wrap_future(future)
