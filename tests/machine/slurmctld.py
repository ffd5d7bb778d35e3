"""The fake slurmctld with what admins and other users do to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from bridge.model.gres import GresRequest
from bridge.model.hold import ExitStatus, HoldRequest, Marker
from bridge.model.slurm import JobState, SlurmView
from bridge.slurm.fake import FakeSlurm
from bridge.slurm.fake_records import FakeJob, Shape
from tests.machine.invariants import Auditor


class Slurmctld(FakeSlurm):
    """What operators write is shown to ``auditor``; ``writer`` names the operator whose request is carried out.

    ``known`` is the last view that it had been given when it sent the request.
    """

    auditor: Auditor
    writer: Callable[[], str]
    known: SlurmView | None = None

    async def view(self) -> SlurmView:
        found = await super().view()
        self.auditor.looked(self.writer())
        return found

    async def allocate(self, request: HoldRequest) -> int:
        job_id = await super().allocate(request)
        with self.auditor.noting():
            self.auditor.hold_submitted(request.marker, self.writer())
        return job_id

    async def repin(self, job_id: int, nodes: Sequence[str]) -> None:
        if job_id in self.jobs:
            with self.auditor.noting():
                self.auditor.hold_is_changed(self.jobs[job_id], self.writer())
        await super().repin(job_id, nodes)

    async def complete(self, job_id: int, status: ExitStatus) -> None:
        self._show_end(job_id, is_cancel=False)
        await super().complete(job_id, status)

    async def cancel(self, job_id: int) -> None:
        self._show_end(job_id, is_cancel=True)
        await super().cancel(job_id)

    async def set_extra(self, nodes: Sequence[str], text: str) -> None:
        with self._node_writes():
            await super().set_extra(nodes, text)

    async def drain(self, nodes: Sequence[str], reason: str) -> None:
        with self._node_writes():
            await super().drain(nodes, reason)

    async def resume(self, nodes: Sequence[str], reason: str) -> None:
        with self._node_writes():
            await super().resume(nodes, reason)

    def external_job(self, node: str, gpus: int, marker: Marker | None = None) -> int:
        """Submit another service's external job, or with ``marker`` another cluster's hold.

        On EXTERNAL nodes its work is as real as a batch job's.
        """
        job = FakeJob(
            name="other-service",
            user="bob",
            account="bio",
            partition="ext",
            qos="normal",
            shape=Shape(gres=(GresRequest(name="gpu", type="h100", count=gpus),), cpus=1, memory_mib=0),
            count=1,
            pin=(node,),
            time_limit_min=60,
            external=True,
            marker=marker,
        )
        return self._submit(job).job_id

    def _end(self, job: FakeJob, state: JobState, status: ExitStatus) -> None:
        if not self.writer():
            # Where no epilog waits, Slurm gives the devices away at once.
            self.auditor.exposed |= {name for name in job.grants if self.nodes[name].external}
        super()._end(job, state, status)

    def _schedule(self) -> None:
        super()._schedule()
        # What starts on a device may be alone there a moment later.
        with self.auditor.noting():
            self.auditor.check_devices()

    def requeue(self, job_id: int) -> None:
        """Preempt a job and put it back into the queue, as ``PreemptMode=REQUEUE`` does."""
        job = self.jobs[job_id]
        self.preempt(job_id)
        if not job.epilogs:
            job.state, job.start_time, job.end_time, job.grants = JobState.PENDING, None, None, {}
            self._schedule()

    def update(self, job_id: int, *, priority: int | None = None, pin: tuple[str, ...] = (), minutes: int = 0) -> None:
        """``scontrol update job``."""
        job = self.jobs[job_id]
        if job.end_time is not None:
            return
        if minutes:
            job.time_limit_min = minutes
        if job.state is JobState.PENDING:
            job.priority = job.priority if priority is None else priority
            job.pin = pin if len(pin) == job.count else job.pin
        self._schedule()

    def _show_end(self, job_id: int, *, is_cancel: bool) -> None:
        job = self.jobs.get(job_id)
        if job is not None and job.end_time is None and not self.down:
            with self.auditor.noting():
                self.auditor.hold_ends(job, self.writer(), self.known, is_cancel=is_cancel)

    @contextmanager
    def _node_writes(self) -> Iterator[None]:
        before = {name: (node.states, node.reason, node.extra) for name, node in self.nodes.items()}
        yield
        with self.auditor.noting():
            self.auditor.nodes_changed(before, self.writer(), self.known)

    def admin_drain(self, node: str) -> None:
        """Drain a node for a reason of the site's own."""
        found = self.nodes[node]
        if "DRAIN" not in found.states:
            found.states, found.reason = found.states | {"DRAIN"}, "fan broken"

    def admin_resume(self, node: str) -> None:
        """``scontrol update state=resume``, whoever drained it."""
        found = self.nodes[node]
        found.states, found.reason = found.states - {"DRAIN", "DOWN"}, ""
        self._schedule()
