"""What the auditor finds, and what of it is true. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Invariant(StrEnum):
    """The invariants that can be checked from outside (docs/architecture.md)."""

    ONE_OWNER = "I1"
    HOLD = "I2"
    MIRROR = "I3"
    GATE = "I4"
    EVIDENCE = "I5"
    KEY = "I6"
    CLAIM_FORM = "I7"
    FOREIGN = "I8"


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """One broken invariant: what it is about, the sentence, and what each server says about it.

    No text has a time or a version in it: two readings of the same state give equal violations.
    """

    invariant: Invariant
    subject: str
    sentence: str
    slurm: tuple[str, ...] = ()
    kubernetes: tuple[str, ...] = ()


def confirm(first: Iterable[Violation], second: Iterable[Violation]) -> tuple[Violation, ...]:
    """Return what both readings found, about the same subject and with the same words of both servers.

    The servers are read one after the other, so one reading may join what never was together. Names are not used twice
    and allocations do not change: what Kubernetes said before and after Slurm was read, it said at that moment too.
    """
    known = set(first)
    return tuple(violation for violation in second if violation in known)
