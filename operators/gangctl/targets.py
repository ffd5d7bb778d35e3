"""What ``kubectl gang who`` can be asked about: a node, a device, or a name that the hardware has. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from bridge.errors import BridgeError
from operators.gangctl.facts import Facts, Node
from operators.gangctl.ledger import Entry, Ledger


class UnknownTarget(BridgeError):
    """Nothing in the cluster has that name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The entries that a target means, and what a person should know about the answer."""

    entries: tuple[Entry, ...]
    note: str = ""


def find(ledger: Ledger, target: str) -> Found:
    """Return what ``target`` means: NODE, else UUID or PCI bus id, else NODE/DEVICE or POOL/DEVICE, else NODE:INDEX.

    NODE is a Kubernetes or a Slurm name. Raises UnknownTarget, with near matches.
    """
    entries = ledger.entries
    if node := _node(ledger.facts, target):
        found = tuple(entry for entry in entries if entry.node == node.name)
        return Found(entries=found, note=_ambiguity(ledger.facts, target, node) or ("" if found else _empty(node)))
    # NB: who may not read nodes still knows those of his own claims.
    if target and (found := tuple(entry for entry in entries if entry.node == target)):
        return Found(entries=found)
    if found := tuple(entry for entry in entries if target.lower() in entry.ids):
        return Found(entries=found)
    for separator, find_on in (("/", _named), (":", _indexed)):
        place, found_separator, name = target.rpartition(separator)
        if found_separator and (found := find_on(_at(ledger, place), name)):
            return Found(entries=found)
    raise UnknownTarget(_unknown(ledger, target))


def find_node(facts: Facts, name: str) -> Node:
    """Return the node of that Kubernetes or Slurm name; UnknownTarget, with near matches, when there is none."""
    if node := _node(facts, name):
        return node
    names = {*facts.nodes, *(node.slurm_node for node in facts.nodes.values())}
    raise UnknownTarget(f'there is no node "{name}"{_near(name, names)}')


def _node(facts: Facts, name: str) -> Node | None:
    """Return the node; the Kubernetes name goes before the Slurm name, the first of two with one Slurm name counts."""
    if name in facts.nodes:
        return facts.nodes[name]
    twins = (facts.nodes[twin] for twin in sorted(facts.nodes) if facts.nodes[twin].slurm_node == name)
    return next(twins, None) if name else None


def _ambiguity(facts: Facts, target: str, node: Node) -> str:
    if target != node.name:
        return ""
    others = sorted(other.name for other in facts.nodes.values() if other.slurm_node == target and other is not node)
    return f"{target} is also the Slurm name of {others[0]}" if others else ""


def _empty(node: Node) -> str:
    return f"no ResourceSlice shows a device of {node.name}"


def _at(ledger: Ledger, place: str) -> Sequence[Entry]:
    """Return the entries on the node, or else in the pools, of that name."""
    node = _node(ledger.facts, place)
    here = [entry for entry in ledger.entries if entry.node == (node.name if node else place)]
    return here if place and here else [entry for entry in ledger.entries if entry.device.pool == place]


def _named(entries: Sequence[Entry], name: str) -> tuple[Entry, ...]:
    return tuple(entry for entry in entries if entry.device.device == name or name.lower() in entry.ids)


def _indexed(entries: Sequence[Entry], text: str) -> tuple[Entry, ...]:
    return tuple(entry for entry in entries if entry.index is not None and str(entry.index) == text)


def _unknown(ledger: Ledger, target: str) -> str:
    """Return why not, with what is nearest: on the node that the target names, or anywhere."""
    place, _, device = target.rpartition("/")
    if place and (here := _at(ledger, place)):
        return f'{place} has no device "{device}"{_near(device, {entry.device.device for entry in here})}'
    place, _, index = target.rpartition(":")
    if place and (here := _at(ledger, place)):
        known = sorted({entry.index for entry in here if entry.index is not None})
        if not known:
            return f"the devices of {place} have no GRES index; name one as {place}/{here[0].device.device}"
        return f'{place} has no device of index "{index}"; it has {known[0]} to {known[-1]}'
    facts = ledger.facts
    names = {*facts.nodes, *(node.slurm_node for node in facts.nodes.values())}
    names |= {text for entry in ledger.entries for text in (entry.node, entry.device.pool, entry.uuid)}
    return f'there is no node, device or uuid "{target}"{_near(target, names)}'


def _near(name: str, names: Collection[str]) -> str:
    close = difflib.get_close_matches(name, sorted(filter(None, names)), n=3, cutoff=0.6)
    return f"; did you mean {' or '.join(close)}?" if close else ""
