"""The worker process: the only place that imports pyslurm and libslurm.

``python -m bridge.slurm.worker`` with an interpreter that has them, as root (or as the one user whose jobs it is to
make). It speaks ``bridge.slurm.wire`` over stdin and stdout, logs to stderr, serves one request at a time and ends when
stdin ends. It is a process of its own because libslurm may block for all of MessageTimeout with the interpreter's lock
held, and may exit the interpreter; whoever started it kills it when a deadline passes and starts another. It keeps no
state.

pyslurm does the plain calls (configuration, partitions, update, cancel); ``bridge.slurm.libslurm`` the rest.
"""

from __future__ import annotations

import base64
import importlib
import json
import os
import pwd
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, BinaryIO

from bridge.errors import SlurmError, SlurmRejected
from bridge.model.slurm import may_drain, may_resume
from bridge.slurm import wire
from bridge.slurm.libslurm import Libslurm
from bridge.slurm.limits import check_known
from bridge.slurm.run_as import run_as

Arguments = Mapping[str, Any]


class Worker:
    """The operations, by the names in the protocol."""

    def __init__(self) -> None:
        os.environ["PYSLURM_DISABLE_AUTO_INIT"] = "1"  # or the import itself would wait for slurm.conf and then exit
        self._pyslurm: Any = importlib.import_module("pyslurm")
        self._libslurm = Libslurm()
        self._pyslurm.slurm_init()
        self._user = _acting_user()
        self.operations: dict[str, Callable[[Arguments], object]] = {
            "info": self.info,
            "view": self.view,
            "topology": self.topology,
            "allocate": self.allocate,
            "repin": self.repin,
            "complete": self.complete,
            "cancel": self.cancel,
            "set_extra": self.set_extra,
            "drain": self.drain,
            "resume": self.resume,
        }

    def info(self, _: Arguments) -> dict[str, str]:
        """Return who answers."""
        config = self._call(self._pyslurm.slurmctld.Config.load)
        return {"version": config.version, "cluster": config.cluster_name, "user": self._user}

    def view(self, _: Arguments) -> dict[str, Any]:
        """Return jobs, nodes and partitions: one call to slurmctld each (and one more that pyslurm makes)."""
        taken_at, jobs = self._libslurm.load_jobs()
        nodes = self._libslurm.load_nodes()
        partitions = self._call(self._pyslurm.Partitions.load)
        members = {name: partition.nodes or "" for name, partition in partitions.items()}
        return {"taken_at": taken_at, "jobs": jobs, "nodes": nodes, "partitions": members}

    def topology(self, _: Arguments) -> dict[str, str]:
        """Return both texts: which of them says something is for the client to see."""
        config, lines = self._libslurm.load_topology()
        return {"config": config, "lines": lines}

    def allocate(self, request: Arguments) -> int:
        """Submit a hold as its user, then copy its marker to where the user cannot change it.

        slurmctld refuses ``admin_comment`` in a user's submission; so the marker goes with it in ``comment``, which
        makes it atomic, and is copied at once.
        """
        job_id = self._allocate(request)
        try:
            self._update(job_id, admin_comment=request["comment"])
        except SlurmError as error:  # the hold exists and is marked; the caller must have its id
            sys.stderr.write(f"job {job_id}: admin_comment not set: {error}\n")
        return job_id

    def repin(self, arguments: Arguments) -> None:
        """Move the pin of a pending job."""
        self._update(arguments["job_id"], required_nodes=arguments["nodes"])

    def complete(self, arguments: Arguments) -> None:
        """End a job with an exit status."""
        self._libslurm.complete(arguments["job_id"], arguments["wait_status"])

    def cancel(self, arguments: Arguments) -> None:
        """Cancel a job. pyslurm's cancel takes an unknown id for success, so the job is looked up first."""
        job = self._call(lambda: self._pyslurm.Job.load(arguments["job_id"]))
        self._call(job.cancel)

    def set_extra(self, arguments: Arguments) -> None:
        """Write the Extra field; a refusal names the nodes that slurmctld does not know."""
        try:
            self._libslurm.update_nodes(arguments["nodes"], extra=arguments["extra"])
        except SlurmRejected:
            self._look_up(arguments["nodes"])
            raise

    def drain(self, arguments: Arguments) -> None:
        """Drain the nodes that may be."""
        found = self._look_up(arguments["nodes"])
        names = [name for name, (states, reason) in found.items() if may_drain(states, reason)]
        self._libslurm.update_nodes(names, drain=True, reason=arguments["reason"])

    def resume(self, arguments: Arguments) -> None:
        """Lift the drains with this reason."""
        wanted = arguments["reason"]
        found = self._look_up(arguments["nodes"])
        names = [name for name, (states, reason) in found.items() if may_resume(states, reason, wanted)]
        self._libslurm.update_nodes(names, drain=False)

    def _look_up(self, names: Sequence[str]) -> dict[str, tuple[list[str], str]]:
        """Return states and reason of each of these nodes."""
        known = {node["name"]: (node["state"], node.get("reason", "")) for node in self._libslurm.load_nodes()}
        check_known(names, known)
        return {name: known[name] for name in names}

    def _allocate(self, request: Arguments) -> int:
        if request["user"] == self._user:
            return self._libslurm.allocate(request)
        if os.geteuid() or "SLURM_JWT" in os.environ:
            raise SlurmRejected(
                f"the worker acts as {self._user} and may not submit for {request['user']}: "
                f"run it as root, or with {request['user']}'s token in SLURM_JWT"
            )
        answer = run_as(request["user"], lambda: self._answer(request), request["deadline"])
        return int(wire.result_of(json.loads(answer)))

    def _answer(self, request: Arguments) -> bytes:
        try:
            return wire.dump_result(0, self._libslurm.allocate(request))
        except SlurmError as error:
            return wire.dump_error(0, error)

    def _update(self, job_id: int, **changes: object) -> None:
        description = self._pyslurm.JobSubmitDescription(**changes)
        self._call(lambda: self._pyslurm.Job(job_id).modify(description))

    def _call(self, function: Callable[[], Any]) -> Any:  # noqa: ANN401 (pyslurm has no types)
        try:
            return function()
        except self._pyslurm.RPCError as error:
            raise wire.refusal(error.errno, str(error)) from None


def _acting_user() -> str:
    """Return the user that slurmctld will see: the token's when there is one, else this process's."""
    token = os.environ.get("SLURM_JWT")
    if not token:
        return pwd.getpwuid(os.geteuid()).pw_name
    payload = token.split(".")[1]
    claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    return str(claims.get("sun") or claims.get("username"))


def serve(worker: Worker) -> None:
    """Answer requests until stdin ends."""
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever else prints must not break the protocol
    _send(replies, wire.dump_result(wire.HELLO, {"pid": os.getpid()}))
    for line in sys.stdin.buffer:
        request = json.loads(line)
        try:
            reply = wire.dump_result(request["id"], worker.operations[request["op"]](request["args"]))
        except SlurmError as error:
            reply = wire.dump_error(request["id"], error)
        _send(replies, reply)


def _send(replies: BinaryIO, line: bytes) -> None:
    replies.write(line)
    replies.flush()


if __name__ == "__main__":
    serve(Worker())
