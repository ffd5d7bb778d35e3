"""Run one function as another user, in a child process that can be killed.

slurmctld takes the owner of an allocation from the caller's credential, which libslurm makes from the real uid: root
with another ``user_id`` gets its own associations, and is refused. A fork costs 1-2 ms, less than the call itself.
"""

from __future__ import annotations

import os
import pwd
import select
import signal
import time
import traceback
from collections.abc import Callable

from bridge.errors import SlurmRejected, SlurmUnavailable

_CHUNK = 65536


def run_as(user: str, function: Callable[[], bytes], deadline: float) -> bytes:
    """Return what ``function`` returns in a child that is ``user`` in every respect (uid, gid, groups).

    Raises ``SlurmUnavailable`` when the child does not answer within ``deadline`` seconds (it is killed) or dies.
    Must run as root and in a process with one thread.
    """
    try:
        account = pwd.getpwnam(user)
    except KeyError:
        raise SlurmRejected(f"user {user} is unknown on the worker's machine") from None
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        _be(account, function, writer)
    os.close(writer)
    try:
        answer = _read(reader, time.monotonic() + deadline)
    finally:
        os.close(reader)
        _end(child)
    if answer is None:
        raise SlurmUnavailable(f"the call as {user} did not end within {deadline:.1f} s")
    if not answer:
        raise SlurmUnavailable(f"the call as {user} ended without an answer")
    return answer


def _be(account: pwd.struct_passwd, function: Callable[[], bytes], writer: int) -> None:
    """Become ``account``, run and leave. Never returns: the child must not reach the worker's loop."""
    status = 1
    try:
        os.initgroups(account.pw_name, account.pw_gid)
        os.setresgid(account.pw_gid, account.pw_gid, account.pw_gid)
        os.setresuid(account.pw_uid, account.pw_uid, account.pw_uid)
        answer = function()
        while answer:
            answer = answer[os.write(writer, answer) :]
        status = 0
    finally:
        if status:
            traceback.print_exc()
        os._exit(status)


def _read(reader: int, until: float) -> bytes | None:
    """Return everything that the child writes, or None when it does not finish in time."""
    answer = bytearray()
    while (left := until - time.monotonic()) > 0:
        if not select.select([reader], [], [], left)[0]:
            break
        chunk = os.read(reader, _CHUNK)
        if not chunk:
            return bytes(answer)
        answer += chunk
    return None


def _end(child: int) -> None:
    os.kill(child, signal.SIGKILL)  # a child that has exited is still ours until it is waited for
    os.waitpid(child, 0)
