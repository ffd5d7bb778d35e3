"""What was done, when and to whom: the count of faults, and why an end may be another than the planned one."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One fault. ``job`` and ``gang`` (uid) say whose end it may change; empty when nobody's should change."""

    at: float
    kind: str
    what: str = ""
    job: int = 0
    gang: str = ""


@dataclass
class Diary:
    """Every fault of a run, in order; for use by several threads."""

    entries: list[Entry] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, kind: str, what: str = "", *, job: int = 0, gang: str = "") -> None:
        """Write down a fault in the moment in which it is injected."""
        entry = Entry(at=time.time(), kind=kind, what=what, job=job, gang=gang)
        with self._lock:
            self.entries.append(entry)

    def __len__(self) -> int:
        return len(self.entries)

    def by_kind(self) -> Counter[str]:
        """Return how many faults of each kind there were."""
        return Counter(entry.kind for entry in self.entries)

    def write(self, path: Path) -> None:
        """Write the diary as lines of JSON."""
        path.write_text("".join(json.dumps(asdict(entry)) + "\n" for entry in self.entries))
