from __future__ import annotations

from dataclasses import replace

import pytest

from bridge.errors import SpecError
from bridge.lifecycle.admission import Accepted, Refusal, Refused, admit
from bridge.lifecycle.fleetview import join
from bridge.model.fleet import Mode
from bridge.model.gang import Segment
from bridge.model.gres import Gres
from bridge.model.selector import Selector
from bridge.placement.request import Request
from tests.builders import LEVELS, fleet, gang, gpus, node, queue, snapshot

WIDE = node("wide", gres=gpus(range(40)))
MIXED = node("mixed", gres=(*gpus([0, 1]), *gpus([2], "a100")))


NODES = (node("n1"),)


def verdict(owner, *, nodes=NODES, spec=None, queues=None, namespaces=None):
    view = join(snapshot(nodes, fleet=spec or fleet()))
    return admit(owner, view, {"gpu": queue()} if queues is None else queues, namespaces or {})


@pytest.mark.parametrize(
    ("changes", "context", "reason", "words"),
    [
        pytest.param(
            {"problem": SpecError("spec.roles[0].gres", "'gpu:x:0' is outside 1..1024")},
            {},
            Refusal.INVALID_SPEC,
            ["spec.roles[0].gres", "0"],
            id="invalid spec",
        ),
        pytest.param({}, {"spec": fleet(mode=Mode.OBSERVE)}, Refusal.FLEET_OBSERVES, ["main", "Observe"], id="observe"),
        pytest.param(
            {"queue": "fast"}, {}, Refusal.UNKNOWN_QUEUE, ["spec.queue", "'fast'", "known: gpu"], id="unknown queue"
        ),
        pytest.param({}, {"queues": {}}, Refusal.UNKNOWN_QUEUE, ["known: none"], id="no queue at all"),
        pytest.param(
            {},
            {"queues": {"gpu": queue(fleet="other")}},
            Refusal.UNKNOWN_QUEUE,
            ["known: none"],
            id="queue of another fleet",
        ),
        pytest.param(
            {"namespace": "secret"}, {}, Refusal.NAMESPACE_NOT_ALLOWED, ["spec.queue", "secret"], id="namespace"
        ),
        pytest.param(
            {"time_limit_min": 121},
            {"queues": {"gpu": queue(max_time_limit_min=120)}},
            Refusal.TIME_LIMIT_TOO_LONG,
            ["spec.timeLimit", "02:01:00", "02:00:00"],
            id="time limit",
        ),
        pytest.param(
            {},
            {"queues": {"gpu": queue(max_time_limit_min=30)}},
            Refusal.TIME_LIMIT_TOO_LONG,
            ["01:00:00", "00:30:00"],
            id="default time limit over the queue's own",
        ),
        pytest.param(
            {"replicas": 3, "gres": "gpu:h100:8"},
            {"queues": {"gpu": queue(max_gpus_per_gang=16)}},
            Refusal.TOO_MANY_GPUS,
            ["spec.roles[0]", "24 GPUs", "16"],
            id="gpus of the queue",
        ),
        pytest.param(
            {"required_level": "rak"},
            {},
            Refusal.UNKNOWN_LEVEL,
            ["spec.topology.required", "'rak'", "spine, rack"],
            id="required level",
        ),
        pytest.param(
            {"preferred_level": "nvlink"},
            {"spec": fleet(levels=())},
            Refusal.UNKNOWN_LEVEL,
            ["spec.topology.preferred", "'nvlink'", "none"],
            id="preferred level",
        ),
        pytest.param(
            {"segment": Segment(size=2, level="nvlink")},
            {},
            Refusal.UNKNOWN_LEVEL,
            ["spec.topology.segment.level", "'nvlink'", "spine, rack"],
            id="segment level",
        ),
        pytest.param(
            {"replicas": 3, "gres": "gpu:h100:1", "segment": Segment(size=2, level="rack")},
            {},
            Refusal.INVALID_SPEC,
            ["spec.topology.segment.size", "3 pods", "segments of 2"],
            id="segment size",
        ),
        pytest.param(
            {"gres": "gpu:b200:1"},
            {"nodes": (MIXED,)},
            Refusal.UNKNOWN_GRES,
            ["spec.roles[0].gres", "gpu:b200", "gpu:a100, gpu:h100"],
            id="unknown type",
        ),
        pytest.param({"gres": "fpga:1"}, {}, Refusal.UNKNOWN_GRES, ["fpga"], id="no gpu"),
        pytest.param(
            {},
            {"nodes": (node("n1", gres=(Gres(name="gpu", type="h100", count=8),)),)},
            Refusal.UNKNOWN_GRES,
            ["no tracked GPUs"],
            id="count only",
        ),
        pytest.param(
            {},
            {"nodes": (node("n1", partitions=frozenset({"cpu"})),)},
            Refusal.UNKNOWN_GRES,
            ["partition gpu"],
            id="other partition",
        ),
        pytest.param(
            {"gres": "gpu:h100:9"},
            {},
            Refusal.TOO_MANY_GPUS,
            ["spec.roles[0].gres", "9 GPUs", "at most 8"],
            id="per pod",
        ),
        pytest.param(
            {"gres": "gpu:33"}, {"nodes": (WIDE,)}, Refusal.TOO_MANY_GPUS, ["33", "at most 32"], id="per claim"
        ),
    ],
)
def test_a_refusal_names_the_field_and_the_number(changes, context, reason, words):
    answer = verdict(gang(**changes), **context)
    assert isinstance(answer, Refused)
    assert answer.reason is reason
    for word in words:
        assert word in answer.message


def test_an_accepted_gang_is_a_request_for_whole_cpus_at_the_levels_of_the_fleet():
    owner = gang(replicas=4, gres="gpu:h100:2", pods_per_node=2, milli_cpu=1500, memory_mib=512, required_level="rack")
    answer = verdict(owner)
    assert isinstance(answer, Accepted)
    assert answer.time_limit_min == 60
    assert answer.request == Request(
        pods=4,
        pods_per_node=2,
        gres=owner.spec.role.gres,
        cpus_per_pod=2,
        memory_mib_per_pod=512,
        levels=LEVELS,
        required_level="rack",
    )


def test_a_gang_that_asks_for_no_cpu_gets_one_per_pod():
    assert verdict(gang()).request.cpus_per_pod == 1


def test_the_gangs_own_time_limit_goes_before_the_queues_default():
    assert verdict(gang(time_limit_min=7)).time_limit_min == 7


def test_a_namespace_may_be_admitted_by_its_labels():
    queues = {"gpu": replace(queue(), namespaces=frozenset(), namespace_selector=Selector(labels={"team": "ai"}))}
    assert isinstance(verdict(gang(), queues=queues, namespaces={"research": {"team": "ai"}}), Accepted)
    assert isinstance(verdict(gang(), queues=queues, namespaces={"research": {"team": "bio"}}), Refused)
    assert isinstance(verdict(gang(), queues=queues), Refused)


def test_limits_are_reached_and_not_only_approached():
    queues = {"gpu": queue(max_gpus_per_gang=16, max_time_limit_min=60)}
    assert isinstance(verdict(gang(replicas=2), queues=queues), Accepted)


def test_a_gang_that_the_fleet_cannot_hold_now_is_still_accepted():
    down = node("n1", states=("DOWN",))
    assert isinstance(verdict(gang(), nodes=(down,)), Accepted)
