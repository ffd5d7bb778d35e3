"""Generic resources as counts and as tracked indices."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class GresRequest:
    """What one pod or one node asks for: ``gpu:h100:8``. ``type`` is empty when any type will do."""

    name: str
    type: str = ""
    count: int

    def times(self, factor: int) -> GresRequest:
        """Return the same request ``factor`` times as large."""
        return GresRequest(name=self.name, type=self.type, count=self.count * factor)

    def __str__(self) -> str:
        return ":".join(part for part in (self.name, self.type, str(self.count)) if part)


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Gres:
    """One GRES of a node or of an allocation on a node.

    ``indices`` are positions in the node's list of this GRES *name* (over all types), as in ``IDX:0-2``; they are
    ``None`` when Slurm tracks only a count (``CNT:``, no File= records). Source: gres.conf(5), scontrol(1) ``-d``.
    """

    name: str
    type: str = ""
    count: int
    indices: tuple[int, ...] | None = None

    @property
    def is_tracked(self) -> bool:
        """True when every counted device has an index; a list that Slurm cut short is not tracked."""
        return self.indices is not None and len(self.indices) == self.count
