"""The optimum that judges everybody, against trying every set of nodes; and the files that slurmctld reads."""

from __future__ import annotations

import random
from collections import Counter
from itertools import combinations

import pytest
import yaml

from bench.exact import Optimum, touched
from bench.fleets import LARGE, MEDIUM, SMALL, Shape, lingjun
from bench.slurm.config import topology
from bridge.model.hostlist import expand


def best(homes: dict[str, tuple[str, ...]], free: list[str], nodes: int, segment: int) -> tuple[int, ...] | None:
    """Return the least counts of any set of nodes whose share of each leaf is whole segments."""
    return min(
        (
            touched(homes, chosen)
            for chosen in combinations(free, nodes)
            if all(count % segment == 0 for count in Counter(homes[name] for name in chosen).values())
        ),
        default=None,
    )


@pytest.mark.parametrize("seed", range(40))
def test_the_optimum_is_what_trying_everything_finds(seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311 (a repeatable fleet)
    homes = Shape(spines=rng.randint(1, 3), leaves=rng.randint(1, 3), size=rng.randint(1, 4)).fleet().homes
    free = rng.sample(sorted(homes), min(len(homes), rng.randint(1, 9)))
    for segment in (1, 2, 3):
        optimum = Optimum(homes, free, limit=6, segment=segment)
        for nodes in range(segment, 7, segment):
            assert optimum.counts(nodes) == best(homes, free, nodes, segment)


def test_three_levels_are_minimised_from_the_coarsest() -> None:
    homes = {
        "a": ("x", "x/1", "x/1/p"),
        "b": ("x", "x/2", "x/2/q"),
        "c": ("y", "y/1", "y/1/r"),
        "d": ("z", "z/1", "z/1/s"),
        "e": ("z", "z/1", "z/1/t"),
    }
    assert Optimum(homes, homes, limit=4).counts(2) == (1, 1, 2)
    assert Optimum(homes, "abc", limit=4).counts(2) == (1, 2, 2)
    assert Optimum(homes, "ac", limit=4).counts(2) == (2, 2, 2)
    assert Optimum(homes, "ac", limit=4).counts(3) is None


@pytest.mark.parametrize("shape", [SMALL, MEDIUM, LARGE])
def test_slurm_is_told_the_same_leaves_and_spines(shape: Shape) -> None:
    tree, block = yaml.safe_load(topology(shape))
    homes = shape.fleet().homes
    switches = {switch["switch"]: switch for switch in tree["tree"]["switches"]}
    for number in range(shape.spines):
        leaves = [expand(switches[leaf]["nodes"]) for leaf in expand(switches[f"spine{number}"]["children"])]
        assert all({homes[name][0] for name in nodes} == {f"s{number}"} for nodes in leaves)
        assert len({homes[nodes[0]][1] for nodes in leaves}) == shape.leaves
    blocks = [expand(found["nodes"]) for found in block["block"]["blocks"]]
    assert [name for nodes in blocks for name in nodes] == list(homes)
    assert all(len({homes[name][1] for name in nodes}) == 1 for nodes in blocks)
    assert block["block"]["block_sizes"] == [shape.size, shape.size * shape.leaves, shape.nodes]


def test_lingjun_has_its_hosts() -> None:
    fleet = lingjun()
    assert len(fleet.homes) == 847
    assert touched(fleet.homes, fleet.homes) == (1, 3, 119)
