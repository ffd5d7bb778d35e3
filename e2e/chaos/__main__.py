"""`make chaos`: python -m e2e.chaos --faults 500 --seed N."""

from __future__ import annotations

import argparse
import random
import sys
import time

from e2e.chaos import report
from e2e.chaos.campaign import Campaign
from e2e.demo import background
from e2e.operator import install


def main() -> int:
    """Run one campaign; exit status 1 when the verdict is bad."""
    parser = argparse.ArgumentParser(prog="python -m e2e.chaos", description=__doc__)
    parser.add_argument("--faults", type=int, default=500, help="inject at least so many")
    parser.add_argument("--seed", type=int, default=None, help="random when not given; it is printed")
    arguments = parser.parse_args()
    seed = random.randrange(10**6) if arguments.seed is None else arguments.seed
    began = time.monotonic()

    def say(text: str) -> None:
        print(f"[{time.monotonic() - began:6.1f} s] {text}", flush=True)

    say(f"seed {seed}")
    if background.stop():
        say("the operator that ran in the background was stopped")
    install()
    run = Campaign(seed=seed, count=arguments.faults, say=say)
    run.run()
    report.show(run)
    if run.problems:
        print(f"evidence: {report.evidence(run)}")
    return 1 if run.problems else 0


if __name__ == "__main__":
    sys.exit(main())
