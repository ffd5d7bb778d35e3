"""What an admin does with the brake of the Fleet."""

from __future__ import annotations

from datetime import UTC, datetime

from e2e.scenario.commands import kubectl

RELEASE = "gangbridge.dev/release-brake"


def release() -> None:
    """Say that what looks lost is lost: the brake is off for ten minutes."""
    kubectl("annotate", "fleet", "main", f"{RELEASE}={datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}")


def arm() -> None:
    """Take that back."""
    kubectl("annotate", "fleet", "main", f"{RELEASE}-")
