"""The CDI folder as the plugin's journal: a claim is prepared exactly when its spec file is there.

One file per claim, named by its uid. A file appears whole or not at all: it is written under a name that no container
runtime reads, synced, and renamed. The folder is usually below /var/run, so a reboot empties it together with the
containers that used it.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import structlog

from bridge.errors import ParseError
from operators.driver.cdi import CLASS, VENDOR, PreparedClaim, prepared_of, spec_of
from operators.driver.errors import ClaimRefused, JournalError

_PREFIX = f"{VENDOR}-{CLASS}-"
_PARTIAL = ".partial"

log = structlog.get_logger(__name__)


class Journal:
    """Specs of prepared claims in ``folder``, which is made when absent."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        with self.lock():
            for leftover in folder.glob(f"{_PREFIX}*{_PARTIAL}"):
                log.info("partial_spec_removed", path=str(leftover))
                leftover.unlink()

    def path(self, uid: str) -> Path:
        """The spec file of a claim."""
        return self._folder / f"{_PREFIX}{uid}.json"

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Held around check and write; excludes other threads and other processes on the same folder."""
        with (self._folder / f"{VENDOR}-{CLASS}.lock").open("w") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield

    def find(self, uid: str) -> PreparedClaim | None:
        """What the claim was given, None if nothing; JournalError for an unreadable file."""
        return self._read(self.path(uid))

    def others(self, uid: str) -> Iterator[PreparedClaim]:
        """What all claims but this one were given; JournalError if that cannot be told."""
        for path in sorted(self._folder.glob(f"{_PREFIX}*.json")):
            if path != self.path(uid) and (prepared := self._read(path)) is not None:
                yield prepared

    def write(self, prepared: PreparedClaim) -> None:
        """Durable on return; a crash before that leaves the previous state."""
        path = self.path(prepared.claim.uid)
        partial = path.with_suffix(_PARTIAL)
        with partial.open("w", encoding="utf-8") as handle:
            json.dump(spec_of(prepared), handle, indent=1)
            handle.flush()
            os.fsync(handle.fileno())
        partial.replace(path)
        self._sync_folder()

    def remove(self, uid: str) -> bool:
        """Durable on return; False if the claim had no spec."""
        try:
            self.path(uid).unlink()
        except FileNotFoundError:
            return False
        self._sync_folder()
        return True

    def _read(self, path: Path) -> PreparedClaim | None:
        try:
            prepared = prepared_of(json.loads(path.read_bytes()))
        except FileNotFoundError:
            return None
        except (ParseError, ClaimRefused, ValueError) as error:
            raise JournalError(
                f"cannot tell which devices the spec {path} gave away ({error}); "
                "it goes when its pod ends, or remove it once no container uses it"
            ) from error
        if path != self.path(prepared.claim.uid):
            raise JournalError(f"the spec {path} is of another claim: {prepared.claim}")
        return prepared

    def _sync_folder(self) -> None:
        handle = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
