"""What really happens on the nodes, whatever any object says: containers that hold devices, and kubelets."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from bridge import wellknown
from bridge.slurm.fake_records import FakeJob
from tests.kube import actors
from tests.kube.fakeapi import FakeApi

Object = dict[str, Any]
Slot = tuple[str, int]
"""A device as a thing: the node that it is in, and its index."""

TERMINAL = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """A pod that really runs, with the names and uids of its claims. ``gang`` is empty for somebody else's pod."""

    uid: str
    name: str
    node: str
    gang: str
    attempt: int
    slots: frozenset[Slot]
    claims: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        return f"pod {self.name}"


def slots_of(claim: Object) -> frozenset[Slot]:
    """Return the devices that a claim holds."""
    results = (((claim.get("status") or {}).get("allocation") or {}).get("devices") or {}).get("results") or ()
    return frozenset((result["pool"], int(result["device"].rpartition("-")[2])) for result in results)


def slots_of_job(job: FakeJob) -> frozenset[Slot]:
    """Return the devices that slurmctld gave to a job."""
    return frozenset(
        (node, index) for node, held in job.grants.items() for gres in held for index in gres.indices or ()
    )


def consumers_of(claim: Object) -> frozenset[str]:
    """Return the uids of who a claim is reserved for."""
    return frozenset(consumer["uid"] for consumer in (claim.get("status") or {}).get("reservedFor") or ())


def labels_of(obj: Object) -> dict[str, str]:
    found: dict[str, str] = obj["metadata"].get("labels") or {}
    return found


def bound_to(pod: Object) -> str:
    return str(pod["spec"].get("nodeName") or "")


@dataclass
class Kubelet:
    """One machine and its kubelet.

    ``running`` is the truth. ``known`` are the pods that it has accepted; ``over`` those that have ended, with the
    phase that it will report; ``dying`` those that it has told to stop.
    """

    node: str
    api: FakeApi
    is_up: bool = True
    is_reachable: bool = True
    starts: int = 0
    running: dict[str, Container] = field(default_factory=dict)
    known: dict[str, Object] = field(default_factory=dict)
    over: dict[str, str] = field(default_factory=dict)
    dying: set[str] = field(default_factory=set)

    @property
    def is_well(self) -> bool:
        return self.is_up and self.is_reachable

    def sync(self) -> bool:
        """Look at the API server once: accept, tell to stop, stop, report. Return whether anything changed."""
        if not self.is_well:
            return False
        objects = {pod["metadata"]["uid"]: pod for pod in self.api.of("pods") if bound_to(pod) == self.node}
        changed = False
        for uid in sorted(self.known.keys() - objects.keys()):
            changed |= self._stop(uid)
            if uid not in self.running:
                self._forget(uid)
        for uid, pod in sorted(objects.items()):
            changed |= self._look_at(uid, pod)
        return changed

    def start(self, uid: str) -> Container | None:
        """Start an accepted pod if its claims are allocated and reserved for it."""
        if not self.is_well or uid not in self.known or uid in self.running or uid in self.over or uid in self.dying:
            return None
        pod = self.known[uid]
        slots: set[Slot] = set()
        claims: list[tuple[str, str]] = []
        for reference in pod["spec"].get("resourceClaims") or ():
            key = ("resourceclaims", pod["metadata"]["namespace"], reference["resourceClaimName"])
            claim = self.api.objects.get(key)
            if claim is None or not slots_of(claim) or uid not in consumers_of(claim):
                return None
            slots |= slots_of(claim)
            claims.append(("/".join(key[1:]), claim["metadata"]["uid"]))
        labels = labels_of(pod)
        container = Container(
            uid=uid,
            name=pod["metadata"]["name"],
            node=self.node,
            gang=labels.get(wellknown.GANG_UID, ""),
            attempt=int(labels.get(wellknown.ATTEMPT, "0")),
            slots=frozenset(slots),
            claims=tuple(claims),
        )
        self.running[uid] = container
        self.starts += 1
        current = self._current(uid)
        if current is not None and current["status"]["phase"] == "Pending":
            self._report(current, "Running")
        return container

    def exit(self, uid: str, phase: str) -> None:
        """Let the containers of a pod end by themselves; it is reported at the next look."""
        del self.running[uid]
        self.over[uid] = phase

    def crash(self) -> None:
        """Lose power."""
        for uid in list(self.known):
            if uid in self.running:
                self.exit(uid, "Failed")
        self.is_up = False

    def _look_at(self, uid: str, pod: Object) -> bool:
        phase, is_deleted = pod["status"]["phase"], "deletionTimestamp" in pod["metadata"]
        if uid not in self.known:
            if phase in TERMINAL:
                # Nobody here knows it; whoever wrote its phase did not ask.
                return is_deleted and self._finish(pod)
            self.known[uid] = pod
            if is_deleted:
                self.over[uid] = "Failed"
            return True
        changed = False
        if uid in self.running and (is_deleted or phase in TERMINAL):
            changed = self._stop(uid)
        elif is_deleted and uid not in self.over:
            self.over[uid] = "Failed"
            changed = True
        if uid not in self.over:
            return changed
        if phase not in TERMINAL:
            self._report(pod, self.over[uid])
            return True
        return (is_deleted and self._finish(pod)) or changed

    def _stop(self, uid: str) -> bool:
        """Tell the containers to stop; the second time they have."""
        if uid not in self.running:
            return False
        if uid in self.dying:
            self.dying.discard(uid)
            self.exit(uid, "Failed")
        else:
            self.dying.add(uid)
        return True

    def _forget(self, uid: str) -> None:
        self.known.pop(uid, None)
        self.over.pop(uid, None)
        self.dying.discard(uid)

    def _current(self, uid: str) -> Object | None:
        return next((pod for pod in self.api.of("pods") if pod["metadata"]["uid"] == uid), None)

    def _report(self, pod: Object, phase: str) -> None:
        code = {"Succeeded": 0, "Failed": 1}.get(phase)
        actors.set_phase(self.api, pod, phase, exit_code=code)

    def _finish(self, pod: Object) -> bool:
        """Let the object go: its grace period is over."""
        return end_grace(self.api, pod)


def end_grace(api: FakeApi, pod: Object) -> bool:
    """Delete a pod without grace: gone, or kept by its finalizers alone. Return whether that changed anything."""
    meta = pod["metadata"]
    if not meta.get("finalizers"):
        api.remove("pods", meta["name"], meta["namespace"])
        return True
    if "deletionTimestamp" in meta and not meta.get("deletionGracePeriodSeconds"):
        return False
    ended = {
        "deletionTimestamp": meta.get("deletionTimestamp", "2030-01-01T00:00:00Z"),
        "deletionGracePeriodSeconds": 0,
    }
    api.store._commit("MODIFIED", "pods", {**pod, "metadata": {**meta, **ended}})
    return True
