"""Random trees and blocks, written as Slurm writes them and read again."""

from __future__ import annotations

import json
import random

from hypothesis import given
from hypothesis import strategies as st

from bridge.topology.paths import names_of
from bridge.topology.slurm_conf import read_conf
from bridge.topology.slurm_yaml import read_yaml
from bridge.topology.switches import Switch

TREES = st.recursive(st.integers(1, 4), lambda below: st.lists(below, min_size=1, max_size=3), max_leaves=12)
"""A leaf with so many nodes, or a switch over others."""
FORESTS = st.lists(TREES, min_size=1, max_size=3)
DEPTHS = st.integers(1, 4)


def switches_of(forest) -> tuple[list[Switch], dict[str, list[str]]]:
    """Return the switches, and every node's own from the leaf up."""
    switches: list[Switch] = []
    above: dict[str, list[str]] = {}

    def grow(tree, path: list[str]) -> str:
        name = f"sw{len(switches)}"
        position = len(switches)
        switches.append(Switch(name=name))
        if isinstance(tree, int):
            nodes = tuple(f"n{len(above) + i}" for i in range(tree))
            above.update((node, [name, *path]) for node in nodes)
            switches[position] = Switch(name=name, nodes=nodes)
        else:
            children = tuple(grow(below, [name, *path]) for below in tree)
            switches[position] = Switch(name=name, children=children)
        return name

    for tree in forest:
        grow(tree, [])
    return switches, above


def conf(switches: list[Switch]) -> str:
    lines = []
    for switch in switches:
        below = f"Nodes={','.join(switch.nodes)}" if switch.nodes else f"Switches={','.join(switch.children)}"
        lines.append(f"SwitchName={switch.name} {below}")
    return "\n".join(lines)


@given(FORESTS, DEPTHS)
def test_two_nodes_share_a_leaf_if_and_only_if_they_do(forest, depth):
    switches, above = switches_of(forest)
    domains = read_conf(conf(switches), [f"l{i}" for i in range(depth)]).domains
    assert domains.keys() == above.keys()
    for node, path in above.items():
        assert names_of(domains[node])[-1] == path[0]


@given(FORESTS)
def test_every_switch_is_found_at_the_tier_of_its_height(forest):
    switches, above = switches_of(forest)
    heights: dict[str, int] = {}
    for switch in reversed(switches):  # children come after their parents
        heights[switch.name] = 1 + max((heights[child] for child in switch.children), default=-1)
    topology = read_conf(conf(switches))
    assert topology.problems == ()
    for node, path in above.items():
        names = names_of(topology.domains[node])[::-1]
        assert {name: tier for tier, name in enumerate(names) if name} == {name: heights[name] for name in path}


@given(FORESTS)
def test_two_nodes_share_a_domain_only_below_a_common_switch(forest):
    switches, above = switches_of(forest)
    topology = read_conf(conf(switches), ("a", "b", "c"))
    for node, path in topology.domains.items():
        for other, others in topology.domains.items():
            for mine, theirs in zip(path, others, strict=True):
                assert mine != theirs or set(above[node]) & set(above[other])


@given(FORESTS, DEPTHS, st.randoms(use_true_random=False))
def test_the_order_of_lines_and_churn_without_change_change_nothing(forest, depth, chance: random.Random):
    switches, _ = switches_of(forest)
    levels = [f"l{i}" for i in range(depth)]
    shuffled = chance.sample(switches, len(switches))
    turned = [Switch(name=switch.name, nodes=switch.nodes[::-1], children=switch.children[::-1]) for switch in shuffled]
    assert read_conf(conf(turned), levels) == read_conf(conf(switches), levels)


@given(FORESTS, DEPTHS)
def test_yaml_says_what_lines_say(forest, depth):
    switches, _ = switches_of(forest)
    items = [
        {"switch": switch.name, "children": ",".join(switch.children), "nodes": ",".join(switch.nodes)}
        for switch in switches
    ]
    text = json.dumps([{"topology": "", "cluster_default": True, "tree": {"switches": items}}])  # JSON is YAML
    levels = [f"l{i}" for i in range(depth)]
    assert read_yaml(text, levels) == (read_conf(conf(switches), levels),)


@given(st.text('SwitchName=odes,[]0123-\\# \n"', max_size=120))
def test_no_text_breaks_the_reader(text):
    topology = read_conf(text, ("spine", "rack"))
    assert all(len(paths) == 2 for paths in topology.domains.values())


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=20), st.sets(st.integers(0, 6)))
def test_no_graph_breaks_the_reader(edges, leaves):
    """Cycles, several parents, leaves over switches: the result is a tree with every node in it once."""
    lines = [f"SwitchName=s{parent} Switches=s{child}" for parent, child in edges]
    lines += [f"SwitchName=s{leaf} Nodes=n{leaf},n7" for leaf in leaves]
    topology = read_conf("\n".join(lines))
    assert topology.domains.keys() == {f"n{leaf}" for leaf in leaves} | ({"n7"} if leaves else set())
    parents: dict[str, str] = {}
    for paths in topology.domains.values():
        assert paths[-1]
        for path in paths:
            above, _, name = path.rpartition("/")
            if not name.startswith("~"):
                assert parents.setdefault(name, above) == above
    assert read_conf("\n".join(lines[::-1])) == topology


@given(st.lists(st.integers(0, 4), min_size=1, max_size=20), st.integers(0, 3))
def test_a_larger_block_is_of_neighbours_only(sizes, joins):
    lines = [f"BlockName=b{i} Nodes={','.join(f'n{i}x{j}' for j in range(size))}" for i, size in enumerate(sizes)]
    wanted = ",".join(str(4 * 2**join) for join in range(joins + 1))
    topology = read_conf("\n".join([*lines, f"BlockSizes={wanted}"]))
    assert topology.levels == (*(f"block-{4 * 2**join}" for join in range(joins, 0, -1)), "block")
    for node, paths in topology.domains.items():
        index = int(node[1:].partition("x")[0])
        for other, others in topology.domains.items():
            at = int(other[1:].partition("x")[0])
            for join, (mine, theirs) in enumerate(zip(reversed(paths), reversed(others), strict=True)):
                whole = (index >> join << join) + 2**join <= len(sizes)
                assert (mine == theirs) == (
                    index == at or (whole and index >> join == at >> join) or _left_over(index, at, join, len(sizes))
                )


def _left_over(index: int, at: int, join: int, count: int) -> bool:
    """Return whether two blocks that belong to no block of this size are in one of the next smaller size that does."""

    def largest(block: int) -> tuple[int, int]:
        step = next(step for step in range(join, -1, -1) if (block >> step << step) + 2**step <= count)
        return step, block >> step

    return largest(index) == largest(at)
