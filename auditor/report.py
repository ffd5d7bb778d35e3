"""What an audit found; as JSON, and as blocks for the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from rich.console import Console

from auditor.errors import Unreadable
from auditor.violation import Violation


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What an audit found. ``read`` counts what it looked at, by kind; ``at`` is in seconds since the epoch."""

    violations: tuple[Violation, ...]
    notes: tuple[str, ...]
    read: Mapping[str, int]
    at: int
    seconds: float

    @property
    def is_clean(self) -> bool:
        """True when no invariant is broken."""
        return not self.violations


def as_json(report: Report) -> dict[str, Any]:
    """Return the report as plain values."""
    return {
        "clean": report.is_clean,
        "at": _time(report.at),
        "seconds": report.seconds,
        "read": dict(report.read),
        "violations": [asdict(violation) for violation in report.violations],
        "notes": list(report.notes),
    }


def error_as_json(error: Unreadable) -> dict[str, Any]:
    """Return why there is no report; ``clean`` is unknown."""
    return {"clean": None, "error": {"server": error.server, "message": error.why}}


def print_report(report: Report, console: Console) -> None:
    """Print the report for people: one block for each violation."""
    for note in report.notes:
        console.print(f"note: {note}", style="yellow", markup=False, highlight=False)
    for violation in report.violations:
        _print_violation(violation, console)
    console.print(headline(report), style="bold" if report.is_clean else "bold red", markup=False, highlight=False)
    told = ", ".join(f"{count} {kind}" for kind, count in report.read.items())
    console.print(
        f"read {told} in {report.seconds:.1f} s, {_time(report.at)}", style="dim", markup=False, highlight=False
    )


def headline(report: Report) -> str:
    """Return ``clean: …`` or ``3 violations: I1 2, I6 1``."""
    if report.is_clean:
        return "clean: I1-I8 hold"
    counts: dict[str, int] = {}
    for violation in report.violations:
        counts[violation.invariant] = counts.get(violation.invariant, 0) + 1
    number = len(report.violations)
    told = ", ".join(f"{invariant} {count}" for invariant, count in counts.items())
    return f"{number} violation{'' if number == 1 else 's'}: {told}"


def _print_violation(violation: Violation, console: Console) -> None:
    console.print(f"{violation.invariant}  {violation.subject}", style="bold red", markup=False, highlight=False)
    console.print(f"    {violation.sentence}", markup=False, highlight=False)
    for server, lines in (("Slurm", violation.slurm), ("Kubernetes", violation.kubernetes)):
        for number, line in enumerate(lines):
            console.print(f"    {server if number == 0 else '':<12}{line}", markup=False, highlight=False)


def _time(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
