from __future__ import annotations

import pytest

from bridge.model.selector import Operator, Requirement, Selector

LABELS = {"team": "ai", "tier": "1"}


@pytest.mark.parametrize(
    ("operator", "key", "values", "expected"),
    [
        (Operator.IN, "team", {"ai", "bio"}, True),
        (Operator.IN, "team", {"bio"}, False),
        (Operator.IN, "absent", {"ai"}, False),
        (Operator.NOT_IN, "team", {"bio"}, True),
        (Operator.NOT_IN, "team", {"ai"}, False),
        (Operator.NOT_IN, "absent", {"ai"}, True),
        (Operator.EXISTS, "team", set(), True),
        (Operator.EXISTS, "absent", set(), False),
        (Operator.DOES_NOT_EXIST, "team", set(), False),
        (Operator.DOES_NOT_EXIST, "absent", set(), True),
    ],
)
def test_a_requirement_compares_one_label(operator, key, values, expected):
    requirement = Requirement(key=key, operator=operator, values=frozenset(values))
    assert requirement.matches(LABELS) is expected


def test_a_selector_needs_all_of_its_parts():
    exists = Requirement(key="tier", operator=Operator.EXISTS)
    assert Selector(labels={"team": "ai"}, requirements=(exists,)).matches(LABELS)
    assert not Selector(labels={"team": "bio"}, requirements=(exists,)).matches(LABELS)
    assert not Selector(labels={"team": "ai"}, requirements=(exists,)).matches({"team": "ai"})


def test_an_empty_selector_matches_everything():
    assert Selector().matches({})
