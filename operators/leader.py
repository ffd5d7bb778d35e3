"""Which replica acts: the holder of a Lease, and only as long as it can prove that nobody else may have taken it.

The holder acts for two thirds of the Lease's duration after it began its last successful renewal; anybody else takes
the Lease after having seen it unchanged for all of it. Each measures on a clock of its own that goes on while the
process or the machine sleeps, so no two clocks are ever compared and setting one changes nothing.
"""

from __future__ import annotations

import asyncio
import math
import os
import secrets
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass

import structlog
from prometheus_client import CollectorRegistry, Gauge

from bridge.errors import BridgeError
from operators import failpoints
from operators.kube.client import KubeClient, Object
from operators.kube.errors import KubeError, NotFound
from operators.kube.resources import LEASES
from operators.lease import NAME, Record, Term, held, may_take, read, released

log = structlog.get_logger()


class Deposed(BridgeError):
    """We do not lead, or cannot prove it any more: nothing was written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sighting:
    version: str
    at: float


def own_identity() -> str:
    """Return the pod's name, which its containers have one after the other; elsewhere a name used by nobody before."""
    return os.environ.get("POD_NAME") or f"{socket.gethostname()}-{secrets.token_hex(4)}"


def boottime() -> float:
    """Return seconds on the clock that counts suspension and that nobody can set."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Leadership:
    """This process's part in the election. ``client`` serves nothing else: a renewal must not queue behind other calls.

    ``term`` is the last one of this process, ``looked`` set once the Lease was looked at, whatever came of it.
    ``on_taken`` is called at the beginning of a term.
    """

    def __init__(
        self,
        client: KubeClient,
        *,
        identity: str,
        namespace: str,
        duration_s: int,
        clock: Callable[[], float] = boottime,
        registry: CollectorRegistry | None = None,
    ) -> None:
        self.term: Term | None = None
        self.looked = asyncio.Event()
        self.on_taken: Callable[[], None] = lambda: None
        self._client = client
        self._identity = identity
        self._namespace = namespace
        self._duration_s = duration_s
        self._clock = clock
        self._acts_until = -math.inf
        self._seen: _Sighting | None = None
        if registry is not None:
            self._show(registry)

    @property
    def leads(self) -> bool:
        """True while nobody else can have taken the Lease."""
        return self._clock() < self._acts_until

    def require(self) -> None:
        """Raise ``Deposed`` unless we lead. No ``await`` may come between it and the call that it is asked for."""
        if not self.leads:
            raise Deposed("this replica does not lead")

    def guard(self, write: str) -> None:
        """``require()`` on behalf of a call named ``write`` that begins when this returns."""
        self.require()
        failpoints.reach(f"checked:{write}")

    async def run(self) -> None:
        """Take part until cancelled. Raises ``Deposed`` when another has taken over from us: the process is to end."""
        while True:
            holds = await self.step()
            self.looked.set()
            # Whoever waits looks often: a Lease that was released is taken at once.
            await asyncio.sleep(self._duration_s / (5 if holds else 15))

    async def step(self) -> bool:
        """Look at the Lease, and renew or take it if that is due; return whether that was done.

        A renewal that fails is none; the term goes on with the next one that succeeds, even a late one, because that
        proves that the Lease was ours all the time. Raises ``Deposed`` when it is no more.
        """
        began = self._clock()
        try:
            return await self._step(began)
        except KubeError as error:
            if self.term is not None:
                log.warning("lease_not_renewed", acts_for_s=round(self._acts_until - began, 1), error=str(error))
            else:
                log.debug("lease_not_taken", error=str(error))
            return False

    async def release(self) -> None:
        """Give the Lease up, so that another takes it at once; for when everything that writes has ended."""
        self._acts_until = -math.inf
        term, self.term = self.term, None
        try:
            lease = await self._read()
            if lease is not None and term is not None and _is_of(term, read(lease)):
                await self._client.replace(LEASES, released(lease))
                log.info("leadership_released", identity=term.identity, epoch=term.epoch)
        except KubeError as error:
            log.warning("lease_not_released", error=str(error))

    async def _step(self, began: float) -> bool:
        lease = await self._read()
        record = None if lease is None else read(lease)
        if self.term is not None and (record is None or not _is_of(self.term, record)):
            self._acts_until = -math.inf
            raise Deposed(f"the Lease is held by {record.holder or 'nobody'}" if record else "the Lease was deleted")
        if self.term is None and not self._may_take(record):
            return False
        term = self.term or self._next_term(record)
        wanted = held(lease, term, namespace=self._namespace, duration_s=self._duration_s, now=time.time())
        await (self._client.replace(LEASES, wanted) if lease else self._client.create(LEASES, wanted))
        self._acts_until = began + self._duration_s * 2 / 3
        if self.term is None:
            self.term = term
            log.info("leadership_taken", identity=term.identity, epoch=term.epoch, before=record and record.holder)
            self.on_taken()
        return True

    def _may_take(self, record: Record | None) -> bool:
        version, now = record.version if record else "", self._clock()
        if self._seen is None or self._seen.version != version:
            self._seen = _Sighting(version=version, at=now)
        unchanged_s = now - self._seen.at
        return may_take(record, identity=self._identity, unchanged_s=unchanged_s, duration_s=self._duration_s)

    def _next_term(self, record: Record | None) -> Term:
        epoch = record.epoch + 1 if record else 1
        return Term(identity=self._identity, epoch=epoch, since=time.time(), taken_at=time.monotonic())

    async def _read(self) -> Object | None:
        try:
            return await self._client.get(LEASES, NAME, self._namespace)
        except NotFound:
            return None

    def _show(self, registry: CollectorRegistry) -> None:
        leads = Gauge("gangbridge_leader", "Whether this replica acts.", registry=registry)
        leads.set_function(lambda: float(self.leads))
        epoch = Gauge("gangbridge_leader_epoch", "Epoch of this replica's term, 0 without one.", registry=registry)
        epoch.set_function(lambda: float(self.term.epoch if self.term else 0))


def _is_of(term: Term, record: Record) -> bool:
    return (record.holder, record.epoch) == (term.identity, term.epoch)
