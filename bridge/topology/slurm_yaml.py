"""Slurm's topologies as YAML: ``topology.yaml(5)`` of 25.05 and later, and ``scontrol show topoconf``.

Several named topologies, each tree, block or flat; partitions choose by name. Scalars are taken as text, so a switch
may be called ``10`` or ``on``. topology/ring and topology/torus3d are told and not read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import yaml

from bridge.errors import ParseError
from bridge.model.topology import Topology
from bridge.topology.blocks import Block
from bridge.topology.slurm_conf import Found, read_conf
from bridge.topology.switches import Switch
from bridge.topology.tiers import align

_YES = frozenset({"true", "yes", "on"})
_UNREAD = ("ring", "torus3d")
_KINDS = ("tree", "block", "flat", *_UNREAD)


def read_slurm(
    text: str, levels: Sequence[str] | None = None, known: Collection[str] | None = None
) -> tuple[Topology, ...]:
    """Return the topologies of a text of either form; that of ``SlurmPort.topology`` for one."""
    lines = (line.lstrip("\ufeff") for line in text.splitlines())
    first = next((line for line in lines if line.strip() and not line.lstrip().startswith("#")), "")
    if first.startswith(("%YAML", "---", "- ")):
        return read_yaml(text, levels, known)
    return (read_conf(text, levels, known),)


def is_blank(text: str) -> bool:
    """Return whether the YAML says nothing: what a cluster without ``topology.yaml`` has, whatever its topology is."""
    return not any(entry.get(kind) for entry in _entries(text) for kind in _KINDS)


def read_yaml(
    text: str, levels: Sequence[str] | None = None, known: Collection[str] | None = None
) -> tuple[Topology, ...]:
    """Return the topologies of a ``topology.yaml`` in its order; ``ParseError`` when it is not one at all.

    ``levels`` and ``known`` are as for ``read_conf``.
    """
    return tuple(_read_entry(entry, levels, known) for entry in _entries(text))


def _entries(text: str) -> list[dict[str, Any]]:
    if not text.strip():
        return []
    try:
        document = yaml.load(text, Loader=yaml.BaseLoader)  # noqa: S506 (makes nothing but texts, lists and mappings)
    except yaml.YAMLError as error:
        raise ParseError(text[:80], f"no YAML ({' '.join(str(error).split())})") from None
    if not isinstance(document, list) or not all(isinstance(entry, dict) for entry in document):
        raise ParseError(text[:80], "no list of topologies")
    return document


def _read_entry(entry: Mapping[str, Any], levels: Sequence[str] | None, known: Collection[str] | None) -> Topology:
    found = Found()
    _read_tree(_part(entry, "tree", found), found)
    _read_block(_part(entry, "block", found), found)
    unread = [kind for kind in _UNREAD if entry.get(kind)]
    found.problems += [f"topology/{kind} is not read: its nodes have no domains" for kind in unread]
    if not (found.switches or found.blocks or unread or entry.get("flat")):
        found.problems.append("neither tree, block nor flat: its nodes have no domains")
    is_default = str(entry.get("cluster_default", "")).lower() in _YES
    return align(found.tiers(), levels, known, name=str(entry.get("topology", "")), is_default=is_default)


def _read_tree(tree: Mapping[str, Any], found: Found) -> None:
    for where, item in _items(tree, "switches", found):
        name = item.get("switch")
        if not name or not isinstance(name, str):
            found.problems.append(f"{where} has no name and is left out")
            continue
        children = found.hosts(_text(item.get("children")), f"{where}.children")
        nodes = found.hosts(_text(item.get("nodes")), f"{where}.nodes")
        found.switches.append(Switch(name=name, nodes=nodes, children=children))


def _read_block(block: Mapping[str, Any], found: Found) -> None:
    sizes = block.get("block_sizes") or []
    for size in sizes if isinstance(sizes, list) else _text(sizes).split(","):
        found.size(_text(size), "block_sizes")
    for where, item in _items(block, "blocks", found):
        name = item.get("block")
        if not name or not isinstance(name, str):
            found.problems.append(f"{where} has no name and is left out")
            continue
        found.blocks.append(Block(name=name, nodes=found.hosts(_text(item.get("nodes")), f"{where}.nodes")))


def _part(entry: Mapping[str, Any], kind: str, found: Found) -> Mapping[str, Any]:
    part = entry.get(kind) or {}
    if isinstance(part, dict):
        return part
    found.problems.append(f"{kind} is no mapping and is left out")
    return {}


def _items(part: Mapping[str, Any], key: str, found: Found) -> Iterator[tuple[str, Mapping[str, Any]]]:
    items = part.get(key) or []
    if not isinstance(items, list):
        found.problems.append(f"{key} is no list and is left out")
        return
    for index, item in enumerate(items):
        if isinstance(item, dict):
            yield f"{key}[{index}]", item
        else:
            found.problems.append(f"{key}[{index}] is no mapping and is left out")


def _text(value: object) -> str:
    """Return a host list as one text; a YAML list of host lists is as good."""
    return ",".join(map(str, value)) if isinstance(value, list) else str(value or "")
