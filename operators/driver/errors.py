"""Errors of the kubelet plugin.

DriverError
├── SetupError        the process cannot start: a path, kubeconfig or option is wrong
├── ApiUnavailable    the API server gave no usable answer; nothing is known
├── ApiRefused        the API server said no; has its HTTP status
├── ClaimRefused      the claim must not be prepared as it is; kubelet shows the text in the pod's events
└── JournalError      the CDI folder holds something that cannot be trusted
"""

from __future__ import annotations

from bridge.errors import BridgeError


class DriverError(BridgeError):
    """Root of the plugin's errors; the text is complete, kubelet shows it as it is."""


class SetupError(DriverError):
    """The process cannot start as it was asked to."""


class ApiUnavailable(DriverError):
    """No usable answer of the API server: refused connection, timeout, 429, 5xx, or no JSON."""


class ApiRefused(DriverError):
    """The API server answered with an HTTP error of the 4xx family."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class ClaimRefused(DriverError):
    """The claim must not be prepared on this node as it stands."""


class JournalError(DriverError):
    """A spec file of ours cannot be read, so it is unknown which devices it gave away."""
