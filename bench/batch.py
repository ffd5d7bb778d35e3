"""A batch of gangs, placed one by one as they come or biggest first, beside the best for the whole batch by CP-SAT.

OR-Tools wants an older protobuf than the operator, so it has an environment of its own in the cache and runs as a
process of its own.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.allocators import Ask, Ours
from bench.exact import touched
from bench.fleets import Fleet, Shape

ORTOOLS = "9.15.6755"
SCRIPT = Path(__file__).with_name("cpsat.py")
SEGMENTS = (1, 2, 4, 8, 16)
CASES = ((Shape(spines=2, leaves=4), 8), (Shape(spines=4, leaves=4), 16), (Shape(spines=4, leaves=8), 32))


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    """What of a batch was placed: nodes, and spines and leaves summed over gangs."""

    nodes: int
    spines: int
    leaves: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """``proved`` is ``++`` when both of CP-SAT's stages ended with a proof; ``bound`` is of the nodes."""

    title: str
    wanted: int
    arrival: Packed
    biggest: Packed
    best: Packed
    bound: int
    proved: str
    wall: float


def solver(cache: Path, say: Callable[[str], None]) -> Path:
    """Return the interpreter that has OR-Tools, made once."""
    home = cache / f"bench-ortools-{ORTOOLS}-py{sys.version_info.major}.{sys.version_info.minor}"
    python, stamp = home / "bin/python", home / ".complete"
    if not stamp.exists():
        say(f"an environment for OR-Tools {ORTOOLS} in {home}")
        subprocess.run([sys.executable, "-m", "venv", home], check=True)
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", f"ortools=={ORTOOLS}"]
        subprocess.run(pip, check=True)
        stamp.touch()
    return python


def run(python: Path, cases: int, draws: int, seconds: float, seed: int, say: Callable[[str], None]) -> list[Batch]:
    """Return ``draws`` batches for each of the first ``cases`` sizes; CP-SAT has ``seconds`` for each stage."""
    found = []
    for shape, gangs in CASES[:cases]:
        fleet = shape.fleet()
        for draw in range(draws):
            rng = random.Random(f"{seed}/{shape}/{draw}")
            out = fleet.drained(rng.choice((0.4, 0.6)), rng)
            asks = _asks(rng, gangs, len(fleet.homes) - len(out))
            best = _solve(python, fleet, out, asks, seconds)
            found.append(_batch(fleet, out, asks, best))
            say(f"batch of {gangs} gangs: CP-SAT {best['nodes']} nodes ({best['status']}, {best['wall']:.1f} s)")
    return found


def _asks(rng: random.Random, gangs: int, free: int) -> list[Ask]:
    """Return gangs that together want a little more than is free."""
    asks = []
    for _ in range(gangs):
        segment = rng.choice(SEGMENTS)
        wanted = max(1, round(rng.uniform(0.5, 1.7) * free / gangs / segment))
        asks.append(Ask(nodes=wanted * segment, gpus=8, segment=segment))
    return asks


def _solve(python: Path, fleet: Fleet, out: frozenset[str], asks: Sequence[Ask], seconds: float) -> dict[str, Any]:
    free: dict[tuple[str, ...], int] = {}
    for name, home in fleet.homes.items():
        free[home] = free.get(home, 0) + (name not in out)
    problem = {
        "leaves": [[home[0], count] for home, count in free.items()],
        "gangs": [[ask.nodes // ask.segment, ask.segment] for ask in asks],
        "seconds": seconds,
    }
    done = subprocess.run(
        [python, SCRIPT],
        input=json.dumps(problem),
        capture_output=True,
        text=True,
        check=True,
        timeout=60 + 4 * seconds,
    )
    return dict(json.loads(done.stdout))


def _batch(fleet: Fleet, out: frozenset[str], asks: list[Ask], best: dict[str, Any]) -> Batch:
    biggest = sorted(asks, key=lambda ask: (-ask.segment, -ask.nodes))
    return Batch(
        title=f"{len(asks)} gangs on {len(set(fleet.homes.values()))} leaves",
        wanted=sum(ask.nodes for ask in asks),
        arrival=_packed(fleet, out, asks),
        biggest=_packed(fleet, out, biggest),
        best=Packed(nodes=best["nodes"], spines=best["spines"], leaves=best["leaves"]),
        bound=best["bound"],
        proved=best["status"],
        wall=best["wall"],
    )


def _packed(fleet: Fleet, out: frozenset[str], asks: Sequence[Ask]) -> Packed:
    ours = Ours(fleet, out)
    gangs = [taken.nodes for ask in asks if (taken := ours.take(ask)).nodes]
    counts = [touched(fleet.homes, nodes) for nodes in gangs]
    return Packed(
        nodes=sum(map(len, gangs)), spines=sum(count[0] for count in counts), leaves=sum(count[-1] for count in counts)
    )
