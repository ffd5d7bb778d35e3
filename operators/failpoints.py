"""Places where a test may kill or freeze the process: ``before:SubmitHold``, ``after:CreatePod:2`` and so on.

``checked:`` with the name of a call (``checked:create pods``, ``checked:allocate``) is the moment between the check of
leadership and the call. Each variable holds one name; the number is how many times the place is passed first. Both are
empty in production.
"""

from __future__ import annotations

import os
import signal
from collections import Counter

DIE_AT = "GANGBRIDGE_DIE_AT"
FREEZE_AT = "GANGBRIDGE_FREEZE_AT"

_SIGNALS = {DIE_AT: signal.SIGKILL, FREEZE_AT: signal.SIGSTOP}
_passed: Counter[str] = Counter()


def reach(place: str) -> None:
    """Die here by SIGKILL, or stop until SIGCONT, if this is the place that the test chose."""
    for variable, number in _SIGNALS.items():
        if not (chosen := os.environ.get(variable)):
            continue
        moment, action, *rest = chosen.split(":")
        if f"{moment}:{action}" != place:
            continue
        _passed[place] += 1
        if _passed[place] == (int(rest[0]) if rest else 0) + 1:
            os.kill(os.getpid(), number)
