"""Domains of a node from its Kubernetes labels."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

_DIGITS = re.compile(r"([0-9]{1,18})")


def domains_of(labels: Mapping[str, str], levels: Sequence[str], level_labels: Mapping[str, str]) -> tuple[str, ...]:
    """Return the node's domain at every level, coarse to fine, as paths: equal names in two spines stay apart.

    A node without the label of a level is alone in a domain of no name there, so it never counts as near another one;
    ``""`` stands for that.
    """
    path: list[str] = []
    found: list[str] = []
    for level in levels:
        name = labels.get(level_labels.get(level, ""), "")
        path.append(name)
        found.append("/".join(path) if name else "")
    return tuple(found)


def natural_key(text: str) -> tuple[tuple[int, int, str], ...]:
    """Return a sort key that puts ``gpu2`` before ``gpu10``; total and deterministic."""
    parts = (part for part in _DIGITS.split(text) if part)
    return tuple((0, int(part), part) if _DIGITS.fullmatch(part) else (1, 0, part) for part in parts)
