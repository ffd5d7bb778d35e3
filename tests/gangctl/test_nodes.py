from __future__ import annotations

import pytest

from operators.gangctl.facts import read_facts
from operators.gangctl.fencing import effect_of
from operators.gangctl.ledger import World, build_ledger
from operators.gangctl.nodes import node_rows
from operators.gangctl.notes import notes
from tests.gangctl.world import (
    VENDOR,
    everything,
    fleet,
    gang_claim,
    gang_pod,
    node,
    slices,
    vendor_claim,
    vendor_slice,
)


def ledger_of(**changes):
    return build_ledger(read_facts(everything(**changes)))


def counts(row):
    return {str(world): count for world, count in row.gpus.items() if count}


def test_a_row_counts_gpus_by_world_and_names_gangs_and_jobs():
    first, second = node_rows(ledger_of())
    assert (first.name, first.slurm_node, first.condition.state, first.total) == ("k8s-gpu-0", "gpu0", "usable", 4)
    assert counts(first) == {"pods": 2, "sbatch": 1, "free": 1}
    assert (first.gangs, first.jobs) == (["research/llm"], {20: "bert"})
    assert first.domains == {"spine": "s1", "rack": "r1"}
    assert (counts(second), second.gangs, second.jobs) == ({"free": 4}, [], {})


def test_a_quarantined_device_is_neither_free_nor_running():
    row = node_rows(ledger_of(pods=[gang_pod(0)]))[0]
    assert counts(row) == {"pods": 1, "quarantined": 1, "sbatch": 1, "free": 1}
    assert row.gangs == ["research/llm"]


def test_a_device_with_two_owners_counts_once():
    twice = [gang_claim(0, "k8s-gpu-0", [0]), gang_claim(1, "k8s-gpu-0", [0], namespace="bio")]
    row = node_rows(ledger_of(claims=twice, pods=[gang_pod(0)]))[0]
    assert counts(row) == {"quarantined": 1, "free": 3}
    assert row.gangs == ["bio/llm", "research/llm"]


def test_devices_of_drivers_that_the_fleet_does_not_map_are_no_gpus_of_it():
    both = [*slices("k8s-gpu-0", "gpu0"), vendor_slice("k8s-gpu-0")]
    claims = [vendor_claim("k8s-gpu-0", "gpu-0")]
    assert counts(node_rows(ledger_of(slices=both, claims=claims))[0]) == {"free": 4}
    mapped = fleet()
    mapped["spec"]["devices"].append({"gres": "gpu:mig", "driver": VENDOR, "deviceClass": VENDOR})
    assert node_rows(ledger_of(slices=both, claims=claims, fleets=[mapped]))[0].total == 7
    assert node_rows(ledger_of(slices=both, claims=claims, fleets=[]))[0].total == 7, "without a Fleet all count"


def test_managed_nodes_are_listed_in_natural_order_and_others_where_they_are_named():
    nodes = [node("n10", "n10"), node("n9", "n9"), node("other", "")]
    ledger = ledger_of(nodes=nodes, slices=[], claims=[])
    assert [row.name for row in node_rows(ledger)] == ["n9", "n10"]
    (row,) = node_rows(ledger, ["other"])
    assert (row.condition.state, row.total, row.slurm_node) == ("unmanaged", 0, "")


def test_a_level_that_only_slurm_knows_has_no_domain_here():
    told = fleet()
    told["spec"]["topology"]["sources"] = [{"slurm": {}}, {"nodeLabels": {"rack": "topology/rack"}}]
    assert node_rows(ledger_of(fleets=[told]))[0].domains == {"spine": "", "rack": "r1"}


def test_a_fence_frees_the_quarantined_claims_of_its_node_and_no_others():
    ledger = ledger_of(pods=[gang_pod(0)])
    effect = effect_of(ledger, ledger.facts.nodes["k8s-gpu-0"])
    assert [(each.claim, each.pod, each.owner, each.devices) for each in effect.freed] == [
        ("research/llm-1-gpu", "llm-1", "research/llm", ("gpu-1",))
    ]
    assert [each.claim for each in effect.alive] == ["research/llm-0-gpu"]
    other = effect_of(ledger, ledger.facts.nodes["k8s-gpu-1"])
    assert (other.freed, other.alive) == ((), ())


SOME = frozenset({"bio", "gangbridge-mirror"})


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        pytest.param({}, [], id="everything read"),
        pytest.param(
            {"fleets": [], "seen": {"fleets": frozenset()}},
            ["you may not read fleets: nodes that are out of"],
            id="fleets",
        ),
        pytest.param(
            {"seen": {"resourceclaims": SOME}},
            ["resourceclaims outside of bio, gangbridge-mirror: a device"],
            id="claims",
        ),
        pytest.param({"nodes": [], "seen": {"nodes": frozenset()}}, ["you may not read nodes: names"], id="nodes"),
        pytest.param({"seen": {"pods": SOME}}, ["pods in research: quarantined"], id="pods"),
        pytest.param({"seen": {"gangjobs": SOME}}, ["gangjobs in research: users"], id="gangs"),
        pytest.param({"seen": {"gangjobs": frozenset({"research"})}}, ["gangjobs in gangbridge-mirror"], id="mirrors"),
        pytest.param(
            {"claims": [], "seen": {"pods": frozenset(), "gangjobs": frozenset()}}, [], id="not needed, so not missed"
        ),
        pytest.param({"fleets": []}, ["there is no Fleet"], id="no fleet"),
        pytest.param({"fleets": [fleet(reachable=False)]}, ["silent: Slurm's side is as of 2026-01-02"], id="silent"),
    ],
)
def test_what_makes_an_answer_less_than_the_truth_is_said(changes, says):
    objects = everything(**changes)
    found = notes(objects, read_facts(objects))
    assert len(found) == len(says)
    for note, words in zip(found, says, strict=True):
        assert words in note


def test_a_pool_that_is_not_complete_is_named():
    part = slices("k8s-gpu-1", "gpu1")
    part[0]["spec"]["pool"]["resourceSliceCount"] = 2
    objects = everything(slices=part)
    (note,) = notes(objects, read_facts(objects))
    assert "pool k8s-gpu-1 of gpu.gangbridge.dev shows 1 of 2 slices" in note
    assert node_rows(build_ledger(read_facts(objects)))[1].gpus[World.FREE] == 4
