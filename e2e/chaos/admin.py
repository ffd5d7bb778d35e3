"""The admin of the fleet: when so much looks lost at once that the brake goes on, somebody has to decide."""

from __future__ import annotations

import contextlib
import threading

from e2e.chaos import sight
from e2e.scenario import brake

STEP_S = 1.0
FLEET = "/apis/gangbridge.dev/v1alpha1/fleets"


class Admin:
    """One thread. What looks lost in a run is lost: the brake is released while it is on, and then armed again."""

    def __init__(self) -> None:
        self.releases = 0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="admin", daemon=True)

    def start(self) -> None:
        """Begin to look after the brake."""
        self._thread.start()

    def stop(self) -> None:
        """Leave the Fleet as it was."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()
        brake.arm()

    def _watch(self) -> None:
        while not self._stopping.wait(STEP_S):
            with contextlib.suppress(*sight.UNREACHABLE):
                self._decide()

    def _decide(self) -> None:
        (main,) = sight.listed(FLEET)
        conditions = {each["type"]: each["status"] for each in main.get("status", {}).get("conditions", [])}
        is_on, is_released = conditions.get("Brake") == "True", brake.RELEASE in main["metadata"].get("annotations", {})
        if is_on and not is_released:
            brake.release()
            self.releases += 1
        elif is_released and not is_on:
            brake.arm()
