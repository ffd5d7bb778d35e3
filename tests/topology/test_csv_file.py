from __future__ import annotations

import pytest

from bridge.errors import ParseError
from bridge.topology.csv_file import read_csv

TEXT = "node,spine,rack\nn1,s1,r1\nn2,s1,r2\nn3,s2,r1\n"


def test_the_header_names_the_levels():
    topology = read_csv(TEXT)
    assert topology.levels == ("spine", "rack")
    assert topology.domains == {"n1": ("s1", "s1/r1"), "n2": ("s1", "s1/r2"), "n3": ("s2", "s2/r1")}


def test_levels_of_a_fleet_are_met_from_the_fine_end():
    assert read_csv(TEXT, ("zone", "spine", "rack")).domains["n1"] == ("~s1", "~s1/s1", "~s1/s1/r1")
    racks = read_csv(TEXT, ("rack",)).domains
    assert racks["n1"] != racks["n3"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("node,rack\nn1,a\nn1,b", "nodes with several rows, the first in order is taken: n1"),
        ("node,rack\nn1,a\nn2", "a row has 1 columns of 2 and is left out: 'n2'"),
        ("node,rack\nn1,a\nn2,a,b", "a row has 3 columns of 2 and is left out: 'n2'"),
        ("node,rack\n,b\nn1,a", "a row has 2 columns of 2 and is left out: ''"),
    ],
)
def test_what_is_wrong_is_told_and_the_rest_is_read(text, problem):
    topology = read_csv(text)
    assert topology.domains == {"n1": ("a",)}
    assert topology.problems == (problem,)


def test_an_empty_cell_is_no_domain():
    assert read_csv("node,spine,rack\nn1,,r1\nn2,s1,\n").domains == {"n1": ("~r1", "~r1/r1"), "n2": ("s1", "")}


def test_a_file_without_a_header_is_refused():
    with pytest.raises(ParseError, match="no header"):
        read_csv("\n\n")


def test_rows_in_another_order_say_the_same():
    lines = (TEXT + "n1,s9,r9\n").splitlines()
    assert read_csv("\n".join(lines)) == read_csv("\n".join([lines[0], *lines[:0:-1]]))
