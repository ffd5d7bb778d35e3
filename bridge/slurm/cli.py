"""The port over Slurm's commands: the portable adapter, for machines without pyslurm. Slower, and it says so.

What it cannot do as well as the worker process:

* a hold is ended with scancel(1): sacct shows CANCELLED, never an exit code (``exact_exit_status=False``). Only the
  process that salloc(1) runs could give one, and a hold has none;
* JSON of all jobs is large: some 19 KB and a millisecond per job;
* salloc has no ``--external``: external holds go through sbatch(1) and wait for a scheduling cycle.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import structlog

from bridge.errors import ParseError, SlurmError, SlurmRejected, SlurmUnavailable
from bridge.model.hold import ExitStatus, HoldRequest
from bridge.model.hostlist import fold
from bridge.model.slurm import SlurmInfo, SlurmView, may_drain, may_resume
from bridge.slurm.cli_json import job_record, node_record, partition_members, taken_at
from bridge.slurm.client import Deadlines
from bridge.slurm.limits import check, check_known
from bridge.slurm.records import NodeRecord, view_of
from bridge.topology.slurm_yaml import is_blank

SETPRIV = ("setpriv", "--reuid={user}", "--regid={gid}", "--init-groups", "--")
"""How root becomes the owner of a hold; ``{gid}`` is asked of id(1). The process must stay the one that was started."""

_IN_ROOT = ("env", "--chdir=/")
"""salloc(1) writes into the job where it was started, whatever its own ``--chdir`` says."""

_SUBMITTED = re.compile(r"salloc: (?:Granted|Pending) job allocation ([0-9]+)")
_REFUSED = re.compile(
    r"(?:Job submit/allocate failed|Batch job submission failed|Kill job error on job id [0-9_]+"
    r"|Could not load state information for job [0-9]+|slurm_load_(?:jobs|topo) error|slurm_update error): (.+)"
    r"|(.+) for job [0-9]+$|(unrecognized option .+)"
)
_SILENT = ("Unable to contact", "Socket timed out", "Zero Bytes were transmitted", "Connection refused", "timed out")
_OWN_SETTINGS = ("SLURM_", "SALLOC_", "SBATCH_", "SQUEUE_", "SCANCEL_", "SCONTROL_")
_KEPT_SETTINGS = frozenset({"SLURM_CONF", "SLURM_JWT"})

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Output:
    code: int
    out: bytes
    err: str


class CliPort:
    """``SlurmPort`` by squeue, scontrol, salloc, sbatch and scancel.

    ``exec_prefix`` comes before every command (``["chroot", "/srv/slurm"]``), ``as_user`` before those that submit.
    ``guard`` is called right before a command that writes is started; what it raises keeps it from being.
    """

    def __init__(
        self,
        exec_prefix: Sequence[str] = (),
        *,
        as_user: Sequence[str] = SETPRIV,
        deadlines: Deadlines | None = None,
        guard: Callable[[str], None] | None = None,
    ) -> None:
        self._prefix = tuple(exec_prefix)
        self._as_user = tuple(as_user)
        self._deadlines = deadlines or Deadlines()
        self._guard = guard or (lambda _: None)
        self._gids: dict[str, str] = {}

    async def info(self) -> SlurmInfo:
        """Return who answers."""
        text = (await self._read("scontrol", "show", "config")).decode()
        values = dict(re.findall(r"^(\w+)\s*= (.*?)\s*$", text, re.MULTILINE))
        return SlurmInfo(
            version=values["SLURM_VERSION"], cluster=values["ClusterName"], adapter="cli", exact_exit_status=False
        )

    async def view(self) -> SlurmView:
        """Return all jobs and nodes.

        Jobs come from squeue because ``scontrol show job --json`` reports an unreachable slurmctld as an empty cluster.
        """
        jobs = await self._read("squeue", "--all", "--states=all", "--json")
        nodes = await self._read("scontrol", "show", "nodes", "--all", "--json")
        return await asyncio.to_thread(_view, jobs, nodes)

    async def topology(self) -> str:
        """Return the topologies as text.

        scontrol ends with status 0 although slurmctld did not answer; ``show topoconf``, unknown before 25.05, says
        nothing then.
        """
        lines = await self._run(*self._prefix, "scontrol", "show", "topology", deadline=self._deadlines.read)
        if lines.code or "error:" in lines.err:
            raise _refusal("scontrol", lines.err)
        config = await self._run(*self._prefix, "scontrol", "show", "topoconf", deadline=self._deadlines.read)
        if not (config.code or config.out.strip()):
            raise SlurmUnavailable(f"scontrol show topoconf: {config.err or 'it said nothing'}")
        chosen = lines if config.code or is_blank(config.out.decode(errors="replace")) else config
        return chosen.out.decode(errors="replace")

    async def allocate(self, request: HoldRequest) -> int:
        """Submit a hold as its user, then copy its marker to where the user cannot change it."""
        check(request)
        user = await self._become(request.user)
        job_id = await (self._sbatch(user, request) if request.external else self._salloc(user, request))
        try:
            await self._write("scontrol", "update", f"JobId={job_id}", f"AdminComment={request.marker.dumps()}")
        except SlurmError as error:  # the hold exists and is marked in its comment; the caller must have its id
            _log.warning("admin_comment_not_set", job_id=job_id, error=str(error))
        return job_id

    async def repin(self, job_id: int, nodes: Sequence[str]) -> None:
        """Move the pin of a pending hold."""
        await self._write("scontrol", "update", f"JobId={job_id}", f"ReqNodeList={fold(nodes)}")

    async def complete(self, job_id: int, status: ExitStatus) -> None:  # noqa: ARG002 (see the module's text)
        """End a hold; its status is lost."""
        await self.cancel(job_id)

    async def cancel(self, job_id: int) -> None:
        """Cancel a job. scancel takes an unknown id for success, so the job is looked up first."""
        await self._write("scontrol", "show", "job", str(job_id))
        await self._write("scancel", str(job_id))

    async def set_extra(self, nodes: Sequence[str], text: str) -> None:
        """Write the Extra field of nodes; a refusal names those that slurmctld does not know."""
        try:
            await self._update_nodes(nodes, f"Extra={text}")
        except SlurmRejected:
            await self._look_up(nodes)
            raise

    async def drain(self, nodes: Sequence[str], reason: str) -> None:
        """Close nodes that nobody else has closed."""
        found = await self._look_up(nodes)
        names = [name for name, node in found.items() if may_drain(node["state"], node["reason"])]
        await self._update_nodes(names, "State=DRAIN", f"Reason={reason}")

    async def resume(self, nodes: Sequence[str], reason: str) -> None:
        """Lift our drains with this reason."""
        found = await self._look_up(nodes)
        names = [name for name, node in found.items() if may_resume(node["state"], node["reason"], reason)]
        await self._update_nodes(names, "State=UNDRAIN")

    async def close(self) -> None:
        """Do nothing: every command has ended."""

    async def _update_nodes(self, nodes: Sequence[str], *changes: str) -> None:
        if nodes:
            await self._write("scontrol", "update", f"NodeName={fold(nodes)}", *changes)

    async def _look_up(self, nodes: Sequence[str]) -> dict[str, NodeRecord]:
        """Return the records of these nodes."""
        answer = await self._read("scontrol", "show", "nodes", "--all", "--json")
        with _unreadable_is_unavailable():
            known = {node["name"]: node_record(node) for node in json.loads(answer)["nodes"]}
        check_known(nodes, known)
        return {name: known[name] for name in nodes}

    async def _become(self, user: str) -> tuple[str, ...]:
        if any("{gid}" in part for part in self._as_user) and user not in self._gids:
            answer = await self._run(*self._prefix, "id", "-g", user, deadline=self._deadlines.write)
            if "no such user" in answer.err:
                raise SlurmRejected(f"user {user} is unknown where Slurm's commands run")
            if answer.code:
                raise SlurmUnavailable(f"id: {answer.err or 'it failed and said nothing'}")
            self._gids[user] = answer.out.decode().strip()
        as_user = (part.format(user=user, gid=self._gids.get(user, "")) for part in self._as_user)
        return (*as_user, *_IN_ROOT)

    async def _salloc(self, user: Sequence[str], request: HoldRequest) -> int:
        """Submit, and kill salloc as soon as it names the job.

        Only SIGKILL leaves a pending job in the queue; any other signal makes salloc cancel it.
        """
        self._guard("salloc")
        process = await _start(*self._prefix, *user, "salloc", "--no-shell", *_options(request))
        said: list[str] = []
        try:
            async with asyncio.timeout(self._deadlines.write):
                assert process.stderr is not None  # noqa: S101 (it was started with a pipe)
                async for raw in process.stderr:
                    said.append(raw.decode(errors="replace").strip())
                    if match := _SUBMITTED.search(said[-1]):
                        return int(match[1])
        except TimeoutError:
            raise SlurmUnavailable(f"salloc: no answer within {self._deadlines.write} s") from None
        finally:
            await _kill(process)
        raise _refusal("salloc", "\n".join(said))

    async def _sbatch(self, user: Sequence[str], request: HoldRequest) -> int:
        answer = await self._write(*user, "sbatch", "--external", "--parsable", *_options(request))
        return int(answer.decode().partition(";")[0])

    async def _read(self, *command: str) -> bytes:
        return await self._checked(command, self._deadlines.read)

    async def _write(self, *command: str) -> bytes:
        self._guard(command[0])
        return await self._checked(command, self._deadlines.write)

    async def _checked(self, command: Sequence[str], deadline: float) -> bytes:
        answer = await self._run(*self._prefix, *command, deadline=deadline)
        if answer.code:
            raise _refusal(command[0], answer.err or answer.out.decode(errors="replace"))
        return answer.out

    async def _run(self, *command: str, deadline: float) -> _Output:
        process = await _start(*command)
        try:
            async with asyncio.timeout(deadline):
                out, err = await process.communicate()
        except TimeoutError:
            raise SlurmUnavailable(f"{' '.join(command[:3])}: no answer within {deadline} s") from None
        finally:
            await _kill(process)
        return _Output(process.returncode or 0, out, err.decode(errors="replace").strip())


def _view(jobs: bytes, nodes: bytes) -> SlurmView:
    with _unreadable_is_unavailable():
        answer, node_list = json.loads(jobs), json.loads(nodes)["nodes"]
        records = [job_record(job) for job in answer["jobs"]]
        members = partition_members(node_list)
        return view_of(records, [node_record(node) for node in node_list], members, taken_at(answer))


@contextlib.contextmanager
def _unreadable_is_unavailable() -> Iterator[None]:
    try:
        yield
    except (ValueError, KeyError, TypeError, ParseError) as error:
        raise SlurmUnavailable(f"the JSON of squeue or scontrol is unreadable: {error!r}") from error


def _options(request: HoldRequest) -> list[str]:
    options = {
        "job-name": request.name,
        "account": request.account,
        "partition": request.partition,
        "qos": request.qos,
        "nodelist": fold(request.nodes),
        "nodes": len(request.nodes),
        "ntasks": len(request.nodes) * request.tasks_per_node,
        "ntasks-per-node": request.tasks_per_node,
        "cpus-per-task": request.cpus_per_task,
        "mem": f"{request.memory_mib_per_node}M" if request.memory_mib_per_node else "",  # 0 would be all of the node
        "gres": ",".join(str(gres) for gres in request.gres_per_node),
        "time": request.time_limit_min,
        "comment": request.marker.dumps(),
    }
    return [f"--{name}={value}" for name, value in options.items() if value != ""]


def _refusal(command: str, text: str) -> SlurmError:
    """Return the error for a command that failed: ``SlurmRejected`` only when slurmctld itself said no."""
    refused = next((match for line in reversed(text.splitlines()) if (match := _REFUSED.search(line))), None)
    if refused is None or any(silent in text for silent in _SILENT):
        return SlurmUnavailable(f"{command}: {text or 'it failed and said nothing'}")
    return SlurmRejected(next(group for group in refused.groups() if group))


async def _start(*command: str) -> asyncio.subprocess.Process:
    try:
        return await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=_environment(os.environ),
            start_new_session=True,
        )
    except OSError as error:
        raise SlurmUnavailable(f"{command[0]} cannot be started: {error}") from error


async def _kill(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
    transport: Any = process._transport  # type: ignore[attr-defined]  # noqa: SLF001 (asyncio leaves the pipes open)
    transport.close()


def _environment(own: Mapping[str, str]) -> dict[str, str]:
    """Return our environment without what would change the meaning of a command, such as SALLOC_ACCOUNT."""
    kept = {name: value for name, value in own.items() if not name.startswith(_OWN_SETTINGS) or name in _KEPT_SETTINGS}
    return kept | {"LC_ALL": "C.UTF-8"}
