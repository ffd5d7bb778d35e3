"""What is in use, as text: who plans offline writes it by hand or makes it from ``sinfo``.

One line per node or host list, ``#`` begins a comment::

    n017                 the whole node is in use
    rack[1-2]n[01-16] 4  so many GPUs are, the lowest free ones
    n020 0-3,6           these are; a single one is written [3]
    n021 drained         out of service; also down or maint

Several lines for one node add up.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from bridge.accounting.gres import parse_ranges
from bridge.errors import ParseError
from bridge.model.hostlist import expand
from operators.plan.located import BadInput

OUT_OF_SERVICE = frozenset({"drained", "down", "maint"})
_MOST_DIGITS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Busy:
    """GPU indices in use by node, and the word for every node that is out of service."""

    indices: Mapping[str, frozenset[int]] = field(default_factory=dict)
    closed: Mapping[str, str] = field(default_factory=dict)


def parse_busy(file: str, text: str, *, nodes: Collection[str], gpus_per_node: int) -> Busy:
    """Return what ``text`` says of ``nodes``, each of which has ``gpus_per_node``; BadInput names the line."""
    used: dict[str, set[int]] = {}
    closed: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        if len(words) > 2:
            raise BadInput(file, number, f"{len(words)} words, a line is NODE [count|index list|drained]")
        for name in _names(file, number, words[0], nodes):
            if len(words) == 2 and words[1] in OUT_OF_SERVICE:
                closed[name] = words[1]
                continue
            own = used.setdefault(name, set())
            try:
                own |= _taken(words[1] if len(words) == 2 else str(gpus_per_node), own, gpus_per_node)
            except ParseError as error:
                raise BadInput(file, number, f"{name}: {error.problem}") from error
    return Busy(indices={name: frozenset(indices) for name, indices in used.items()}, closed=closed)


def _names(file: str, number: int, text: str, nodes: Collection[str]) -> tuple[str, ...]:
    try:
        names = expand(text)
    except ParseError as error:
        raise BadInput(file, number, str(error)) from error
    unknown = [name for name in names if name not in nodes]
    if unknown:
        more = f" (and {len(unknown) - 1} more of this line)" if len(unknown) > 1 else ""
        raise BadInput(file, number, f"node {unknown[0]} is not in the topology{more}")
    return names


def _taken(text: str, used: Collection[int], gpus: int) -> set[int]:
    """Return the indices that ``text`` takes of ``gpus`` where ``used`` are gone."""
    if text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS:
        free = [index for index in range(gpus) if index not in used]
        if int(text) > len(free):
            raise ParseError(text, f"{text} more GPUs in use, but {len(free)} of its {gpus} are free")
        return set(free[: int(text)])
    indices = parse_ranges(text.removeprefix("[").removesuffix("]"))
    if indices is None:
        words = ", ".join(sorted(OUT_OF_SERVICE))
        raise ParseError(text, f"{text!r} is neither a count nor a list of indices as in 0-3,6 nor one of {words}")
    for index in indices:
        if index >= gpus:
            raise ParseError(text, f"there is no GPU {index}, the node has {gpus} (0-{gpus - 1})")
        if index in used:
            raise ParseError(text, f"GPU {index} is in use already by an earlier line")
    return set(indices)
