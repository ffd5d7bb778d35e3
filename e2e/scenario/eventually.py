"""Waiting for what has to become true by itself."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
STEP_S = 0.1
PATIENCE = 2
"""How many times longer is waited than a quiet machine needs: CI's has two cores and neighbours."""


def eventually(probe: Callable[[], T], what: str, *, within_s: float = 20, step_s: float = STEP_S) -> T:
    """Return the first true answer of ``probe``; AssertionError with its last answer when time is up.

    ``within_s`` is what a quiet machine needs at most.

    A probe may say no with an AssertionError, whose text is then what is reported.
    """
    deadline = time.monotonic() + within_s * PATIENCE
    last: object = None
    while True:
        try:
            answer = probe()
        except AssertionError as error:
            last = error
        else:
            if answer:
                return answer
            last = answer
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {within_s * PATIENCE:g} s: {what}; last seen: {last!r}")
        time.sleep(step_s)


def stays(probe: Callable[[], object], what: str, *, for_s: float, step_s: float = STEP_S) -> None:
    """Assert that ``probe`` answers true for ``for_s`` seconds on end."""
    deadline = time.monotonic() + for_s
    while time.monotonic() < deadline:
        assert probe(), f"ceased to be true: {what}"
        time.sleep(step_s)
