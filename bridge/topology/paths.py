"""How the domains of a node are written: a path per level, ``spine-1``, ``spine-1/rack-7``.

Where a source names no domain at a level but one at a finer level, the finer one stands for itself there: ``~rack-7``,
``~rack-7/rack-7``. Whatever shares rack-7 surely shares what is above it, and nothing else is known to. Where nothing
finer is named either, the node is nowhere: ``""``.
"""

from __future__ import annotations

from collections.abc import Sequence

_STAND_IN = "~"
_ESCAPES = (("%", "%25"), ("/", "%2F"))


def paths_of(names: Sequence[str]) -> tuple[str, ...]:
    """Return the path at every level for the names of a node's domains, coarse to fine, ``""`` where it has none."""
    labels: list[str] = []
    finer = ""
    for name in reversed(names):
        finer = _quoted(name) or finer
        labels.append(finer if name or not finer else _STAND_IN + finer)
    labels.reverse()
    return tuple("/".join(labels[: depth + 1]) if label else "" for depth, label in enumerate(labels))


def names_of(paths: Sequence[str]) -> tuple[str, ...]:
    """Return the names again: the inverse of ``paths_of``."""
    last = (path.rpartition("/")[2] for path in paths)
    return tuple("" if label.startswith(_STAND_IN) else _unquoted(label) for label in last)


def _quoted(name: str) -> str:
    for plain, escaped in _ESCAPES:
        name = name.replace(plain, escaped)
    return f"%7E{name[1:]}" if name.startswith(_STAND_IN) else name


def _unquoted(label: str) -> str:
    label = label.replace("%7E", _STAND_IN)
    for plain, escaped in reversed(_ESCAPES):
        label = label.replace(escaped, plain)
    return label
