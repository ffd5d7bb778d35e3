"""Take each safeguard away, in a copy of the tree, and let the machine find out: ``python -m tests.machine.mutate``.

Prints which invariant noticed, and after how many steps. Fails when one is not missed, or is no longer where it was.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from tests.machine.mutations import MUTATIONS, Mutation

ROOT = Path(__file__).parents[2]
PARTS = ("bridge", "operators", "crds", "tests")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Which invariant noticed a mutation; empty when none did."""

    invariant: str
    steps: str
    problem: str


def main() -> int:
    """Try all mutations, or those whose safeguard contains a word; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("word", nargs="?", default="")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--lives", type=int, default=1000, help="at most, for each mutation")
    options = parser.parse_args()
    tried = [mutation for mutation in MUTATIONS if options.word in mutation.safeguard]
    missed, began = 0, time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        for mutation in tried:
            finding = attempt(mutation, Path(folder), options.lives, options.seed)
            missed += bool(finding.invariant)
            shown = finding.invariant[:90] or f"NOT NOTICED ({finding.problem})"
            print(f"{mutation.safeguard:62} {finding.steps:>7}  {shown}", flush=True)
    seconds = time.monotonic() - began
    print(f"{missed} of {len(tried)} safeguards were missed, seed {options.seed}, {seconds:.0f} s")
    return 0 if missed == len(tried) else 1


def attempt(mutation: Mutation, folder: Path, lives: int, seed: int) -> Finding:
    """Run the machine on a mutated copy of the tree in ``folder``."""
    for part in PARTS:
        shutil.rmtree(folder / part, ignore_errors=True)
        shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
    for path, old, new in mutation.changes:
        text = (folder / path).read_text()
        if text.count(old) != 1:
            return Finding(invariant="", steps="", problem=f"{path} has its text {text.count(old)} times")
        (folder / path).write_text(text.replace(old, new))
    command = [sys.executable, "-m", "tests.machine.run", "--lives", str(lives), "--seed", str(seed), "--brief"]
    command += ["--life", mutation.life] if mutation.life else ["--among", ",".join(mutation.among)]
    environment = os.environ | {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    ran = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    steps, _, said = ran.stdout.strip().partition(" ")
    if ran.returncode == 0 or not said:
        return Finding(invariant="", steps=steps, problem=(ran.stderr.strip().splitlines() or ["it survived"])[-1])
    return Finding(invariant=said, steps=steps, problem="")


if __name__ == "__main__":
    sys.exit(main())
