"""Places where a test may kill the process, named after the action: ``before:SubmitHold``, ``after:CreatePod:2``.

The environment variable holds one name; the number is how many times the place is passed first. Empty in production.
"""

from __future__ import annotations

import os
import signal
from collections import Counter

VARIABLE = "GANGBRIDGE_DIE_AT"

_passed: Counter[str] = Counter()


def reach(place: str) -> None:
    """Die here by SIGKILL if this is the place that the test chose."""
    chosen = os.environ.get(VARIABLE)
    if not chosen:
        return
    moment, action, *rest = chosen.split(":")
    if f"{moment}:{action}" != place:
        return
    _passed[place] += 1
    if _passed[place] > (int(rest[0]) if rest else 0):
        os.kill(os.getpid(), signal.SIGKILL)
