"""A small `make chaos`: random faults during a mixed load, then nothing leaked, no device held twice, true records."""

from __future__ import annotations

import subprocess
import sys

import pytest

from e2e.operator import ROOT

FAULTS, SEED = 40, 5


@pytest.mark.usefixtures("installed")
def test_nothing_is_lost_and_nothing_held_twice_after_40_random_faults() -> None:
    # A process of its own: the daemons that it starts again outlive it.
    command = [sys.executable, "-m", "e2e.chaos", "--faults", str(FAULTS), "--seed", str(SEED)]
    done = subprocess.run(command, cwd=ROOT, text=True, capture_output=True, check=False)
    print(done.stdout)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "VERDICT: clean" in done.stdout
