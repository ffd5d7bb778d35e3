"""The labels and the owner of everything that belongs to one attempt of a gang."""

from __future__ import annotations

from typing import Any

from bridge import wellknown
from bridge.model.gang import Gang

LABEL_MAX = 63


def gang_labels(gang: Gang) -> dict[str, str]:
    """Return the labels that find everything of the current attempt again."""
    # NB: the schema keeps new names within a label; the uid is what counts.
    return {
        wellknown.MANAGED_BY: wellknown.FIELD_MANAGER,
        wellknown.GANG: gang.name[:LABEL_MAX].rstrip("-."),
        wellknown.GANG_UID: gang.uid,
        wellknown.ATTEMPT: str(gang.status.attempt),
    }


def owner_reference(gang: Gang) -> dict[str, Any]:
    """Return the reference that makes the GangJob the controller of a pod or service."""
    return {
        "apiVersion": wellknown.API_VERSION,
        "kind": "GangJob",
        "name": gang.name,
        "uid": gang.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
