"""The port over a worker process (``bridge.slurm.worker``), which may live in another root, container or user."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import structlog

from bridge.errors import ParseError, SlurmUnavailable
from bridge.model.hold import ExitStatus, HoldRequest
from bridge.model.hostlist import fold
from bridge.model.slurm import SlurmInfo, SlurmView
from bridge.slurm import wire
from bridge.slurm.limits import check
from bridge.slurm.records import view_of
from bridge.topology.slurm_yaml import is_blank

_LINE_LIMIT = 1 << 30
"""Bytes of one reply; 10 000 jobs make about 6 MB."""
_STDERR_LINES = 20
_READS = frozenset({"info", "view", "topology"})

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadlines:
    """Seconds until a call is given up and the worker is killed."""

    start: float = 20.0
    read: float = 15.0
    write: float = 10.0


class PyslurmPort:
    """``SlurmPort`` by one worker process, started on demand, killed when it is late and replaced when it dies.

    ``guard`` is called with the name of a write right before it is sent; what it raises keeps the write from being.
    """

    def __init__(
        self,
        command: Sequence[str],
        deadlines: Deadlines | None = None,
        env: Mapping[str, str] | None = None,
        guard: Callable[[str], None] | None = None,
    ) -> None:
        self._command = list(command)
        self._deadlines = deadlines or Deadlines()
        self._env = dict(env) if env is not None else None
        self._guard = guard
        self._worker: _Worker | None = None
        self._turn = asyncio.Lock()
        self._closed = False

    async def info(self) -> SlurmInfo:
        """Return who answers."""
        answer = await self._call("info", {}, self._deadlines.read)
        return SlurmInfo(version=answer["version"], cluster=answer["cluster"], adapter="pyslurm")

    async def view(self) -> SlurmView:
        """Return all jobs and nodes."""
        answer = await self._call("view", {}, self._deadlines.read)
        try:
            return await asyncio.to_thread(
                view_of, answer["jobs"], answer["nodes"], answer["partitions"], answer["taken_at"]
            )
        except ParseError as error:
            raise SlurmUnavailable(f"slurmctld said something unreadable: {error}") from error

    async def topology(self) -> str:
        """Return the topologies as text."""
        answer = await self._call("topology", {}, self._deadlines.read)
        text: str = answer["lines"] if is_blank(answer["config"]) else answer["config"]
        return text

    async def allocate(self, request: HoldRequest) -> int:
        """Submit a hold as its user."""
        job_id: int = await self._call("allocate", _description(request, self._deadlines.write), self._deadlines.write)
        return job_id

    async def repin(self, job_id: int, nodes: Sequence[str]) -> None:
        """Move the pin of a pending hold."""
        await self._call("repin", {"job_id": job_id, "nodes": fold(nodes)}, self._deadlines.write)

    async def complete(self, job_id: int, status: ExitStatus) -> None:
        """End a hold with an exit status."""
        await self._call("complete", {"job_id": job_id, "wait_status": status.wait_status}, self._deadlines.write)

    async def cancel(self, job_id: int) -> None:
        """Cancel a job."""
        await self._call("cancel", {"job_id": job_id}, self._deadlines.write)

    async def set_extra(self, nodes: Sequence[str], text: str) -> None:
        """Write the Extra field of nodes."""
        await self._call("set_extra", {"nodes": list(nodes), "extra": text}, self._deadlines.write)

    async def drain(self, nodes: Sequence[str], reason: str) -> None:
        """Close nodes that nobody else has closed."""
        await self._call("drain", {"nodes": list(nodes), "reason": reason}, self._deadlines.write)

    async def resume(self, nodes: Sequence[str], reason: str) -> None:
        """Lift our drains with this reason."""
        await self._call("resume", {"nodes": list(nodes), "reason": reason}, self._deadlines.write)

    async def close(self) -> None:
        """End the worker."""
        self._closed = True
        await self._drop()

    async def _call(self, op: str, args: Mapping[str, Any], deadline: float) -> Any:  # noqa: ANN401 (JSON)
        async with self._turn:
            if self._closed:
                raise SlurmUnavailable("the port is closed")
            worker = await self._started()
            if self._guard and op not in _READS:
                self._guard(op)
            try:
                async with asyncio.timeout(deadline):
                    reply = await worker.ask(op, args)
            except TimeoutError:
                await self._drop()
                _log.warning("slurm_call_late", op=op, deadline=deadline)
                raise SlurmUnavailable(f"{op}: no answer within {deadline} s") from None
            except BaseException:  # cancelled, or dead: its next line would answer a question nobody asked
                await self._drop()
                raise
        return wire.result_of(reply)

    async def _started(self) -> _Worker:
        if self._worker is None:
            self._worker = await _Worker.start(self._command, self._env)
            try:
                async with asyncio.timeout(self._deadlines.start):
                    await self._worker.hello()
            except TimeoutError:
                await self._drop()
                raise SlurmUnavailable(f"the Slurm worker did not start within {self._deadlines.start} s") from None
            except BaseException:
                await self._drop()
                raise
        return self._worker

    async def _drop(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            await worker.end()


class _Worker:
    """One process and its pipes."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._last_id = wire.HELLO
        self._stderr: deque[str] = deque(maxlen=_STDERR_LINES)
        self._stderr_task = asyncio.create_task(self._keep_stderr())

    @classmethod
    async def start(cls, command: Sequence[str], env: Mapping[str, str] | None) -> _Worker:
        pipe = asyncio.subprocess.PIPE
        try:
            process = await asyncio.create_subprocess_exec(
                *command, stdin=pipe, stdout=pipe, stderr=pipe, limit=_LINE_LIMIT, env=env, start_new_session=True
            )
        except OSError as error:
            raise SlurmUnavailable(f"the Slurm worker cannot be started: {error}") from error
        return cls(process)

    async def hello(self) -> None:
        """Wait until it is ready."""
        wire.result_of(await self._reply(wire.HELLO))

    async def ask(self, op: str, args: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the reply to one request."""
        assert self._process.stdin is not None  # noqa: S101 (it was started with a pipe)
        self._last_id += 1
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # what it said last explains more
            self._process.stdin.write(wire.dump({"id": self._last_id, "op": op, "args": args}))
            await self._process.stdin.drain()
        return await self._reply(self._last_id)

    async def end(self) -> None:
        """Kill it with everything it started, and wait for it."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        await self._process.wait()
        self._stderr_task.cancel()
        await asyncio.gather(self._stderr_task, return_exceptions=True)
        self._process._transport.close()  # type: ignore[attr-defined]  # noqa: SLF001 (asyncio leaves the pipes open)

    async def _reply(self, request_id: int) -> Mapping[str, Any]:
        assert self._process.stdout is not None  # noqa: S101 (it was started with a pipe)
        line = await self._process.stdout.readline()
        if not line.endswith(b"\n"):
            code = await self._process.wait()
            await self._stderr_task
            said = "; ".join(self._stderr) or "it said nothing"
            raise SlurmUnavailable(f"the Slurm worker ended with status {code}: {said}")
        try:
            reply = await asyncio.to_thread(json.loads, line)
        except ValueError as error:
            raise SlurmUnavailable(f"the Slurm worker said {line[:80]!r}") from error
        if not isinstance(reply, dict) or reply.get("id") != request_id:
            raise SlurmUnavailable(f"the Slurm worker said {line[:80]!r} instead of answering request {request_id}")
        return reply

    async def _keep_stderr(self) -> None:
        assert self._process.stderr is not None  # noqa: S101 (it was started with a pipe)
        async for raw in self._process.stderr:
            text = raw.decode(errors="replace").rstrip()
            self._stderr.append(text)
            _log.debug("slurm_worker_said", text=text)


def _description(request: HoldRequest, deadline: float) -> dict[str, Any]:
    """Return the members of job_desc_msg_t (slurm.h) that make this hold, and what the worker needs beside them."""
    check(request)
    nodes = len(request.nodes)
    tasks = nodes * request.tasks_per_node
    return {
        "user": request.user,
        "external": request.external,
        "deadline": deadline * 0.8,  # the worker should say so itself, before it is killed for it
        "name": request.name,
        "account": request.account,
        "partition": request.partition,
        "qos": request.qos,
        "comment": request.marker.dumps(),
        "work_dir": "/",
        "req_nodes": fold(request.nodes),
        "tres_per_node": ",".join(f"gres/{gres}" for gres in request.gres_per_node),
        "min_nodes": nodes,
        "max_nodes": nodes,
        "num_tasks": tasks,
        "ntasks_per_node": request.tasks_per_node,
        "cpus_per_task": request.cpus_per_task,
        "min_cpus": tasks * request.cpus_per_task,
        "pn_min_memory": request.memory_mib_per_node,
        "time_limit": request.time_limit_min,
    }
