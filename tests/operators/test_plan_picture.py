"""The picture: well-formed, complete, and with every text inside the box that it belongs to."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from bridge.model.topology import Topology
from operators.plan.answer import Answer, answer
from operators.plan.busyfile import Busy
from operators.plan.offline import NodeShape, offline_question
from operators.plan.picture import CLOSED, GANG, WIDTH, draw
from operators.plan.svg import MONO, SANS, fit, wrap
from tests.builders import gang

SVG = "{http://www.w3.org/2000/svg}"
LONG = "gpu-node-of-the-second-generation-{:03d}.region-1.cluster.example.org"


def tree(spines: int, racks: int, nodes: int, name: str = "n{:04d}") -> Topology:
    domains: dict[str, tuple[str, ...]] = {}
    for spine in range(spines):
        for rack in range(racks):
            for _ in range(nodes):
                path = f"spine-{spine}/rack-{spine * racks + rack}"
                domains[name.format(len(domains))] = (f"spine-{spine}", path)
    return Topology(levels=("spine", "rack"), domains=domains)


def planned(topology: Topology, *, seed: int = 1, in_use: float = 0.4, **wanted: Any) -> Answer:
    """Return the answer for a gang on a fleet that is used at random, with some nodes out of service."""
    dice = random.Random(seed)  # noqa: S311 - a fleet to look at
    indices: dict[str, frozenset[int]] = {}
    closed: dict[str, str] = {}
    for name in topology.domains:
        draw_ = dice.random()
        if draw_ < 0.03:
            closed[name] = "drained"
        elif draw_ < in_use:
            indices[name] = frozenset(range(dice.choice([3, 8, 8])))
    return answer(offline_question(gang(**wanted), topology, Busy(indices=indices, closed=closed), NodeShape()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    left: float
    top: float
    right: float
    bottom: float

    def has(self, x: float, y: float) -> bool:
        return self.left <= x <= self.right and self.top <= y <= self.bottom


def boxes(root: ET.Element) -> list[Box]:
    """Return the boxes that may hold text: all but single nodes."""
    found = []
    for rect in root.iter(f"{SVG}rect"):
        if rect.get("rx") is not None and rect.get("rx") != "2":
            x, y, width, height = (float(rect.get(key, "0")) for key in ("x", "y", "width", "height"))
            found.append(Box(left=x, top=y, right=x + width, bottom=y + height))
    return found


CASES = {
    "small": planned(tree(2, 3, 4), replicas=8),
    "parts of nodes": planned(tree(2, 3, 4), replicas=5, gres="gpu:h100:1"),
    "long names": planned(tree(2, 3, 4, LONG), replicas=16, gres="gpu:h100:4"),
    "576 nodes": planned(tree(4, 8, 18), replicas=24),
    "4608 nodes": planned(tree(16, 16, 18), replicas=512),
    "4608 nodes, flat": planned(Topology(domains={f"n{number}": () for number in range(4608)}), replicas=64),
    "too large": planned(tree(4, 8, 18), replicas=20, required_level="rack"),
    "refused": planned(tree(2, 3, 4), replicas=8, required_level="a-level-" * 40),
    "one level": planned(Topology(levels=("rack",), domains={f"n{n}": (f"r{n % 7}",) for n in range(60)}), replicas=9),
    "nowhere": planned(Topology(levels=("spine", "rack"), domains={f"n{n}": ("", "") for n in range(9)}), replicas=2),
}


@pytest.mark.parametrize("case", CASES)
def test_every_text_stays_inside_its_box(case):
    root = ET.fromstring(draw(CASES[case]))  # noqa: S314 - our own text
    height, panels = float(root.get("height", "0")), boxes(root)
    assert float(root.get("width", "0")) == WIDTH
    for text in root.iter(f"{SVG}text"):
        x, y, size = (float(text.get(key, "0")) for key in ("x", "y", "font-size"))
        wide = 0.61 if "Mono" in str(text.get("font-family")) else 0.66
        width = len(text.text or "") * size * wide
        left = {"start": x, "end": x - width, "middle": x - width / 2}[text.get("text-anchor", "start")]
        inside = [box for box in panels if box.has(x, y)]
        holder = min(
            inside, key=lambda box: box.right - box.left, default=Box(left=0, top=0, right=WIDTH, bottom=height)
        )
        assert holder.left <= left, text.text
        assert left + width <= holder.right + 0.5, text.text
        assert holder.top <= y - size * 0.7, text.text
        assert y <= holder.bottom, text.text


@pytest.mark.parametrize("case", CASES)
def test_every_node_is_there_once_and_the_picture_holds_all_boxes(case):
    found = CASES[case]
    root = ET.fromstring(draw(found))  # noqa: S314 - our own text
    titles = [title.text or "" for group in root.iter(f"{SVG}g") for title in group.iter(f"{SVG}title")]
    assert sorted(title.partition(":")[0] for title in titles) == sorted(found.nodes)
    assert max(box.bottom for box in boxes(root)) <= float(root.get("height", "0"))
    assert max(box.right for box in boxes(root)) <= WIDTH


def test_a_node_of_the_gang_shows_its_ranks():
    found = CASES["small"]
    assert found.placed
    text = draw(found)
    for number, name in enumerate(found.placed.nodes):
        assert f"<title>{name}: 8 for this gang, ranks {number}</title>" in text
    assert text.count(f"fill='{GANG}'/>") == len(found.placed.nodes) + 1  # and the legend


def test_the_nearest_domain_is_marked_when_nothing_fits():
    found = CASES["too large"]
    assert found.domain.startswith("spine-")
    root = ET.fromstring(draw(found))  # noqa: S314 - our own text
    marked = [
        rect for rect in root.iter(f"{SVG}rect") if rect.get("stroke") == CLOSED and rect.get("stroke-width") == "2"
    ]
    assert len(marked) == 2  # the rack, and its line in the legend
    assert "comes nearest" in draw(found)


def test_a_name_cannot_break_the_picture():
    evil = Topology(levels=("rack",), domains={"<&'\">\x00": ("</svg>\x1b",)})
    root = ET.fromstring(draw(planned(evil, in_use=0, replicas=1)))  # noqa: S314 - our own text
    assert any("<&'\">?" in (text.text or "") for text in root.iter(f"{SVG}text"))


def test_the_same_answer_is_the_same_picture():
    assert draw(CASES["small"]) == draw(planned(tree(2, 3, 4), replicas=8))


@pytest.mark.parametrize(
    ("text", "width", "expected"), [("rack-07", 100, "rack-07"), ("abcdefghij", 37, "ab…hij"), ("ab", 6, "")]
)
def test_a_name_that_is_too_long_keeps_its_ends(text, width, expected):
    assert fit(text, width, 10, MONO) == expected


def test_lines_break_at_blanks():
    lines = wrap("one two three " * 8 + "x" * 99, 200, 10, SANS)
    assert all(len(line) * 6.6 <= 200 for line in lines)
    assert lines[0].startswith("one two three")
