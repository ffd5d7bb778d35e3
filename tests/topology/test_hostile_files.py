"""Every recorded topology is read, with what is odd about it."""

from __future__ import annotations

from collections import Counter

import pytest

from bridge.topology.csv_file import read_csv
from bridge.topology.labels import read_labels
from bridge.topology.merge import merge
from bridge.topology.slurm_conf import read_conf
from tests.topology.files import DATA, MODELS, TOPOGRAPH, block_conf, model, tree_conf

LINGJUN = DATA / "lingjun-2023-topo.csv"


def test_lingjun_is_a_clos_of_three_tiers():
    topology = read_csv(LINGJUN.read_text())
    assert topology.levels == ("DSW", "PSW", "ASW")
    assert topology.problems == ()
    assert len(topology.domains) == 847
    counts = [len({paths[depth] for paths in topology.domains.values()}) for depth in range(3)]
    assert counts == [1, 3, 119]  # 48 names of leaves: they repeat from pod to pod


def test_the_leaves_of_lingjun_stay_apart_when_its_pods_have_no_level():
    topology = read_csv(LINGJUN.read_text(), ("rack",))
    assert len({paths[0] for paths in topology.domains.values()}) == 119


def test_the_tree_of_topograph_is_read():
    topology = read_conf((TOPOGRAPH / "expected.slinky-oci-sim-tree.conf").read_text(), ("core", "spine", "leaf"))
    assert topology.problems == ()
    assert topology.domains["srv4208"] == ("switch.3.1", "switch.3.1/switch.2.4", "switch.3.1/switch.2.4/switch.1.8")
    assert Counter(Counter(paths[2] for paths in topology.domains.values()).values()) == {8: 12}


def test_the_blocks_of_topograph_are_read():
    topology = read_conf((TOPOGRAPH / "expected.slinky-dra-block.conf").read_text(), ("block-32", "block-16", "block"))
    assert topology.problems == ()
    sizes = [Counter(Counter(paths[depth] for paths in topology.domains.values()).values()) for depth in range(3)]
    assert sizes == [{32: 3}, {16: 6}, {8: 12}]


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_the_models_of_topograph_are_read_as_trees_blocks_and_labels(path):
    """All nodes of a leaf switch are together, by every reader, and no others are."""
    source = model(path)
    levels = ("core", "spine", "leaf")
    tree = read_conf(tree_conf(source), levels)
    blocks = read_conf(block_conf(source, "18,36"), levels)
    leaves = {
        block["switch"]: set(read_conf(block_conf({"blocks": [block]}, "1")).domains) for block in source["blocks"]
    }
    expected = {node: leaf for leaf, nodes in leaves.items() for node in nodes}
    for topology in (tree, blocks):
        assert {node: paths[-1].rpartition("/")[2] for node, paths in topology.domains.items()} == expected
        assert blocks.problems == ()
    labels = {node: {"fabric.topograph.run/tier-1": leaf} for node, leaf in expected.items()}
    labelled = read_labels(labels, ("leaf",), {"leaf": "fabric.topograph.run/tier-1"})
    assert labelled.domains == {node: (leaf,) for node, leaf in expected.items()}
    assert [problem for problem in merge([tree, blocks]).problems if "level leaf" in problem] == []


def test_missing_leaves_and_short_racks_are_what_they_are():
    source = model(TOPOGRAPH / "models-dual-xclr-irregular.yaml")
    topology = read_conf(tree_conf(source), ("core", "spine", "leaf"))
    assert topology.problems == (
        "switch sw-01: rack-1-03 below it is not defined",
        "switch sw-01: rack-1-13 below it is not defined",
    )
    sizes = Counter(paths[2] for paths in topology.domains.values())
    assert sizes["core/sw-02/rack-2-15"] == 5
    assert sizes["core/sw-01/rack-1-04"] == 7
    assert len(sizes) == 14 + 15


def test_rail_leaves_that_all_have_the_same_hosts_are_one_domain():
    """31 of 32 rails, 119 of 144 hosts: every host is on every rail, so the rails say nothing."""
    hosts = [f"r{rack}h{slot:02d}" for rack in range(8) for slot in range(15)][:119]
    lines = [f"SwitchName=rail-{rail} Nodes={','.join(hosts)}" for rail in range(31)]
    lines += ["SwitchName=spine Switches=rail-[0-31]"]
    topology = read_conf("\n".join(lines), ("spine", "leaf"))
    assert set(topology.domains.values()) == {("spine", "spine/rail-0")}
    assert len(topology.domains) == 119
    assert topology.problems[0] == "switch spine: rail-31 below it is not defined"
    assert (
        topology.problems[1] == "switches rail-0 and rail-1 both have r0h00, r0h01, r0h02 and 116 more: rail-0 is taken"
    )
    assert len(topology.problems) == 31


def test_ten_thousand_nodes_are_read_in_a_moment():
    lines = [f"SwitchName=leaf{i} Nodes=n[{20 * i}-{20 * i + 19}]" for i in range(500)]
    lines += [f"SwitchName=spine{i} Switches=leaf[{10 * i}-{10 * i + 9}]" for i in range(50)]
    topology = read_conf("\n".join([*lines, "SwitchName=core Switches=spine[0-49]"]), ("spine", "leaf"))
    assert len(topology.domains) == 10_000
    assert topology.domains["n9999"] == ("spine49", "spine49/leaf499")
    assert topology.problems == ()
