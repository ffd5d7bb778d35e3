"""The one writer: observe, plan, apply, publish; again at once while there was something to do."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, replace
from typing import Any

import structlog

from bridge.errors import BridgeError, SlurmRejected, SlurmUnavailable, SpecError
from bridge.lifecycle.actions import Decision
from bridge.lifecycle.brake import Brake
from bridge.lifecycle.plan import Chore, Plan, plan
from bridge.lifecycle.refusal import refused
from bridge.model.fleet import FleetSpec
from bridge.model.gang import Gang, GangStatus
from operators import failpoints
from operators.apply import Applier
from operators.audit import Auditing
from operators.events import Recorder
from operators.kube.client import KubeClient
from operators.kube.errors import Conflict, Forbidden, Invalid, KubeError, NotFound
from operators.kube.resources import FLEETS, GANGJOBS
from operators.leader import Leadership
from operators.lease import Term
from operators.observer import Observer
from operators.slurm_poller import SlurmPoller
from operators.status import fleet_status, gang_status

log = structlog.get_logger()

SETTLE_S = 0.01
"""Changes that come within this time share a cycle."""
AMBIGUOUS_S = 30
"""How long nothing is submitted again after a submission without an answer: it may still be carried out."""
BACKOFF_S = 15
COSMETIC_S = 1
"""Counts of started pods are published at most so often per gang: 64 gangs start hundreds of pods within seconds."""
FLEET_STATUS_S = 2


@dataclass
class Beat:
    """When the last cycle ended (monotonic seconds), for the liveness probe."""

    at: float = 0.0
    cycles: int = 0


class Loop:
    """Runs cycles one after the other while this replica leads; woken by changes of either server."""

    def __init__(
        self,
        client: KubeClient,
        observer: Observer,
        poller: SlurmPoller,
        applier: Applier,
        leadership: Leadership,
        auditing: Auditing | None = None,
    ) -> None:
        self.beat = Beat(at=time.monotonic())
        self.is_braked = False
        self._client = client
        self._observer = observer
        self._poller = poller
        self._applier = applier
        self._leadership = leadership
        self._auditing = auditing
        self.events = Recorder(client)
        self._wake = asyncio.Event()
        self._held_back: dict[str, float] = {}
        """Gang uids and until when (monotonic seconds) nothing is submitted for them."""
        self._term: Term | None = None
        self._published: dict[str, float] = {}
        self._fleet_conditions: list[dict[str, Any]] = []
        self._fleet_published = 0.0
        self._fleet_facts: object = None

    def wake(self) -> None:
        """Ask for a cycle."""
        self._wake.set()

    async def run(self) -> None:
        """Cycle until cancelled. A replica that does not lead only wakes up, so that its probe sees it alive."""
        await self._observer.synced()
        while True:
            self._wake.clear()
            busy = self._leadership.leads and await self._caught_up() and await self.cycle()
            self.beat = Beat(at=time.monotonic(), cycles=self.beat.cycles + 1)
            if not busy:
                await self._wake.wait()
                await asyncio.sleep(SETTLE_S)

    async def _caught_up(self) -> bool:
        """Read both servers anew at the beginning of a term: the leader before us wrote until a moment ago."""
        term = self._leadership.term
        if term is not None and term != self._term:
            try:
                await self._observer.read_since(term.taken_at)
            except KubeError as error:
                log.warning("term_not_begun", error=str(error))
                return False
            await self._poller.refresh()
            self._term = term
        return True

    async def cycle(self) -> bool:
        """Run one cycle; return whether anything was done."""
        gangs = {gang.uid for gang in self._observer.gangs.by_key.values()}
        self._published = {uid: at for uid, at in self._published.items() if uid in gangs}
        self._held_back = {uid: until for uid, until in self._held_back.items() if until > time.monotonic()}
        snapshot = self._observer.snapshot(self._poller.view, frozenset(self._held_back), self._poller.topology)
        decided = plan(snapshot)
        work = [self._decision(decision) for decision in decided.decisions if decision.stages or decision.status]
        work += [self._chore(chore) for chore in decided.chores]
        self._note_brake(snapshot.fleet, decided.brake)
        done = await asyncio.gather(*work)
        await self._publish_fleet(snapshot.fleet, decided)
        if self._applier.touched_slurm:
            self._applier.touched_slurm = False
            # Waiting for a slurmctld that has just not answered would stop the loop for another deadline.
            if self._poller.view is not None:
                await self._poller.refresh()
        return any(done)

    async def _decision(self, decision: Decision) -> bool:
        """Carry out one gang's stages, then publish its status; a refusal becomes the status instead."""
        gang, status = decision.gang, decision.status
        did = any(decision.stages)
        try:
            await self._applier.run(decision.stages)
        except (Conflict, NotFound) as error:
            log.debug("action_outdated", gang=f"{gang.namespace}/{gang.name}", error=str(error))
            return False
        except SlurmUnavailable as error:
            log.warning("submission_ambiguous", gang=f"{gang.namespace}/{gang.name}", error=str(error))
            self._hold_back(gang.uid, AMBIGUOUS_S)
            self._poller.lost(str(error))
            return False
        except (SlurmRejected, Invalid, Forbidden, SpecError) as error:
            log.warning("action_refused", gang=f"{gang.namespace}/{gang.name}", error=str(error))
            self._hold_back(gang.uid, BACKOFF_S)
            status, did = refused(gang, error, now=int(time.time())), False
        except BridgeError as error:
            log.warning("action_failed", gang=f"{gang.namespace}/{gang.name}", error=str(error))
            return False
        if status is not None and status != gang.status:
            did = await self._publish(decision, status) or did
        return did

    async def _publish(self, decision: Decision, status: GangStatus) -> bool:
        gang = decision.gang
        raw = self._observer.raw(GANGJOBS, gang.namespace, gang.name)
        if raw is None or raw["metadata"]["uid"] != gang.uid or self._is_too_soon(gang, status):
            return False
        patch = {
            "metadata": {"resourceVersion": raw["metadata"]["resourceVersion"]},
            "status": gang_status(gang, status),
        }
        failpoints.reach(f"before:Status{status.phase}")
        try:
            stored = await self._client.patch(
                GANGJOBS, gang.name, patch, namespace=gang.namespace, subresource="status"
            )
        except (Conflict, NotFound):
            return False
        except BridgeError as error:
            log.warning("status_failed", gang=f"{gang.namespace}/{gang.name}", error=str(error))
            return False
        failpoints.reach(f"after:Status{status.phase}")
        self._published[gang.uid] = time.monotonic()
        self._observer.observe(GANGJOBS, stored)
        self.events.gang_changed(gang, status)
        return True

    def _is_too_soon(self, gang: Gang, status: GangStatus) -> bool:
        """Return whether only counts have changed since a moment ago: a later cycle will publish them."""
        old = gang.status
        shown = replace(status, ready_pods=old.ready_pods, pods=old.pods, message=old.message, conditions=())
        same = [(item.type, item.status, item.reason) for item in status.conditions] == [
            (item.type, item.status, item.reason) for item in old.conditions
        ]
        is_cosmetic = same and shown == replace(old, conditions=())
        return is_cosmetic and time.monotonic() - self._published.get(gang.uid, 0.0) < COSMETIC_S

    async def _chore(self, chore: Chore) -> bool:
        try:
            await self._applier.run(chore.stages)
        except BridgeError as error:
            log.debug("chore_failed", key=chore.key, error=str(error))
            return False
        return any(chore.stages)

    async def _publish_fleet(self, fleet: FleetSpec | None, decided: Plan) -> None:
        """Publish the Fleet's status when it says something new, at most every few seconds."""
        if fleet is None or time.monotonic() - self._fleet_published < FLEET_STATUS_S:
            return
        status = fleet_status(
            decided.view,
            decided.decisions,
            self._poller.info,
            self._poller.error,
            brake=decided.brake,
            audited=self._auditing.last if self._auditing else None,
            previous=self._fleet_conditions,
            now=int(time.time()),
            leader=self._leadership.term,
        )
        self._fleet_conditions = status["conditions"]
        facts = {key: value for key, value in status.items() if key != "lastSyncTime"}
        if facts == self._fleet_facts and time.monotonic() - self._fleet_published < 15 * FLEET_STATUS_S:
            return
        raw = self._observer.raw(FLEETS, "", fleet.name)
        if raw is None:
            return
        patch = {"metadata": {"resourceVersion": raw["metadata"]["resourceVersion"]}, "status": status}
        try:
            stored = await self._client.patch(FLEETS, fleet.name, patch, subresource="status")
        except BridgeError as error:
            log.warning("fleet_status_failed", error=str(error))
            return
        self._observer.observe(FLEETS, stored)
        self._fleet_published, self._fleet_facts = time.monotonic(), facts
        self._record_violations(fleet)

    def _record_violations(self, fleet: FleetSpec) -> None:
        """Write an event for each violation that was not there before."""
        raw = self._observer.raw(FLEETS, "", fleet.name)
        if self._auditing is None or raw is None:
            return
        for violation in self._auditing.fresh():
            self.events.violation_found(raw, violation)

    def _note_brake(self, fleet: FleetSpec | None, brake: Brake | None) -> None:
        """Say loudly, once, that the brake is on."""
        if brake is not None and not self.is_braked and fleet is not None:
            log.error("brake", message=brake.message)
            raw = self._observer.raw(FLEETS, "", fleet.name)
            if raw is not None:
                self.events.braked(raw, brake)
        self.is_braked = brake is not None

    def _hold_back(self, uid: str, seconds: int) -> None:
        self._held_back[uid] = time.monotonic() + seconds
        asyncio.get_running_loop().call_later(seconds + 1, self.wake)
