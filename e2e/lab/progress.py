"""Progress for people: one line per event with the seconds since the command started."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

_STARTED = time.monotonic()
_LOCK = threading.Lock()


def say(text: str) -> None:
    """Print one progress line to stderr; stdout belongs to commands whose output is read by a shell."""
    with _LOCK:
        print(f"[{time.monotonic() - _STARTED:6.1f}s] {text}", file=sys.stderr, flush=True)


@contextmanager
def step(name: str) -> Iterator[None]:
    """Announce a step that takes long, and how long it took."""
    began = time.monotonic()
    say(f"{name} …")
    yield
    say(f"{name}: done in {time.monotonic() - began:.1f} s")
