"""Prepare and unprepare a claim on this node."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

import structlog

from operators.driver.cdi import PreparedClaim, PreparedDevice
from operators.driver.claims import Allotment, ClaimRef, allotments
from operators.driver.errors import ApiUnavailable, ClaimRefused, JournalError
from operators.driver.journal import Journal
from operators.driver.nodes import HostNodes
from operators.driver.slices import PoolReader

log = structlog.get_logger(__name__)


class Plugin:
    """Both calls may come any number of times, in any order, from any thread, and after a crash of anybody."""

    def __init__(
        self,
        *,
        node: str,
        read_claim: Callable[[ClaimRef], Mapping[str, Any]],
        pool: PoolReader,
        host: HostNodes,
        journal: Journal,
    ) -> None:
        self._node = node
        self._read_claim = read_claim
        self._pool = pool
        self._host = host
        self._journal = journal
        self._calls = _Calls()

    def prepare(self, ref: ClaimRef) -> PreparedClaim:
        """What the claim's containers are to get; the spec is on disk when this returns.

        Raises a DriverError when that would be wrong or cannot be known, OSError when the disk says no.
        """
        call = self._calls.begin(ref)
        held = self._held(ref)
        try:
            wanted = allotments(self._read_claim(ref), ref, node=self._node)
        except ApiUnavailable:
            if held is None:
                raise
            # An allocation cannot change while it is in use, and what is on disk is in use until unprepare.
            log.info("prepared_from_journal", claim=str(ref))
            return held
        if held is None:
            return self._give(call, self._locate(ref, wanted))
        if held.allotments != wanted:
            raise ClaimRefused(
                f"claim {ref} is prepared with {_names(held.allotments)} and now allocates {_names(wanted)}: "
                f"it must be unprepared first (spec {self._journal.path(ref.uid)})"
            )
        return held

    def unprepare(self, ref: ClaimRef) -> bool:
        """Takes the claim's spec away; False if there was none. Asks nobody but the disk."""
        with self._journal.lock():
            self._calls.withdraw(ref)
            return self._journal.remove(ref.uid)

    def _held(self, ref: ClaimRef) -> PreparedClaim | None:
        try:
            return self._journal.find(ref.uid)
        except JournalError as error:
            # Its own claim may replace it: the allocation says what it must have been.
            log.warning("spec_unreadable", claim=str(ref), error=str(error))
            return None

    def _locate(self, ref: ClaimRef, wanted: tuple[Allotment, ...]) -> PreparedClaim:
        devices = []
        for allotment in wanted:
            address = self._pool.address(allotment.device)
            devices.append(
                PreparedDevice(allotment=allotment, index=address.index, node=self._host.device(address)),
            )
        return PreparedClaim(claim=ref, devices=tuple(devices), shared=self._host.shared())

    def _give(self, call: object, prepared: PreparedClaim) -> PreparedClaim:
        with self._journal.lock():
            if not self._calls.is_current(prepared.claim, call):
                raise ClaimRefused(f"claim {prepared.claim} was unprepared or asked for again meanwhile")
            for other in self._journal.others(prepared.claim.uid):
                self._refuse_shared(prepared, other)
            self._journal.write(prepared)
        return prepared

    def _refuse_shared(self, prepared: PreparedClaim, other: PreparedClaim) -> None:
        """The last line of defence against a double booking: whatever the API says, a held device stays held.

        Device names may change with a new pool generation, device nodes may not: either clash counts.
        """
        names = {str(device.allotment) for device in other.devices}
        paths = {device.node.path for device in other.devices}
        for device in prepared.devices:
            if str(device.allotment) in names or device.node.path in paths:
                raise ClaimRefused(
                    f"claim {prepared.claim}: device {device.allotment} ({device.node.path}) is already prepared for "
                    f"claim {other.claim}, spec {self._journal.path(other.claim.uid)}"
                )


class _Calls:
    """The newest prepare call per claim, so that one that kubelet gave up cannot undo a later unprepare."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._newest: dict[str, object] = {}

    def begin(self, ref: ClaimRef) -> object:
        call = object()
        with self._lock:
            self._newest[ref.uid] = call
        return call

    def withdraw(self, ref: ClaimRef) -> None:
        with self._lock:
            self._newest.pop(ref.uid, None)

    def is_current(self, ref: ClaimRef, call: object) -> bool:
        with self._lock:
            return self._newest.get(ref.uid) is call


def _names(found: tuple[Allotment, ...]) -> str:
    return ", ".join(str(allotment) for allotment in found)
