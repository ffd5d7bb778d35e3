"""A history of what everybody could see meanwhile, from ``kubectl get -w``."""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import IO

from e2e.scenario.commands import NAMESPACE, Object


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One event of one object; ``version`` orders the events of all kinds."""

    kind: str
    type: str
    obj: Object

    @property
    def version(self) -> int:
        return int(self.obj["metadata"]["resourceVersion"])


@dataclass
class Recording:
    """All changes of some kinds between start and ``stop``, in the order in which they were stored."""

    kinds: tuple[str, ...]
    changes: list[Change] = field(default_factory=list)
    _processes: dict[str, subprocess.Popen[str]] = field(default_factory=dict)
    _outputs: dict[str, IO[str]] = field(default_factory=dict)

    def start(self) -> None:
        """Start to watch; returns when every watch runs."""
        for kind in self.kinds:
            output = tempfile.TemporaryFile("w+")  # noqa: SIM115
            command = ["kubectl", "get", kind, "-n", NAMESPACE, "-w", "--output-watch-events", "-o", "json"]
            self._outputs[kind] = output
            self._processes[kind] = subprocess.Popen(command, stdout=output, text=True)
        time.sleep(0.5)

    def stop(self) -> None:
        """End the watches and read what they saw."""
        time.sleep(0.3)
        for kind, process in self._processes.items():
            process.terminate()
            process.wait(10)
            output = self._outputs[kind]
            output.seek(0)
            self.changes += [
                Change(kind=kind, type=event["type"], obj=event["object"]) for event in _values(output.read())
            ]
            output.close()
        self._processes.clear()
        self.changes.sort(key=lambda change: change.version)

    def states(self) -> Iterator[dict[tuple[str, str], Object]]:
        """Yield what existed after each change, by kind and name."""
        state: dict[tuple[str, str], Object] = {}
        for change in self.changes:
            key = change.kind, change.obj["metadata"]["name"]
            if change.type == "DELETED":
                state.pop(key, None)
            else:
                state[key] = change.obj
            yield state


@contextmanager
def recorded(*kinds: str) -> Iterator[Recording]:
    """Record changes while the block runs; they can be read after it."""
    recording = Recording(kinds)
    recording.start()
    try:
        yield recording
    finally:
        recording.stop()


def assert_never_partial(recording: Recording, members: int) -> None:
    """Assert that no pod was ever handed to the scheduler before the claims of all ``members`` were allocated.

    It looks at gangs that start: once all pods of the gang were ungated the gang has started.
    """
    ungated_once = False
    for state in recording.states():
        pods = [obj for (kind, _), obj in state.items() if kind == "pods"]
        claims = [obj for (kind, _), obj in state.items() if kind == "resourceclaims"]
        ungated = [pod for pod in pods if not pod["spec"].get("schedulingGates")]
        if not ungated:
            continue
        ungated_once = True
        allocated = [claim for claim in claims if claim.get("status", {}).get("allocation")]
        assert len(pods) == members, f"{len(pods)} of {members} pods exist while {len(ungated)} are ungated"
        assert len(allocated) == members, (
            f"{len(allocated)} of {members} claims are allocated, {len(ungated)} pods ungated"
        )
        if len(ungated) == members:
            return
    assert ungated_once, "no pod was ever ungated: nothing was recorded"


def _values(text: str) -> Iterator[Object]:
    decoder, at = json.JSONDecoder(), 0
    while (at := _skip_blanks(text, at)) < len(text):
        value, at = decoder.raw_decode(text, at)
        yield value


def _skip_blanks(text: str, at: int) -> int:
    while at < len(text) and text[at].isspace():
        at += 1
    return at
