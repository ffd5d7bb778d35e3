"""What the client and the worker process say to each other: one JSON object a line, one request at a time.

    client  {"id": 7, "op": "repin", "args": {"job_id": 12, "nodes": "gpu[0-3]"}}
    worker  {"id": 7, "ok": null}
    worker  {"id": 7, "error": {"kind": "rejected", "message": "Job is no longer pending execution", "errno": 2021}}

The worker's first line, before any request, is ``{"id": 0, "ok": {...}}``. Standard library only: the worker's
interpreter has none of the operator's packages.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from bridge.errors import SlurmError, SlurmRejected, SlurmUnavailable

HELLO = 0
"""Id of the line with which the worker says that it is ready."""

REFUSED = 2000
"""First number of slurmctld's own refusals (ESLURM_*, slurm_errno.h); what is below is about the way there."""
_SOCKET_ERRORS = range(5000, 6000)
"""SLURM_PROTOCOL_SOCKET_*: time-outs and short reads."""

_RIGHTS = {
    2002: "run the worker as root or SlurmUser, or grant its user `sacctmgr modify user NAME set adminlevel=admin`",
    2010: "the worker may not act for that user: run it as root, or with that user's token in SLURM_JWT",
}


def refusal(errno: int, message: str) -> SlurmError:
    """Return the error for a failed call: ``SlurmRejected`` only when slurmctld itself said no."""
    if errno < REFUSED or errno in _SOCKET_ERRORS:
        return SlurmUnavailable(f"{message} (errno {errno})")
    hint = _RIGHTS.get(errno)
    return SlurmRejected(f"{message}: {hint}" if hint else message, errno)


def dump(message: Mapping[str, Any]) -> bytes:
    """Return the line that carries ``message``."""
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


def dump_result(request_id: int, result: object) -> bytes:
    """Return the line that answers a request."""
    return dump({"id": request_id, "ok": result})


def dump_error(request_id: int, error: SlurmError) -> bytes:
    """Return the line that answers a request that failed."""
    rejected = isinstance(error, SlurmRejected)
    body: dict[str, Any] = {"kind": "rejected" if rejected else "unavailable", "message": str(error)}
    if isinstance(error, SlurmRejected):
        body["errno"] = error.errno
    return dump({"id": request_id, "error": body})


def result_of(reply: Mapping[str, Any]) -> Any:  # noqa: ANN401 (JSON)
    """Return what a reply carries, or raise the error that it carries."""
    error = reply.get("error")
    if error is None:
        return reply["ok"]
    if error["kind"] == "rejected":
        raise SlurmRejected(error["message"], error["errno"])
    raise SlurmUnavailable(error["message"])
