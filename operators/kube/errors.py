"""Errors of the Kubernetes API, one class per answer that callers treat differently.

KubeError(status, reason, message)
├── Conflict          409: the object changed since it was read
├── AlreadyExists     409: the name is taken
├── NotFound          404
├── Invalid           422: schema, CEL rule or admission policy; the message names the field
├── Forbidden         403: RBAC, quota or policy
├── Expired           410: the resource version of a watch or of a list page is too old
├── TooManyRequests   429: ``retry_after_s`` is what the server asked for
└── KubeUnavailable   no connection, no answer in time or 5xx: a write may or may not have happened
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bridge.errors import BridgeError


class KubeError(BridgeError):
    """The API server refused a call; ``status`` is the HTTP code, ``reason`` the one word of its Status."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message


class Conflict(KubeError):
    """The object changed since it was read, or a precondition does not hold."""


class AlreadyExists(KubeError):
    """An object of that name exists."""


class NotFound(KubeError):
    """No such object, or no such resource type."""


class Invalid(KubeError):
    """The object breaks its schema, a rule or a policy."""


class Forbidden(KubeError):
    """RBAC, a quota or a policy does not allow the call."""


class Expired(KubeError):
    """The resource version is older than what the server remembers: list again."""


class TooManyRequests(KubeError):
    """The server sheds load; the call had no effect."""

    retry_after_s: float = 1.0


class KubeUnavailable(KubeError):
    """No usable answer: the state is unknown, and a write may or may not have happened."""


_BY_CODE: Mapping[int, type[KubeError]] = {
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Expired,
    422: Invalid,
    429: TooManyRequests,
}
_BY_REASON: Mapping[str, type[KubeError]] = {"AlreadyExists": AlreadyExists, "Expired": Expired}


def error_from(code: int, status: Mapping[str, Any], *, retry_after: str | None = None) -> KubeError:
    """Return the error for an HTTP ``code`` and the Status object (maybe empty) that came with it."""
    reason = str(status.get("reason") or "Unknown")
    message = str(status.get("message") or "no message")
    kind = _BY_REASON.get(reason) or _BY_CODE.get(code) or (KubeUnavailable if code >= 500 else KubeError)
    error = kind(code, reason, message)
    if isinstance(error, TooManyRequests) and retry_after and retry_after.isdigit():
        error.retry_after_s = float(retry_after)
    return error


def unavailable(problem: BaseException | str) -> KubeUnavailable:
    """Return the error for a call that got no answer at all."""
    text = problem if isinstance(problem, str) else f"{type(problem).__name__}: {problem}"
    return KubeUnavailable(0, "NoAnswer", text)
