from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bridge.topology.labels import domains_of, natural_key

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
    assert domains_of({"t/rack": "r1"}, LEVELS, LABELS)[0] == ""
    assert domains_of({}, LEVELS, LABELS) == ("", "")


def test_a_level_without_a_label_of_its_own_has_no_domains():
    assert domains_of({"t/spine": "s1"}, ("spine", "nvlink"), LABELS) == ("s1", "")
