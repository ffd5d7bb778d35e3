"""The fence: an admin's recorded word that a node is powered off, or that no container runs on it any more.

It is the override of the rule that a device becomes free only on evidence. It stands in an annotation of the Node,
which people write by hand too, so whatever gives a reason counts.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime

MAX_REASON = 256
"""Characters of a reason, or of a name, that are kept."""
_NOT_FENCED = frozenset({"", "false", "no", "null"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Fence:
    """Who vouches, since when (seconds since the epoch, 0: not said) and why. ``by`` may be empty."""

    by: str = ""
    at: int = 0
    reason: str = ""

    def dumps(self) -> str:
        """Return the text of the annotation; ``loads`` reads it back."""
        at = datetime.fromtimestamp(self.at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return json.dumps({"by": self.by, "at": at, "reason": self.reason[:MAX_REASON]}, ensure_ascii=False)

    @staticmethod
    def loads(text: str | None) -> Fence | None:
        """Return the fence that ``text`` declares; None where there is no text or it says that there is none."""
        if text is None or text.strip().lower() in _NOT_FENCED:
            return None
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            value = None
        if not isinstance(value, dict):
            return Fence(reason=text.strip()[:MAX_REASON])
        by, reason = (_text(value.get(key)) for key in ("by", "reason"))
        return Fence(by=by, at=_seconds(value.get("at")), reason=reason)


def _text(value: object) -> str:
    return "" if value is None else str(value)[:MAX_REASON]


def _seconds(value: object) -> int:
    try:
        at = datetime.fromisoformat(value) if isinstance(value, str) else None
        return int(at.timestamp()) if at is not None and at.tzinfo is not None else 0
    except (ValueError, OverflowError):
        return 0
