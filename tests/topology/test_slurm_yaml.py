"""topology.yaml and ``scontrol show topoconf``: several named topologies."""

from __future__ import annotations

import pytest

from bridge.errors import ParseError
from bridge.topology.slurm_yaml import is_blank, read_slurm, read_yaml
from tests.topology.files import SLURM

LEVELS = ("spine", "rack")
EMPTY = "%YAML 1.1\n---\n- topology: default\n  block: {}\n  flat: {}\n  ring: {}\n  torus3d: {}\n  tree: {}\n...\n"


def test_every_named_topology_is_read():
    fabric, nvl, flat, rings = read_slurm((SLURM / "topoconf.yaml").read_text(), LEVELS)
    assert [each.name for each in (fabric, nvl, flat, rings)] == ["fabric", "nvl", "flat", "rings"]
    assert [each.is_default for each in (fabric, nvl, flat, rings)] == [True, False, False, False]
    assert fabric.domains["n05"] == ("spine-1", "spine-1/leaf-2")
    assert fabric.domains["n13"] == ("~leaf-9", "~leaf-9/leaf-9")
    assert fabric.domains["n16"] == ("~alone", "~alone/alone")
    assert nvl.domains["n09"] == ("b3..b4", "b3..b4/b3")
    assert nvl.domains["n17"] == ("~b5", "~b5/b5")
    assert (flat.domains, flat.problems) == ({}, ())
    assert rings.problems == ("topology/ring is not read: its nodes have no domains",)


def test_nodes_of_a_flat_topology_are_nowhere():
    [flat] = read_yaml("- topology: f\n  flat: true", LEVELS, ["n1"])
    assert (flat.domains, flat.problems) == ({"n1": ("", "")}, ())
    [flat] = read_yaml("- topology: f\n  flat: {alpha_step_rank: true}", LEVELS, ["n1"])
    assert (flat.domains, flat.problems) == ({"n1": ("", "")}, ())


def test_names_that_yaml_takes_for_something_else_stay_names():
    text = "- topology: 10\n  tree: {switches: [{switch: on, children: '1'}, {switch: 1, nodes: '[001-002]'}]}"
    [topology] = read_yaml(text, LEVELS)
    assert topology.name == "10"
    assert topology.domains == {"001": ("on", "on/1"), "002": ("on", "on/1")}


def test_lists_may_be_written_as_lists():
    blocks = "[{block: a, nodes: [n1, n2]}, {block: b, nodes: 'n[3-4]'}]"
    text = f"- topology: t\n  block: {{block_sizes: [2, 4], blocks: {blocks}}}"
    [topology] = read_yaml(text, LEVELS)
    assert topology.domains["n2"] == ("a..b", "a..b/a")


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ("{torus3d: {dims: {x: 4}}}", "topology/torus3d is not read: its nodes have no domains"),
        ("{topology: x}", "neither tree, block nor flat: its nodes have no domains"),
        ("{tree: [a]}", "tree is no mapping and is left out"),
        ("{tree: {switches: a}}", "switches is no list and is left out"),
        ("{tree: {switches: [a]}}", "switches[0] is no mapping and is left out"),
        ("{tree: {switches: [{nodes: n1}]}}", "switches[0] has no name and is left out"),
        ("{tree: {switches: [{switch: a, nodes: 'n['}]}}", "switches[0].nodes is left out: "),
        ("{block: {blocks: [{nodes: n1}]}}", "blocks[0] has no name and is left out"),
        ("{block: {block_sizes: [x], blocks: [{block: a, nodes: n1}]}}", "block_sizes: 'x' is no number of nodes"),
    ],
)
def test_what_is_wrong_is_told(entry, problem):
    [topology] = read_yaml(f"- {entry}", LEVELS)
    assert any(told.startswith(problem) for told in topology.problems), topology.problems


@pytest.mark.parametrize("text", ["--- {", "---\na: b", "- a\n- b", "--- 7", "- {a: !!python/object:os.system x}: 1"])
def test_what_is_no_topology_file_is_refused(text):
    with pytest.raises(ParseError, match=r"YAML|list of topologies"):
        read_yaml(text, LEVELS)


def test_no_text_is_the_flat_topology():
    assert [topology.domains for topology in read_slurm("", LEVELS, ["n1"])] == [{"n1": ("", "")}]
    assert read_yaml("", LEVELS) == ()


def test_the_two_forms_are_told_apart():
    assert read_slurm("# ours\n\n---\n- topology: x\n  flat: true")[0].name == "x"
    assert read_slurm("- topology: x\n  flat: true")[0].name == "x"
    assert read_slurm("# - ours\nSwitchName=a Nodes=n1", ("rack",))[0].domains == {"n1": ("a",)}


def test_a_cluster_without_topology_yaml_says_nothing_in_it():
    assert is_blank(EMPTY)
    assert is_blank("")
    assert not is_blank((SLURM / "topoconf.yaml").read_text())
    assert not is_blank("- topology: x\n  flat: true")
