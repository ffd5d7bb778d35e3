"""What a gang's status says when a server refused one of its actions."""

from __future__ import annotations

from bridge.errors import BridgeError, SlurmRejected, SpecError
from bridge.lifecycle.status import set_condition
from bridge.model.gang import ConditionType, Gang, GangStatus


def refused(gang: Gang, error: BridgeError, *, now: int) -> GangStatus:
    """Return the status with the server's own words: parked if nothing runs yet, else as the reason for waiting."""
    if isinstance(error, SlurmRejected):
        reason = "SlurmRejected"
    elif isinstance(error, SpecError):
        reason = "InvalidSpec"
    else:
        reason = "PodRejected"
    if gang.status.is_true(ConditionType.ALLOCATED):
        return set_condition(gang.status, ConditionType.RUNNING, False, reason, str(error), now=now)
    waits = gang.status.hold is not None
    return set_condition(gang.status, ConditionType.ACCEPTED, waits, reason, str(error), now=now)
