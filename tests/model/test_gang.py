from __future__ import annotations

from itertools import permutations

from bridge.model.fleet import Mode
from bridge.model.gang import Condition, ConditionType, GangStatus
from bridge.model.selector import Selector
from tests.builders import fleet, gang, queue


def condition(type_: ConditionType, value: bool, since: int, reason: str = "Because") -> Condition:
    return Condition(type=type_, status=value, reason=reason, since=since)


def test_a_condition_that_keeps_its_status_keeps_the_time_of_its_last_change():
    status = GangStatus().with_condition(condition(ConditionType.ACCEPTED, True, 10, "HoldSubmitted"))
    status = status.with_condition(condition(ConditionType.ACCEPTED, True, 20, "InsufficientDevices"))
    found = status.condition(ConditionType.ACCEPTED)
    assert (found.since, found.reason) == (10, "InsufficientDevices")


def test_a_condition_that_changes_its_status_changes_its_time():
    status = GangStatus().with_condition(condition(ConditionType.RUNNING, True, 10))
    status = status.with_condition(condition(ConditionType.RUNNING, False, 20))
    assert status.condition(ConditionType.RUNNING).since == 20
    assert not status.is_true(ConditionType.RUNNING)


def test_conditions_stand_in_one_order_however_they_were_set():
    for order in permutations(ConditionType):
        status = GangStatus()
        for type_ in order:
            status = status.with_condition(condition(type_, True, 1))
        assert [each.type for each in status.conditions] == list(ConditionType)


def test_a_condition_that_was_never_set_is_not_true():
    assert not GangStatus().is_true(ConditionType.FINISHED)
    assert GangStatus().condition(ConditionType.FINISHED) is None


def test_gpus_are_those_of_all_pods():
    assert gang(replicas=3, gres="gpu:h100:4").spec.gpus == 12


def test_the_key_is_uid_and_attempt():
    owner = gang(status=GangStatus(attempt=4))
    assert (owner.key.uid, owner.key.attempt) == (owner.uid, 4)


def test_the_most_specific_device_mapping_counts():
    both = fleet(mode=Mode.SHARE)
    generic = both.devices[0].__class__(gres="gpu", driver="any", device_class="any")
    spec = both.__class__(name="main", mode=Mode.SHARE, devices=(generic, *both.devices))
    assert spec.mapping_for("gpu", "h100").gres == "gpu:h100"
    assert spec.mapping_for("gpu", "a100").gres == "gpu"
    assert spec.mapping_for("fpga", "x1") is None


def test_a_queue_admits_nobody_unless_told():
    assert not queue(namespaces=frozenset()).admits("research", {"team": "ai"})
    assert queue().admits("research", {})
    assert queue(namespace_selector=Selector(labels={"team": "ai"})).admits("other", {"team": "ai"})
    assert not queue(namespace_selector=Selector(labels={"team": "ai"})).admits("other", {"team": "bio"})
    assert queue(namespace_selector=Selector()).admits("other", {})
