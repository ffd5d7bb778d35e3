"""slurmctld in memory, with a clock that tests set: the port's third adapter.

It behaves as the real one does where the loop can tell (one contract table runs against both): a pinned hold is RUNNING
on return or pending; pending jobs start by priority and age once all their nodes have room, at the lowest free indices;
a pending pin keeps its nodes from jobs behind it; a completing job keeps its nodes closed, shows only those with an
epilog to end, and shows no GRES. The epilog is that of ``slurm-configs``: it waits while the node's Extra lists its
job, and drains the node when that takes too long. Times are seconds; nothing happens by itself except in ``advance``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from enum import StrEnum

from bridge.errors import SlurmRejected, SlurmUnavailable
from bridge.model.gres import GresRequest
from bridge.model.hold import ExitStatus, HoldRequest
from bridge.model.slurm import JobState, SlurmInfo, SlurmView
from bridge.slurm.fake_records import FakeJob, FakeNode, Shape, grant
from bridge.slurm.limits import check, check_known
from bridge.wellknown import DRAIN_REASON

_HISTORY = 300.0
"""Seconds for which an ended job stays visible (MinJobAge)."""


class Fault(StrEnum):
    """When a call loses its answer: before slurmctld carries it out, or after."""

    BEFORE = "before"
    AFTER = "after"


class FakeSlurm:
    """One cluster.

    Switches: ``down`` (no call is answered), ``delay`` (seconds before a call is carried out), ``fail`` (the next calls
    lose their answer), ``epilog`` (ended jobs stay COMPLETING until ``finish_epilog``), ``epilog_bound`` (seconds for
    which an epilog waits for the guard). ``calls`` records every write, with its job id or its nodes.
    ``topology_text`` is what slurmctld has for a topology; "" is the flat one.
    """

    def __init__(
        self,
        nodes: Iterable[FakeNode],
        *,
        now: float = 1_000_000.0,
        associations: Iterable[tuple[str, str]] = (("alice", "physics"), ("bob", "bio")),
        qos: Iterable[str] = ("normal", "high", "low"),
        topology: str = "",
    ) -> None:
        self.now = now
        self.nodes = {node.name: node for node in nodes}
        self.jobs: dict[int, FakeJob] = {}
        self.calls: list[tuple[str, int | tuple[str, ...]]] = []
        self.topology_text = topology
        self.down = False
        self.delay = 0.0
        self.epilog = False
        self.epilog_bound = 300.0
        self._associations = set(associations)
        self._qos = set(qos)
        self._faults: list[tuple[str, Fault]] = []
        self._last_id = 0

    # The port

    async def info(self) -> SlurmInfo:
        """Return who answers."""
        await self._reach("info")
        return SlurmInfo(version="26.05.5", cluster="fake", adapter="fake")

    async def view(self) -> SlurmView:
        """Return all jobs and nodes."""
        await self._reach("view")
        jobs = {job.job_id: job.seen() for job in self.jobs.values() if not job.is_forgotten(self.now - _HISTORY)}
        running = [job for job in self.jobs.values() if job.holds_nodes]
        nodes = {name: node.seen([job for job in running if name in job.grants]) for name, node in self.nodes.items()}
        self._answer("view")
        return SlurmView(jobs=jobs, nodes=nodes, taken_at=self.now)

    async def topology(self) -> str:
        """Return the topologies as text."""
        await self._reach("topology")
        self._answer("topology")
        return self.topology_text

    async def allocate(self, request: HoldRequest) -> int:
        """Submit a hold."""
        check(request)
        await self._reach("allocate")
        shape = Shape(
            gres=request.gres_per_node,
            cpus=request.tasks_per_node * request.cpus_per_task,
            memory_mib=request.memory_mib_per_node,
        )
        self._check(request.user, request.account, request.qos, request.partition)
        self._check_nodes(request.nodes, request.partition, shape, external=request.external)
        job = self._submit(
            FakeJob(
                name=request.name,
                user=request.user,
                account=request.account,
                partition=request.partition,
                qos=request.qos,
                shape=shape,
                count=len(request.nodes),
                pin=request.nodes,
                time_limit_min=request.time_limit_min,
                marker=request.marker,
                external=request.external,
            )
        )
        self.calls.append(("allocate", job.job_id))
        self._answer("allocate")
        return job.job_id

    async def repin(self, job_id: int, nodes: Sequence[str]) -> None:
        """Move the pin of a pending hold."""
        await self._reach("repin")
        job = self._known(job_id)
        if job.state is not JobState.PENDING:
            raise SlurmRejected("Invalid node name specified", 2018)  # what slurmctld says of a running job
        self._check_nodes(nodes, job.partition, job.shape, external=job.external)
        job.pin = tuple(sorted(nodes))
        self.calls.append(("repin", job_id))
        self._schedule()
        self._answer("repin")

    async def complete(self, job_id: int, status: ExitStatus) -> None:
        """End a hold with an exit status."""
        await self._reach("complete")
        job = self._known(job_id)
        if job.end_time is None:
            self.calls.append(("complete", job_id))
            self.end(job_id, status)
        self._answer("complete")

    async def cancel(self, job_id: int) -> None:
        """Cancel a job."""
        await self._reach("cancel")
        job = self._known(job_id)
        if job.end_time is None:
            self.calls.append(("cancel", job_id))
            self._end(job, JobState.CANCELLED, ExitStatus())
        self._answer("cancel")

    async def set_extra(self, nodes: Sequence[str], text: str) -> None:
        """Write the Extra field of nodes."""
        await self._reach("set_extra")
        for node in self._known_nodes(nodes):
            node.extra = text
        self.calls.append(("set_extra", tuple(nodes)))
        self._end_epilogs()
        self._answer("set_extra")

    async def drain(self, nodes: Sequence[str], reason: str) -> None:
        """Close nodes that nobody else has closed."""
        await self._reach("drain")
        for node in self._known_nodes(nodes):
            node.drain(reason)
        self.calls.append(("drain", tuple(nodes)))
        self._answer("drain")

    async def resume(self, nodes: Sequence[str], reason: str) -> None:
        """Lift our drains with this reason."""
        await self._reach("resume")
        for node in self._known_nodes(nodes):
            node.resume(reason)
        self.calls.append(("resume", tuple(nodes)))
        self._schedule()
        self._answer("resume")

    async def close(self) -> None:
        """Do nothing: there is nothing to release."""

    # What others do to the cluster

    def sbatch(
        self,
        *,
        gpus: int,
        nodes: int = 1,
        pin: Sequence[str] = (),
        user: str = "bob",
        partition: str = "gpu",
        time_limit_min: int = 60,
        cpus: int = 1,
        gpu_type: str = "",
        priority: int = 1000,
    ) -> int:
        """Submit a user's own job: ``gpus`` on each of ``nodes`` nodes, placed first fit or on ``pin``."""
        gres = (GresRequest(name="gpu", type=gpu_type, count=gpus),) if gpus else ()
        job = FakeJob(
            name="sbatch",
            user=user,
            account=dict(sorted(self._associations)).get(user, ""),
            partition=partition,
            qos="normal",
            shape=Shape(gres=gres, cpus=cpus, memory_mib=0),
            count=len(pin) or nodes,
            pin=tuple(pin),
            time_limit_min=time_limit_min,
            priority=priority,
            work_dir=f"/home/{user}",
        )
        return self._submit(job).job_id

    def end(self, job_id: int, status: ExitStatus | None = None) -> None:
        """Let a job end by itself with ``status``."""
        status = status or ExitStatus()
        state = JobState.COMPLETED if status == ExitStatus() else JobState.FAILED
        self._end(self.jobs[job_id], state, status)

    def preempt(self, job_id: int) -> None:
        """Take a job's resources away for another."""
        self._end(self.jobs[job_id], JobState.PREEMPTED, ExitStatus())

    def finish_epilog(self, job_id: int, node: str | None = None) -> None:
        """End the epilog of a completing job, on ``node`` or everywhere, whatever it waits for."""
        job = self.jobs[job_id]
        job.epilogs = tuple(name for name in job.epilogs if node is not None and name != node)
        self._schedule()

    def set_node(self, name: str, *states: str, reason: str = "") -> None:
        """Set a node's states; IDLE, MIXED and ALLOCATED follow by themselves.

        DOWN ends its jobs with NODE_FAIL, and the wait for its epilogs.
        """
        node = self.nodes[name]
        node.states, node.reason = frozenset(states), reason
        if "DOWN" in node.states:
            for job in list(self.jobs.values()):
                if name in job.grants and job.end_time is None:
                    self._end(job, JobState.NODE_FAIL, ExitStatus())
                job.epilogs = tuple(other for other in job.epilogs if other != name)
        self._schedule()

    def lose_state(self) -> None:
        """Restart without the state of before: no jobs, their ids given again, and of the nodes slurm.conf alone."""
        self.jobs.clear()
        self._last_id = 0
        self.nodes = {name: node for name, node in self.nodes.items() if not node.external}
        for node in self.nodes.values():
            node.states, node.reason, node.extra = frozenset(), "", ""

    def fail(self, operation: str, when: Fault, times: int = 1) -> None:
        """Let the next ``times`` calls of ``operation`` lose their answer."""
        self._faults += [(operation, when)] * times

    def advance(self, seconds: float) -> None:
        """Let time pass: time limits and the bound of epilogs are kept, and whatever fits then starts, in order."""
        until = self.now + seconds
        while (due := self._next_due()) is not None and (at := self._due(due)) <= until:
            self.now = max(self.now, at)
            if due.is_running:
                self._end(due, JobState.TIMEOUT, ExitStatus())
            else:
                self._give_up(due)
        self.now = until

    # Inside

    async def _reach(self, operation: str) -> None:
        if self.delay:
            await asyncio.sleep(self.delay)
        if self.down:
            raise SlurmUnavailable("Unable to contact slurm controller (connect failure)")
        if (operation, Fault.BEFORE) in self._faults:
            self._faults.remove((operation, Fault.BEFORE))
            raise SlurmUnavailable(f"{operation}: no answer, not carried out")

    def _answer(self, operation: str) -> None:
        if (operation, Fault.AFTER) in self._faults:
            self._faults.remove((operation, Fault.AFTER))
            raise SlurmUnavailable(f"{operation}: no answer, carried out")

    def _known(self, job_id: int) -> FakeJob:
        job = self.jobs.get(job_id)
        if job is None or job.is_forgotten(self.now - _HISTORY):
            raise SlurmRejected("Invalid job id specified", 2017)
        return job

    def _known_nodes(self, names: Sequence[str]) -> list[FakeNode]:
        check_known(names, self.nodes)
        return [self.nodes[name] for name in names]

    def _check(self, user: str, account: str, qos: str, partition: str) -> None:
        if (user, account) not in self._associations:
            raise SlurmRejected("Invalid account or account/partition combination specified", 2045)
        if qos not in self._qos:
            raise SlurmRejected("Invalid qos specification", 2066)
        if not any(partition in node.partitions for node in self.nodes.values()):
            raise SlurmRejected("Invalid partition name specified", 2000)

    def _check_nodes(self, names: Sequence[str], partition: str, shape: Shape, *, external: bool) -> None:
        for name in names:
            node = self.nodes.get(name)
            if node is None:
                raise SlurmRejected("Invalid node name specified", 2018)
            fits = partition in node.partitions and (external or not node.external)
            if not fits or grant(node, shape, []) is None:
                raise SlurmRejected("Requested node configuration is not available", 2014)

    def _submit(self, job: FakeJob) -> FakeJob:
        self._last_id += 1
        job.job_id, job.submit_time = self._last_id, self.now
        self.jobs[job.job_id] = job
        self._schedule()
        return job

    def _schedule(self) -> None:
        kept: set[str] = set()
        pending = [job for job in self.jobs.values() if job.state is JobState.PENDING]
        for job in sorted(pending, key=lambda job: (-job.priority, job.job_id)):
            if not self._start(job, kept):
                kept.update(job.pin)

    def _start(self, job: FakeJob, kept: set[str]) -> bool:
        grants = {}
        for name in job.pin or sorted(self.nodes):
            node = self.nodes[name]
            open_to_job = node.is_open and job.partition in node.partitions and (job.external or not node.external)
            if name in kept or not open_to_job or self._completing_on(name):
                continue
            given = grant(node, job.shape, self._grants_on(name))
            if given is not None:
                grants[name] = given
            if len(grants) == job.count:
                job.start(self.now, grants)
                return True
        return False

    def _grants_on(self, name: str) -> list[FakeJob]:
        return [job for job in self.jobs.values() if job.is_running and name in job.grants]

    def _completing_on(self, name: str) -> bool:
        return any(name in job.epilogs for job in self.jobs.values())

    def _end(self, job: FakeJob, state: JobState, status: ExitStatus) -> None:
        job.stop(self.now, state, status)
        if not job.external:
            job.epilogs = tuple(job.grants)
        self._end_epilogs()

    def _end_epilogs(self) -> None:
        """End those that wait for nothing any more."""
        for job in self.jobs.values():
            job.epilogs = tuple(name for name in job.epilogs if self.epilog or self._waits(job, name))
        self._schedule()

    def _waits(self, job: FakeJob, name: str) -> bool:
        return job.work_dir == "/" and self.nodes[name].guards(job.job_id)

    def _give_up(self, job: FakeJob) -> None:
        """Fence the nodes on which the epilog has waited long enough."""
        reason = f"{DRAIN_REASON}pods of job {job.job_id} were not proven gone within {self.epilog_bound:.0f} s"
        for name in job.epilogs:
            self.nodes[name].drain(reason)
        job.epilogs = ()
        self._schedule()

    def _next_due(self) -> FakeJob | None:
        due = (job for job in self.jobs.values() if job.is_running or (job.epilogs and not self.epilog))
        return min(due, key=self._due, default=None)

    def _due(self, job: FakeJob) -> float:
        return job.limit_at if job.end_time is None else job.end_time + self.epilog_bound
