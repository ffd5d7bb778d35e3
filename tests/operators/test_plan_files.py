"""What people write for ``gangbridge plan``: every mistake is told with file, line and field."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from bridge.errors import SpecError
from bridge.model.gang import GangSpec
from operators.linkmodel import read_link_model
from operators.plan.busyfile import parse_busy
from operators.plan.gangfile import ROLE_FIELDS, SPEC_FIELDS, TOPOLOGY_FIELDS, read_gang_file
from operators.plan.located import BadInput, parse_yaml
from operators.plan.topologyfile import read_topology

ROOT = Path(__file__).parents[2]
GANG = """\
# a comment
apiVersion: gangbridge.dev/v1alpha1
kind: GangJob
metadata:
  name: llm
spec:
  queue: gpu
  timeLimit: 4h
  topology:
    required: spine
  roles:
  - name: worker
    replicas: 8
    podsPerNode: 2
    gres: gpu:h100:4
    template:
      spec:
        containers:
        - name: train
          resources:
            requests: {cpu: 2, memory: 1Gi}
"""


def gang_file(folder: Path, text: str) -> Path:
    path = folder / "gang.yaml"
    path.write_text(text)
    return path


def test_the_example_is_read_as_the_operator_reads_it():
    gang = read_gang_file(ROOT / "examples" / "gangjob.yaml", "default")
    assert isinstance(gang.spec, GangSpec)
    assert (gang.namespace, gang.name, gang.spec.gpus, gang.spec.required_level) == ("research", "llm", 64, "spine")
    assert (gang.spec.role.milli_cpu, gang.spec.role.memory_mib) == (48000, 400 * 1024)


def test_a_gang_is_found_among_other_documents(tmp_path):
    text = f"apiVersion: v1\nkind: Namespace\nmetadata: {{name: research}}\n---\n---\n{GANG}"
    gang = read_gang_file(gang_file(tmp_path, text), "team")
    assert (gang.namespace, gang.name) == ("team", "llm")
    assert not isinstance(gang.spec, SpecError)


@pytest.mark.parametrize(
    ("old", "new", "line", "says"),
    [
        ("gpu:h100:4", "gpu:h100:none", 15, "spec.roles[0].gres: 'gpu:h100:none' the GRES count 'none' is not"),
        ("gpu:h100:4", "gpu:0", 15, "spec.roles[0].gres: 'gpu:0' the GRES count 0 is outside 1..1024"),
        ("gpu:h100:4", "8", 15, "spec.roles[0].gres: must be a text (put it in quotes), is 8"),
        ("podsPerNode: 2", "podsPerNode: 3", 14, "spec.roles[0].podsPerNode: 8 replicas do not divide into 3"),
        ("podsPerNode", "podPerNode", 14, "spec.roles[0].podPerNode: there is no such field"),
        ("replicas: 8", "replicas: 5000", 13, "spec.roles[0].replicas: must be a whole number from 1 to 4096, is 5000"),
        ("replicas: 8", "replicas: true", 13, "spec.roles[0].replicas: must be a whole number"),
        ("    replicas: 8\n", "", 12, "spec.roles[0].replicas: is missing"),
        ("timeLimit: 4h", "timeLimit: soon", 8, "spec.timeLimit: 'soon'"),
        ("timeLimit: 4h", "timeLimit: 30", 8, "spec.timeLimit: must be a text (put it in quotes), is 30"),
        ("  queue: gpu\n", "", 6, "spec.queue: is missing"),
        ("required: spine", "requires: spine", 10, "spec.topology.requires: there is no such field"),
        ("required: spine", "required: [spine]", 10, "spec.topology.required: must be a text"),
        ("kind: GangJob", "kind: GangJobs", None, "has 0 GangJobs, one is needed"),
        ("v1alpha1", "v1", 2, "apiVersion: is 'gangbridge.dev/v1', must be gangbridge.dev/v1alpha1"),
        ("memory: 1Gi", "memory: lots", 18, "spec.roles[0].template.spec.containers: 'lots'"),
        ("- name: train", "- train", 20, "is not YAML"),
        ("  name: llm", "  name: [llm", 6, "is not YAML"),
    ],
)
def test_a_mistake_is_told_with_its_line(tmp_path, old, new, line, says):
    assert old in GANG
    path = gang_file(tmp_path, GANG.replace(old, new))
    with pytest.raises(BadInput) as caught:
        read_gang_file(path, "default")
    where = f"{path}:{line}: " if line else f"{path}: "
    assert str(caught.value).startswith(where + says)


@pytest.mark.parametrize("spec", ["5", "{roles: 3, queue: a}", "{roles: [3], queue: a}", "{queue: a, roles: []}", "[]"])
def test_nothing_that_yaml_can_say_is_a_crash(tmp_path, spec):
    head = "apiVersion: gangbridge.dev/v1alpha1\nkind: GangJob\nmetadata: {name: a}\n"
    with pytest.raises(BadInput, match="spec"):
        read_gang_file(gang_file(tmp_path, f"{head}spec: {spec}\n"), "default")


def test_two_gangs_are_one_too_many(tmp_path):
    with pytest.raises(BadInput, match=re.escape("has 2 GangJobs (lines 3, 25), one is needed")):
        read_gang_file(gang_file(tmp_path, f"{GANG}---\n{GANG}"), "default")


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(BadInput, match=r"nothing\.yaml: No such file or directory"):
        read_gang_file(tmp_path / "nothing.yaml", "default")


def test_every_field_of_the_crd_is_known():
    crd = yaml.safe_load((ROOT / "crds" / "gangjobs.yaml").read_text())
    spec = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    assert set(spec) <= SPEC_FIELDS
    assert set(spec["topology"]["properties"]) <= TOPOLOGY_FIELDS
    assert set(spec["roles"]["items"]["properties"]) <= ROLE_FIELDS


def test_the_line_of_a_field_is_that_of_its_key():
    (document,) = parse_yaml("f", "a:\n  b:\n  - c: 1\n  - d: 2\n")
    assert [document.line(path) for path in ("a", "a.b", "a.b[1].d", "a.b[7]", "a.x", "y")] == [1, 2, 4, 2, 1, 1]


NODES = [f"n{number}" for number in range(1, 9)]


def test_a_busy_file_says_which_gpus_are_in_use():
    text = """
        # the morning's jobs
        n1                # all of it
        n[2-3] 2
        n4 0-1,7
        n5 [3]
        n5 2              # two more: the lowest free ones
        n6 drained
        n7 1
        n7 down
    """
    found = parse_busy("busy", text, nodes=NODES, gpus_per_node=8)
    assert {name: sorted(indices) for name, indices in found.indices.items()} == {
        "n1": [0, 1, 2, 3, 4, 5, 6, 7],
        "n2": [0, 1],
        "n3": [0, 1],
        "n4": [0, 1, 7],
        "n5": [0, 1, 3],
        "n7": [0],
    }
    assert found.closed == {"n6": "drained", "n7": "down"}


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("n9", "node n9 is not in the topology"),
        ("n[7-11] 1", "node n9 is not in the topology (and 2 more of this line)"),
        ("n[1 2", "unexpected '[' at position 1: 'n[1'"),
        ("n1 9", "n1: 9 more GPUs in use, but 8 of its 8 are free"),
        ("n1 0-8", "n1: there is no GPU 8, the node has 8 (0-7)"),
        ("n1 3-1", "n1: '3-1' is neither a count nor a list of indices"),
        ("n1 draining", "n1: 'draining' is neither a count nor a list of indices as in 0-3,6 nor one of down, drained"),
        ("n1 2 drained", "3 words, a line is NODE [count|index list|drained]"),
        ("n2 [0]", "n2: GPU 0 is in use already by an earlier line"),
        ("n2 8", "n2: 8 more GPUs in use, but 7 of its 8 are free"),
        ("n1 ²", "n1: '²' is neither a count"),
    ],
)
def test_a_wrong_line_of_a_busy_file(line, says):
    with pytest.raises(BadInput) as caught:
        parse_busy("busy.txt", f"n2 1\n\n{line}\n", nodes=NODES, gpus_per_node=8)
    assert str(caught.value).startswith(f"busy.txt:3: {says}")


TREE = "SwitchName=r1 Nodes=n[1-2]\nSwitchName=r2 Nodes=n[3-4]\nSwitchName=s1 Switches=r[1-2]\n"


def test_a_topology_is_read_at_the_levels_that_are_named(tmp_path):
    path = tmp_path / "topology.conf"
    path.write_text(TREE)
    assert read_topology(path, "", ["spine", "rack"]).domains["n3"] == ("s1", "s1/r2")
    assert len(read_topology(path).levels) == 2


def test_a_table_is_a_topology_too(tmp_path):
    path = tmp_path / "fleet.csv"
    path.write_text("node,spine,rack\nn1,s1,r1\nn2,s1,r2\n")
    found = read_topology(path)
    assert (found.levels, found.domains["n2"]) == (("spine", "rack"), ("s1", "s1/r2"))


def test_one_of_several_topologies_is_chosen_by_name(tmp_path):
    path = tmp_path / "topology.yaml"
    block = "  block: {block_sizes: [2], blocks: [{block: b1, nodes: 'n[1-2]'}]}\n"
    path.write_text(f"- topology: one\n{block}- topology: two\n{block}")
    assert read_topology(path, "two").name == "two"
    with pytest.raises(BadInput, match=r"has 2 topologies \(one, two\): choose one with --topology-name"):
        read_topology(path)
    with pytest.raises(BadInput, match="--topology-name three: the file has one, two"):
        read_topology(path, "three")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is empty"),
        ("n1 4\n", "names no nodes: line 1 is not understood"),
        ("---\n- {topology: a, flat: true}\n", "names no nodes"),
        ("---\na: [\n", "has no YAML"),
    ],
)
def test_a_file_that_is_no_topology(tmp_path, text, says):
    path = tmp_path / "topology"
    path.write_text(text)
    with pytest.raises(BadInput) as caught:
        read_topology(path)
    assert str(caught.value).startswith(f"{path}: {says}")


def test_the_link_model_of_a_fleet_keeps_the_defaults_of_what_it_leaves_out():
    item = {"nicGBps": 90, "levelGBps": {"rack": 360}, "billionParameters": 70, "overlapPercent": 25, "layers": 80}
    found = read_link_model(item)
    assert (found.nic, found.bandwidth, found.parameters, found.overlap, found.layers) == (
        90,
        {"rack": 360},
        70e9,
        0.25,
        80,
    )
    assert read_link_model({}).tensor_parallel == 8
