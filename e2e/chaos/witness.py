"""Looks at both servers all the time: is any device held twice, and what was last seen of every gang?"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field

from e2e.chaos import sight
from e2e.chaos.sight import Device, Job, Object

STEP_S = 1.0
HELD = frozenset({"RUNNING", "SUSPENDED"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One look: what existed at one moment."""

    gangs: list[Object]
    pods: list[Object]
    claims: list[Object]
    jobs: list[Job]


@dataclass
class Witness:
    """One thread. ``latest`` is the newest look, ``gangs`` the newest object of every gang of the run, by uid."""

    namespace: str
    latest: Seen = field(default_factory=lambda: Seen(gangs=[], pods=[], claims=[], jobs=[]))
    gangs: dict[str, Object] = field(default_factory=dict)
    jobs: set[int] = field(default_factory=set)
    """Ids of all jobs that were seen."""
    looks: int = 0
    blind: int = 0
    """Looks that failed because a server did not answer."""
    complaints: dict[str, list[float]] = field(default_factory=dict)
    """When each problem was seen."""
    given_away: dict[str, list[float]] = field(default_factory=dict)
    """When devices were seen that Slurm had given on too early (see ``Conflict``)."""
    _known: dict[tuple[str, str], Device] = field(default_factory=dict)
    _stopping: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to look; both servers have to answer now."""
        self._known = sight.inventory()
        self.look()
        self._thread = threading.Thread(target=self._watch, name="witness", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Look no more."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()

    def look(self) -> Seen:
        """Look once. Claims are read before and after Slurm: only those that did not change meanwhile are judged."""
        before = {_version(claim) for claim in sight.listed(sight.CLAIMS)}
        jobs = sight.jobs()
        claims = sight.listed(sight.CLAIMS)
        seen = Seen(
            gangs=[obj for obj in sight.listed(sight.GANGJOBS) if obj["metadata"]["namespace"] == self.namespace],
            pods=[obj for obj in sight.listed(sight.PODS) if sight.label(obj, "gang-uid")],
            claims=claims,
            jobs=jobs,
        )
        steady = [claim for claim in claims if _version(claim) in before]
        running = [job for job in jobs if job.state in HELD]
        for conflict in sight.owners(steady, running, self._known, sight.controller_starts()):
            kept = self.given_away if conflict.is_given_away else self.complaints
            kept.setdefault(conflict.text, []).append(time.time())
        for problem in _twice(seen.pods):
            self.complaints.setdefault(problem, []).append(time.time())
        self.gangs.update({obj["metadata"]["uid"]: obj for obj in seen.gangs})
        self.jobs.update(job.job_id for job in jobs)
        self.latest = seen
        self.looks += 1
        return seen

    def _watch(self) -> None:
        while not self._stopping.wait(STEP_S):
            try:
                self.look()
            except sight.UNREACHABLE:
                self.blind += 1


def _version(obj: Object) -> tuple[str, str]:
    return obj["metadata"]["uid"], obj["metadata"]["resourceVersion"]


def _twice(pods: list[Object]) -> list[str]:
    """Return a sentence for every gang that runs pods of two attempts."""
    attempts: dict[str, set[str]] = {}
    for pod in pods:
        if pod["status"].get("phase") == "Running":
            attempts.setdefault(sight.label(pod, "gang-uid"), set()).add(sight.label(pod, "attempt"))
    return [f"gang {uid} runs attempts {sorted(found)} at once" for uid, found in attempts.items() if len(found) > 1]
