"""One module for each invariant: evidence in, violations out. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from auditor.evidence import Evidence
from auditor.rules import claimform, foreign, gates, holds, keys, mirrors, owners, release
from auditor.violation import Invariant, Violation

Rule = Callable[[Evidence], list[Violation]]

RULES: Mapping[Invariant, Rule] = {
    Invariant.ONE_OWNER: owners.check,
    Invariant.HOLD: holds.check,
    Invariant.MIRROR: mirrors.check,
    Invariant.GATE: gates.check,
    Invariant.EVIDENCE: release.check,
    Invariant.KEY: keys.check,
    Invariant.CLAIM_FORM: claimform.check,
    Invariant.FOREIGN: foreign.check,
}


def judge(evidence: Evidence) -> tuple[Violation, ...]:
    """Return what is wrong in one reading, in the order of the invariants."""
    return tuple(violation for rule in RULES.values() for violation in rule(evidence))
