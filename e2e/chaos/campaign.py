"""One run: load and faults together, then quiescence, then the verdict."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field

from e2e.chaos import daemons, faults, leftovers, load, sight, truth
from e2e.chaos.admin import Admin
from e2e.chaos.diary import Diary
from e2e.chaos.faults import KINDS, Field, Kind
from e2e.chaos.keeper import Keeper
from e2e.chaos.load import Load
from e2e.chaos.truth import Row, Story
from e2e.chaos.witness import Witness
from e2e.lab import fleet
from e2e.scenario import audit
from e2e.scenario.commands import CommandFailed, slurm
from e2e.scenario.eventually import eventually

GAP_S = 0.6
"""Mean time between two faults."""
AT_ONCE = 8
QUIET_S, GONE_S, SACCT_S = 150, 60, 30
"""How long after the last fault all gangs may take to end, things to go after that, and sacct to know all of it."""


@dataclass
class Campaign:
    """Its parts, and what came of it. ``say`` shows progress."""

    seed: int
    count: int
    say: Callable[[str], None]
    began: float = field(default_factory=time.time)
    ended: float = 0.0
    first_job: int = 1
    lost: int = 0
    """Faults that met a server that did not answer, or refused: they count for nothing."""
    problems: list[str] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    stories: list[Story] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.diary = Diary()
        self.witness = Witness(load.NAMESPACE)
        self.keeper = Keeper(self.diary, self._random("operator"))
        self.admin = Admin()
        self.logs = {log: log.stat().st_size if log.exists() else 0 for log in self.keeper.logs}
        self.load = Load(self.seed, self._random("load"), self.witness)
        self._field = Field(rng=self._random("faults"), diary=self.diary, keeper=self.keeper, witness=self.witness)

    def run(self) -> None:
        """Run to the verdict, which is in ``problems``. The operator is ended and the lab healed in any case."""
        load.install()
        self.keeper.start()
        try:
            self._until_empty()
            eventually(_is_published, "every node has its slice", within_s=60)
            self.first_job = max((job.job_id for job in sight.jobs()), default=0) + 1
            self.witness.start()
            self.admin.start()
            self.load.start()
            self._inject()
            self.load.stop()
            self.say(f"{len(self.diary)} faults injected; all is healed, and the gangs come to their ends")
            self.heal()
            self._judge()
        finally:
            self.load.stop()
            self.witness.stop()
            try:
                self.heal()
            finally:
                self.admin.stop()
                self.keeper.stop()
            load.uninstall()
            self.ended = time.time()

    def heal(self) -> None:
        """Undo what a fault left: every daemon runs, every node is open and played, no hold is held."""
        daemons.heal()
        self.keeper.calm()
        for node in fleet.gpu_nodes():
            faults.resume(node.slurm)
            if node.kubelet is fleet.Kubelet.KWOK:
                faults.play(node)
        for job in sight.jobs():
            if job.state == "PENDING" and job.gang:
                # It may have started, or ended, this moment.
                with contextlib.suppress(CommandFailed):
                    slurm("scontrol", "release", str(job.job_id))

    def _until_empty(self) -> None:
        """An earlier run that was killed may have left something."""
        self._delete_all()
        left = leftovers.wait_for_none(self._end_jobs, GONE_S)
        if left:
            raise RuntimeError(f"the lab is not empty before the run: {left[:10]}")

    def _inject(self) -> None:
        rng = self._random("order")
        running: dict[Future[None], Kind] = {}
        with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="fault") as pool:
            shown = 0
            while len(self.diary) - self.lost < self.count or not self._all_done(running):
                time.sleep(rng.expovariate(1 / GAP_S))
                running = {future: kind for future, kind in running.items() if not future.done()}
                (kind,) = rng.choices(KINDS, [kind.weight for kind in KINDS])
                busy = {other.target for other in running.values()} - {""}
                if len(running) < AT_ONCE and kind.target not in busy:
                    running[pool.submit(self._one, kind)] = kind
                if len(self.diary) // 25 > shown:
                    shown = len(self.diary) // 25
                    self.say(
                        f"{len(self.diary)} faults, {len(self.load.intents)} gangs, {len(self.load.errands)} jobs, "
                        f"{self.keeper.lives} lives of the replicas"
                    )

    def _all_done(self, running: Iterable[Future[None]]) -> bool:
        """Wait for the last faults, which may turn out to be without effect; return whether there are enough still."""
        wait(running)
        return len(self.diary) - self.lost >= self.count

    def _one(self, kind: Kind) -> None:
        try:
            kind.inject(self._field, kind.name)
        except sight.UNREACHABLE as error:
            self.lost += 1
            self.say(f"   (without effect: {kind.name}: {str(error)[:100]})")

    def _judge(self) -> None:
        left = leftovers.wait_for_none(self._unfinished, QUIET_S)
        self.problems += [f"not ended {QUIET_S} s after the last fault: {item}" for item in left]
        left = leftovers.wait_for_none(leftovers.after_the_ends, GONE_S)
        self.problems += [f"left though every gang has ended: {item}" for item in left]
        self.problems += [f"the auditor: {item}" for item in leftovers.wait_for_none(audit.violations, GONE_S)]
        self.witness.look()
        self.problems += [
            f"{problem} ({len(times)} looks, first {times[0] - self.began:.0f} s after the start)"
            for problem, times in self.witness.complaints.items()
        ]
        self.stories = [self._story(uid) for uid in self.witness.gangs]
        self._delete_all()
        left = leftovers.wait_for_none(leftovers.after_deletion, GONE_S)
        self.problems += [f"leaked: {item}" for item in left]
        self.problems += leftovers.wait_for_none(self._untrue, SACCT_S)

    def _unfinished(self) -> list[str]:
        """Let users cancel their jobs; return gangs and jobs that have not ended."""
        self.witness.look()
        self.load.cancel_due(now=time.time() + 60)
        gangs = [
            f"GangJob {obj['metadata']['name']} {obj.get('status', {}).get('phase')}" for obj in self.load.unfinished()
        ]
        return [*gangs, *(f"job {job.job_id} {job.state}" for job in self.load.live_jobs())]

    def _end_jobs(self) -> list[str]:
        for job in sight.jobs():
            if job.state in load.LIVE and not job.gang:
                slurm("scancel", str(job.job_id))
        return leftovers.after_deletion()

    def _delete_all(self) -> None:
        path = f"/apis/gangbridge.dev/v1alpha1/namespaces/{load.NAMESPACE}/gangjobs"
        sight.api().call("DELETE", path)

    def _story(self, uid: str) -> Story:
        obj = self.witness.gangs[uid]
        meta, status = obj["metadata"], obj.get("status", {})
        intent = self.load.intents[meta["name"]]
        entries = [entry for entry in self.diary.entries if entry.gang == uid]
        is_gone = load.is_deleting(obj) or all(other["metadata"]["uid"] != uid for other in self.witness.latest.gangs)
        return Story(
            uid=uid,
            name=meta["name"],
            code=intent.code,
            restarts=intent.restarts,
            phase=status.get("phase", ""),
            reason=status.get("reason", ""),
            exit_code=status.get("exitCode"),
            attempt=status.get("attempt", 1),
            is_touched=bool(entries),
            is_gone=is_gone and not load.is_over(obj),
            touched_jobs=frozenset(str(entry.job) for entry in entries if entry.job),
        )

    def _untrue(self) -> list[str]:
        # By id: what slurmdbd did not see submitted, because it was dead, has no place in any window of time.
        ids = ",".join(map(str, range(self.first_job, max(self.witness.jobs, default=0) + 1)))
        self.rows = truth.parse(slurm("sacct", "-X", "-D", "-a", "-n", "-P", "-j", ids, "-o", truth.FORMAT))
        jobs = [row for row in self.rows if row.name in self.load.errands]
        cancelled = frozenset(row.job_id for row in jobs if self.load.errands[row.name])
        return [*truth.complaints(self.stories, self.rows), *truth.unexplained(jobs, cancelled)]

    def _random(self, what: str) -> random.Random:
        return random.Random(f"{self.seed} {what}")


def _is_published() -> bool:
    return sight.slurm_names().keys() <= {pool for pool, _ in sight.inventory()}
