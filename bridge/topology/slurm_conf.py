"""Slurm's topology as lines: ``topology.conf(5)`` of topology/tree and topology/block, and ``scontrol show topology``.

Both are read by one grammar, Slurm's own: ``Key=value`` pairs, keys in any case and the last of equal ones counts,
``#`` begins a comment (``\\#`` does not), a line that ends with ``\\`` goes on. What scontrol adds is told apart by its
keys: a switch with ``Level`` above 0 lists all nodes below it beside its ``Switches``, and AggregatedBlock repeats what
BlockSize says. 24.11 and 26.05 print the same keys.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

from bridge.errors import ParseError
from bridge.model.hostlist import expand
from bridge.model.topology import Topology
from bridge.topology.blocks import Block, tiers_of_blocks
from bridge.topology.switches import Switch, tiers_of_switches
from bridge.topology.tiers import Tiers, align

_PAIR = re.compile(r"([\w.]+)\s*=\s*(?:\"([^\"]*)\"|((?![\w.]+\s*=)\S*))")
_COMMENT = re.compile(r"(?<!\\)#.*")
_KEYS = {
    "switchname": {"nodes", "switches", "linkspeed", "level"},
    "blockname": {"nodes", "blockindex", "blocksize"},
    "aggregatedblock": {"nodes", "blockindex", "blocksize"},
    "blocksizes": set(),
}
"""The keys that begin a line, in lower case, and those that may follow."""


@dataclass(slots=True)
class Found:
    """What has been read so far."""

    switches: list[Switch] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)
    sizes: set[int] = field(default_factory=set)
    problems: list[str] = field(default_factory=list)

    def hosts(self, text: str, where: str) -> tuple[str, ...]:
        """Return the names of a host list; none, and a problem, when it is none."""
        try:
            return expand(text.strip())
        except ParseError as error:
            self.problems.append(f"{where} is left out: {error}")
            return ()

    def size(self, text: str, where: str) -> None:
        """Note a block size."""
        number = text.strip()
        if re.fullmatch(r"[1-9][0-9]{0,8}", number):
            self.sizes.add(int(number))
        else:
            self.problems.append(f"{where}: {number!r} is no number of nodes")

    def tiers(self) -> Tiers:
        """Return what it all means; with switches and blocks it is a tree, since no Slurm has both in one topology."""
        if self.switches:
            if self.blocks:
                self.problems.append("switches and blocks in one topology: the blocks are ignored")
            return tiers_of_switches(self.switches, self.problems)
        if self.blocks:
            return tiers_of_blocks(self.blocks, sorted(self.sizes), self.problems)
        return Tiers(problems=tuple(self.problems))


def read_conf(
    text: str, levels: Sequence[str] | None = None, known: Collection[str] | None = None, *, name: str = ""
) -> Topology:
    """Return the topology of a ``topology.conf`` or of ``scontrol show topology``; empty text is the flat one.

    ``levels`` are the Fleet's, coarse to fine (``bridge.topology.tiers``); None takes the source's own tiers. ``known``
    are the cluster's nodes; None believes the text.
    """
    found = Found()
    for number, line in _lines(text):
        _read_line(f"line {number}", line, found)
    return align(found.tiers(), levels, known, name=name)


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines that say something, joined and without comments, with the number of the first."""
    joined, first = "", 0
    for number, raw in enumerate(text.splitlines(), 1):
        line = _COMMENT.sub("", raw).replace("\\#", "#").rstrip()
        first = first or number
        goes_on = line.endswith("\\")
        joined += line.removesuffix("\\")
        if not goes_on:
            if joined.strip():
                yield first, joined.strip()
            joined, first = "", 0
    if joined.strip():
        yield first, joined.strip()


def _read_line(where: str, line: str, found: Found) -> None:
    pairs = [(key.lower(), quoted or plain) for key, quoted, plain in _PAIR.findall(line)]
    leading = pairs[0][0] if pairs else ""
    if leading == "ringname":
        found.problems.append(f"{where}: topology/ring is not read")
        return
    rest = _PAIR.sub("", line).split()
    strange = rest + [key for key, _ in pairs[1:] if key not in _KEYS.get(leading, set())]
    if leading not in _KEYS:
        found.problems.append(f"{where} is not understood: {line[:80]!r}")
        return
    if strange:
        found.problems.append(f"{where}: not understood and ignored: {', '.join(strange)[:80]!r}")
    _take(where, leading, dict(pairs), found)


def _take(where: str, leading: str, values: dict[str, str], found: Found) -> None:
    name = values[leading]
    match leading:
        case "blocksizes":
            for size in name.split(","):
                found.size(size, f"{where}: BlockSizes")
        case "aggregatedblock":
            found.size(values.get("blocksize", ""), f"{where}: BlockSize")
        case _ if not name:
            found.problems.append(f"{where} has no name and is left out")
        case "blockname":
            nodes = found.hosts(values.get("nodes", ""), f"{where}: Nodes")
            found.blocks.append(Block(name=name, nodes=nodes))
            if "blocksize" in values:
                found.size(values["blocksize"], f"{where}: BlockSize")
        case _:
            children = found.hosts(values.get("switches", ""), f"{where}: Switches")
            is_summary = bool(children) and values.get("level", "0") != "0"
            nodes = () if is_summary else found.hosts(values.get("nodes", ""), f"{where}: Nodes")
            found.switches.append(Switch(name=name, nodes=nodes, children=children))
