from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bridge.topology.labels import domains_of, read_labels
from bridge.topology.natural import natural_key

LEVELS = ("spine", "rack")
LABELS = {"spine": "t/spine", "rack": "t/rack"}


def test_numbers_in_names_count_as_numbers():
    names = ["gpu10", "gpu2", "gpu1", "gpu01", "rack-2-gpu1", "rack-10-gpu1", "a", ""]
    expected = ["", "a", "gpu01", "gpu1", "gpu2", "gpu10", "rack-2-gpu1", "rack-10-gpu1"]
    assert sorted(names, key=natural_key) == expected


@given(st.lists(st.text(max_size=8), unique=True))
def test_the_natural_order_is_total(names):
    keys = {natural_key(name) for name in names}
    backwards = names[::-1]
    assert len(keys) == len(names)
    assert sorted(names, key=natural_key) == sorted(backwards, key=natural_key)


def test_a_domain_is_named_by_its_whole_path():
    first = domains_of({"t/spine": "s1", "t/rack": "r1"}, LEVELS, LABELS)
    second = domains_of({"t/spine": "s2", "t/rack": "r1"}, LEVELS, LABELS)
    assert first == ("s1", "s1/r1")
    assert second == ("s2", "s2/r1")


def test_a_node_without_a_label_is_near_nobody_at_that_level():
    assert domains_of({"t/spine": "s1"}, LEVELS, LABELS) == ("s1", "")
    assert domains_of({}, LEVELS, LABELS) == ("", "")


def test_nodes_that_share_a_rack_share_what_is_above_it():
    assert domains_of({"t/rack": "r1"}, LEVELS, LABELS) == ("~r1", "~r1/r1")


def test_a_level_without_a_label_of_its_own_has_no_domains():
    assert domains_of({"t/spine": "s1"}, ("spine", "nvlink"), LABELS) == ("s1", "")


TOPOGRAPH = {
    "datacenter": "network.topology.nvidia.com/datacenter",
    "spine": "network.topology.nvidia.com/spine",
    "block": "network.topology.nvidia.com/block",
    "accelerator": "network.topology.nvidia.com/accelerator",
}


def test_the_labels_of_topograph_are_four_levels():
    values = {"datacenter": "core", "spine": "spine-1", "block": "leaf-1-1", "accelerator": "nvl-1-1"}
    labels = {TOPOGRAPH[level]: value for level, value in values.items()}
    topology = read_labels({"srv1101": labels}, tuple(TOPOGRAPH), TOPOGRAPH)
    assert topology.domains["srv1101"][-1] == "core/spine-1/leaf-1-1/nvl-1-1"
    assert topology.problems == ()


def test_a_clique_is_a_domain():
    clique = {"nvidia.com/gpu.clique": "7b968a6d-c8aa-45e1-9e07-e1e51be99c31.1"}
    other = {"nvidia.com/gpu.clique": "7b968a6d-c8aa-45e1-9e07-e1e51be99c31.10"}
    keys = {"zone": "topology.kubernetes.io/zone", "clique": "nvidia.com/gpu.clique"}
    topology = read_labels({"a": clique, "b": clique, "c": other, "d": {}}, ("zone", "clique"), keys)
    assert topology.domains["a"] == topology.domains["b"] != topology.domains["c"]
    assert topology.domains["a"][0] != topology.domains["c"][0]
    assert topology.domains["d"] == ("", "")
    assert topology.problems == ("no node has the label topology.kubernetes.io/zone of level zone",)


def test_names_are_compared_whole():
    """T21: rack-1 and rack-10, a node called like a rack, the same rack name in two spines."""
    nodes = {
        "rack-1": {"t/spine": "s1", "t/rack": "rack-10"},
        "n1": {"t/spine": "s1", "t/rack": "rack-1"},
        "n2": {"t/spine": "s2", "t/rack": "rack-1"},
        "s1": {"t/spine": "rack-1", "t/rack": "s1"},
    }
    topology = read_labels(nodes, LEVELS, LABELS)
    assert len({paths[1] for paths in topology.domains.values()}) == 4
    assert topology.problems == (
        (
            "1 values of label t/rack occur in several coarser domains and are taken for different domains of level "
            "rack: rack-1 is s1/rack-1, s2/rack-1"
        ),
    )


def test_a_level_without_a_label_key_is_told():
    topology = read_labels({"n": {"t/spine": "s1"}}, ("spine", "nvlink"), LABELS)
    assert topology.problems == ("level nvlink has no label key: no node has a domain there",)


def test_labels_in_another_order_say_the_same():
    nodes = {f"n{i}": {"t/spine": f"s{i % 3}", "t/rack": f"r{i % 4}"} for i in range(24)}
    assert read_labels(nodes, LEVELS, LABELS) == read_labels(dict(reversed(nodes.items())), LEVELS, LABELS)
