"""What the last audit said. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from auditor.report import Report


@dataclass(frozen=True, slots=True, kw_only=True)
class Audited:
    """The last report, and in ``error`` why there is no newer one; empty while audits succeed."""

    report: Report | None = None
    error: str = ""
