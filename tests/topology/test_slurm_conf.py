"""topology.conf and ``scontrol show topology``, right and wrong."""

from __future__ import annotations

import pytest

from bridge.topology.slurm_conf import read_conf
from bridge.topology.slurm_yaml import read_slurm, read_yaml
from tests.topology.files import SLURM

LEVELS = ("spine", "rack")
TREE = """
SwitchName=core Switches=spine-[1-2]
SwitchName=spine-1 Switches=leaf-[1-2]
SwitchName=spine-2 Switches=leaf-[3-4]
SwitchName=leaf-1 Nodes=n[1-2]
SwitchName=leaf-2 Nodes=n[3-4]
SwitchName=leaf-3 Nodes=n[5-6]
SwitchName=leaf-4 Nodes=n[7-8]
"""


def racks(text, levels=("rack",)):
    return {node: paths[-1] for node, paths in read_conf(text, levels).domains.items()}


def test_leaf_switches_are_the_finest_level():
    topology = read_conf(TREE, LEVELS)
    assert topology.levels == LEVELS
    assert topology.domains["n4"] == ("spine-1", "spine-1/leaf-2")
    assert topology.domains["n5"] == ("spine-2", "spine-2/leaf-3")
    assert topology.problems == ()


def test_a_core_switch_over_everything_is_dropped_without_a_word():
    assert read_conf(TREE, LEVELS).problems == ()
    assert read_conf(TREE, ("core", *LEVELS)).domains["n1"] == ("core", "core/spine-1", "core/spine-1/leaf-1")


def test_what_is_dropped_and_tells_nodes_apart_is_told():
    topology = read_conf(TREE, ("rack",))
    assert topology.domains["n1"] == ("leaf-1",)
    assert topology.problems == ("tier-1 is above the fleet's levels and is dropped: spine-1, spine-2",)


def test_levels_above_the_root_belong_to_the_root():
    topology = read_conf(TREE, ("site", "core", *LEVELS))
    assert {paths[0] for paths in topology.domains.values()} == {"~core"}
    assert topology.domains["n1"][1] == "~core/core"


def test_leaves_without_a_common_root_share_nothing():
    topology = read_conf("SwitchName=a Nodes=n1,n2\nSwitchName=b Nodes=n3", LEVELS)
    assert topology.domains == {"n1": ("~a", "~a/a"), "n2": ("~a", "~a/a"), "n3": ("~b", "~b/b")}


def test_without_a_fleet_the_tiers_name_themselves():
    assert read_conf(TREE).levels == ("tier-2", "tier-1", "leaf")
    assert read_conf("BlockName=a Nodes=n1\nBlockName=b Nodes=n2\nBlockSizes=4,8").levels == ("block-8", "block")
    assert read_conf("").levels == ()


def test_a_short_branch_stands_for_itself_where_it_skips_a_tier():
    text = "SwitchName=core Switches=spine,low\nSwitchName=spine Switches=leaf\nSwitchName=leaf Nodes=n1\n"
    topology = read_conf(text + "SwitchName=low Nodes=n2", ("core", *LEVELS))
    assert topology.domains["n1"] == ("core", "core/spine", "core/spine/leaf")
    assert topology.domains["n2"] == ("core", "core/~low", "core/~low/low")


@pytest.mark.parametrize(
    "line",
    [
        "switchname=leaf NODES=n[1-2]",
        'SwitchName="leaf" Nodes="n[1-2]"  # the first rack',
        "SwitchName = leaf   Nodes =n[1-2] LinkSpeed=100",
        "#SwitchName=old Nodes=n9\nSwitchName=leaf \\\n   Nodes=n[1-2]",
        "SwitchName=leaf Nodes=n1,\\ # more below\nn2",
        "Nodes=n3\nSwitchName=leaf Nodes=n[1-2]\r\n\r\n",
        "SwitchName=leaf Level=0 LinkSpeed=1 Nodes=n[1-2] \n",
        "SwitchName=leaf Nodes=n[1-2]\\",
        "SwitchName=leaf Nodes=n3 Nodes=n[1-2]",
    ],
)
def test_lines_are_read_as_slurm_reads_them(line):
    assert racks(line) == {"n1": "leaf", "n2": "leaf"}


def test_an_escaped_hash_is_part_of_a_name():
    assert racks("SwitchName=leaf\\#1 Nodes=n1") == {"n1": "leaf#1"}


def test_an_empty_value_does_not_eat_the_next_key():
    text = "SwitchName=a Level=1 LinkSpeed=0 Nodes= Switches=b\nSwitchName=b Level=0 LinkSpeed=0 Nodes="
    topology = read_conf(text, LEVELS)
    assert topology.domains == {}
    assert topology.problems == ("switches without nodes are left out: a, b",)


@pytest.mark.parametrize(
    ("text", "domains", "problem"),
    [
        (
            "SwitchName=b Nodes=n[1-3]\nSwitchName=a Nodes=n[2-3]",
            {"n1": "b", "n2": "a", "n3": "a"},
            "switches a and b both have n2, n3: a is taken",
        ),
        (
            "SwitchName=s Switches=a,gone\nSwitchName=a Nodes=n1",
            {"n1": "a"},
            "switch s: gone below it is not defined",
        ),
        (
            "SwitchName=s Switches=s,a\nSwitchName=a Nodes=n1",
            {"n1": "a"},
            "switch s: it is below itself",
        ),
        (
            "SwitchName=s Switches=t,a\nSwitchName=t Switches=s\nSwitchName=a Nodes=n1",
            {"n1": "a"},
            "switch t: s below it is above it too",
        ),
        (
            "SwitchName=s Switches=a\nSwitchName=t Switches=a\nSwitchName=a Nodes=n1",
            {"n1": "a"},
            "switch t: a below it is below s already",
        ),
        (
            "SwitchName=a Nodes=n1 Switches=b\nSwitchName=b Nodes=n2",
            {"n1": "a", "n2": "b"},
            "switch a has nodes: its switches are ignored, as Slurm does",
        ),
        (
            "SwitchName=a Nodes=n1\nSwitchName=a Nodes=n2",
            {"n1": "a", "n2": "a"},
            "switch a is defined more than once: all that it has is taken together",
        ),
        (
            "SwitchName=a Nodes=n1\nSwitchName=empty",
            {"n1": "a"},
            "switches without nodes are left out: empty",
        ),
        (
            "SwitchName=a Nodes=n1\nSwitchName=b Nodes=n[2-",
            {"n1": "a"},
            "line 2: Nodes is left out: unexpected '[' at position 1: 'n[2-'",
        ),
        (
            "SwitchName=a Nodes=n1\nSwitchNme=b Nodes=n2",
            {"n1": "a"},
            "line 2 is not understood: 'SwitchNme=b Nodes=n2'",
        ),
        (
            "SwitchName=a Nodes=n1 Node=n2 what",
            {"n1": "a"},
            "line 1: not understood and ignored: 'what, node'",
        ),
        (
            "SwitchName=a Nodes=n1\nInclude more.conf",
            {"n1": "a"},
            "line 2 is not understood: 'Include more.conf'",
        ),
        (
            "SwitchName= Nodes=n2\nSwitchName=a Nodes=n1",
            {"n1": "a"},
            "line 1 has no name and is left out",
        ),
        (
            "RingName=r Nodes=n[1-4]",
            {},
            "line 1: topology/ring is not read",
        ),
        (
            "SwitchName=a Nodes=n1\nBlockName=b Nodes=n1",
            {"n1": "a"},
            "switches and blocks in one topology: the blocks are ignored",
        ),
        (
            "BlockName=b Nodes=n1\nBlockName=a Nodes=n[1-2]",
            {"n1": "b", "n2": "a"},
            "blocks b and a both have n1: b is taken",
        ),
        (
            "BlockName=b Nodes=n1\nBlockName=b Nodes=n2",
            {"n1": "b", "n2": "b"},
            "block b is defined more than once: all that it has is taken together",
        ),
        (
            "BlockName=b Nodes=n1\nBlockName=c",
            {"n1": "b"},
            "blocks without nodes: c",
        ),
        (
            "BlockName=b Nodes=n[1-3]\nBlockSizes=2",
            {"n1": "b", "n2": "b", "n3": "b"},
            "block b has 3 nodes, more than its size 2",
        ),
        (
            "BlockName=b Nodes=n1\nBlockSizes=2,six",
            {"n1": "b"},
            "line 2: BlockSizes: 'six' is no number of nodes",
        ),
        (
            "BlockName=b Nodes=n1\nBlockSizes=0",
            {"n1": "b"},
            "line 2: BlockSizes: '0' is no number of nodes",
        ),
        (
            "BlockName=b Nodes=n1\nBlockSizes=18,30",
            {"n1": "b"},
            "block size 30 is no power of two times 18 and is left out",
        ),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)
def test_what_is_wrong_is_told_and_the_rest_is_read(text, domains, problem):
    topology = read_conf(text, ("rack",))
    assert {node: paths[-1] for node, paths in topology.domains.items()} == domains
    assert problem in topology.problems


def test_nodes_that_slurm_does_not_know_are_left_out():
    topology = read_conf("SwitchName=a Nodes=n[1-2],[001-002]", ("rack",), ["n1", "n2", "n3"])
    assert topology.domains == {"n1": ("a",), "n2": ("a",), "n3": ("",)}
    assert topology.problems == ("unknown nodes are left out: 001, 002",)


def test_a_long_cycle_ends():
    lines = [f"SwitchName=s{i} Switches=s{(i + 1) % 500}" for i in range(500)]
    topology = read_conf("\n".join([*lines, "SwitchName=s500 Nodes=n1", "SwitchName=top Switches=s500,s0"]), LEVELS)
    assert topology.domains == {"n1": ("top", "top/s500")}
    assert "switch s499: s0 below it is above it too" in topology.problems


def test_blocks_are_joined_as_block_sizes_says():
    lines = [f"BlockName=b{i} Nodes=n[{4 * i}-{4 * i + 3}]" for i in range(6)]
    topology = read_conf("\n".join([*lines, "BlockSizes=4,8,16"]), ("dc", "spine", "rack"))
    assert topology.domains["n5"] == ("b0..b3", "b0..b3/b0..b1", "b0..b3/b0..b1/b1")
    assert topology.domains["n16"] == ("~b4..b5", "~b4..b5/b4..b5", "~b4..b5/b4..b5/b4")
    assert topology.problems == ()


def test_a_block_smaller_than_its_size_is_an_ordinary_block():
    topology = read_conf("BlockName=b Nodes=n[1-17]\nBlockSizes=18", ("rack",))
    assert (len(topology.domains), topology.problems) == (17, ())


def test_the_server_says_what_its_file_says():
    yaml_file, config = (read_yaml((SLURM / name).read_text(), LEVELS) for name in ("topology.yaml", "topoconf.yaml"))
    assert config == yaml_file
    for name, shown in zip(("fabric", "nvl"), config[:2], strict=True):
        text = (SLURM / f"show-{name}.txt").read_text()
        assert read_conf(text, LEVELS).domains == shown.domains
        assert read_slurm(text, LEVELS) == (read_conf(text, LEVELS),)


def test_the_order_of_switches_never_matters():
    lines = (SLURM / "show-fabric.txt").read_text().splitlines()
    wrong = ["SwitchName=leaf-0 Nodes=n01", "SwitchName=spine-1 Switches=core", "SwitchName=x Switches=gone,leaf-9"]
    forwards, backwards = (read_conf("\n".join(order), LEVELS) for order in (lines + wrong, wrong + lines[::-1]))
    assert forwards == backwards
    assert len(forwards.problems) >= 4
