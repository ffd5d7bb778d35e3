"""Errors of the deciding half and of the Slurm port.

BridgeError
├── ParseError          text from a server or a user that does not follow its grammar
├── SpecError           a field of an object is wrong; names the field
└── SlurmError
    ├── SlurmUnavailable   no answer or an ambiguous one: nothing is known, the call may have been carried out
    └── SlurmRejected      slurmctld said no; the call had no effect
"""

from __future__ import annotations


class BridgeError(Exception):
    """Root of every error that gangbridge raises on purpose."""


class ParseError(BridgeError):
    """``text`` does not follow its grammar."""

    def __init__(self, text: str, problem: str) -> None:
        super().__init__(f"{problem}: {text!r}")
        self.text = text
        self.problem = problem


class SpecError(BridgeError):
    """The field at ``path`` (as in ``spec.roles[0].gres``) is wrong."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path}: {problem}")
        self.path = path
        self.problem = problem


class SlurmError(BridgeError):
    """A call to Slurm did not succeed."""


class SlurmUnavailable(SlurmError):
    """No usable answer: the state is unknown, and a write may or may not have happened."""


class SlurmRejected(SlurmError):
    """slurmctld refused the call. ``errno`` is Slurm's (slurm_errno.h), 0 when only text is known."""

    def __init__(self, message: str, errno: int = 0) -> None:
        super().__init__(message)
        self.errno = errno
