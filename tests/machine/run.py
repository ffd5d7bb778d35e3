"""Live many random lives and say what they were made of: ``python -m tests.machine.run``."""

from __future__ import annotations

import argparse
import logging
import sys
import time

import structlog
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.machine.lives import LIVES, live
from tests.machine.machine import COUNTS, Machine


def main() -> int:
    """Run; return the exit code. A failure is shrunk and printed, unless ``--brief``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lives", type=int, default=2100)
    parser.add_argument("--steps", type=int, default=70, help="rules in one life")
    parser.add_argument("--seed", type=int, default=None, help="default: the time")
    parser.add_argument("--among", default="", help="the only rules, by name and separated by commas; default: all")
    parser.add_argument("--life", choices=sorted(LIVES), help="this directed life alone")
    parser.add_argument("--brief", action="store_true", help="stop at the first failure and name the invariant")
    options = parser.parse_args()
    chosen = int(time.time()) if options.seed is None else options.seed
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    chances = settings(
        max_examples=options.lives,
        stateful_step_count=options.steps,
        deadline=None,
        database=None,
        print_blob=True,
        phases=[Phase.generate] if options.brief else [Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    began = time.monotonic()
    if not options.brief:
        print(f"seed {chosen}", flush=True)
    Machine.among = frozenset(filter(None, options.among.split(",")))
    seed(chosen)(Machine)
    try:
        if options.life:
            live(options.life)
        else:
            run_state_machine_as_test(Machine, settings=chances)
    except Exception as problem:
        if not options.brief:
            raise
        print(COUNTS["steps"], str(problem).splitlines()[0])
        return 1
    if options.brief:
        print(COUNTS["steps"])
        return 0
    for what, count in sorted(COUNTS.items()):
        print(f"{count:9}  {what}")
    seconds = time.monotonic() - began
    print(f"{COUNTS['steps']} steps in {COUNTS['lives']} lives, seed {chosen}, {seconds:.0f} s: nothing violated")
    return 0


if __name__ == "__main__":
    sys.exit(main())
