"""A topology as every reader gives it: for each node its domains, coarse to fine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """``levels`` are coarse to fine; ``domains`` has, for every node, a path per level that is unique in the fleet
    (``spine-1/rack-7``), or ``""`` where the source puts the node nowhere. ``problems`` say what the source has wrong
    and what was made of it; a topology with problems is still usable. Of several topologies of one cluster,
    ``is_default`` marks the one for partitions that name none.
    """

    name: str = ""
    levels: tuple[str, ...] = ()
    domains: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    is_default: bool = False
