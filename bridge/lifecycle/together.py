"""One call to slurmctld takes many nodes, but one text."""

from __future__ import annotations

from collections.abc import Mapping


def by_text(texts: Mapping[str, str]) -> list[tuple[str, tuple[str, ...]]]:
    """Return every text with its nodes, both in order; ``texts`` has one for each node."""
    found: dict[str, list[str]] = {}
    for name in sorted(texts):
        found.setdefault(texts[name], []).append(name)
    return [(text, tuple(names)) for text, names in sorted(found.items())]
