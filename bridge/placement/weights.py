"""The objective, as one integer per choice.

Lexicographic, from what matters most:

1. domains that the gang touches, level by level, the preferred level first if there is one, then from coarse to fine;
2. whole domains that it breaks into, level by level from coarse to fine: they are kept for big gangs;
3. whole nodes that it leaves partly used;
4. able nodes left over in the finest domains that it touches;
5. devices left over on its nodes.

Ties go to the domain and node that come first in rank order. Each term is a sum over domains or nodes, so the terms can
be digits of one number in a base that no term reaches.
"""

from __future__ import annotations

from dataclasses import dataclass

from bridge.placement.board import Board
from bridge.placement.request import Request


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """``touch[depth]`` and ``breach[depth]`` price a domain of that depth, ``stranded`` a node that is left over."""

    touch: tuple[int, ...]
    breach: tuple[int, ...]
    broken: int
    stranded: int
    rest: int
    """Smallest price of a touched domain: a cost divided by it leaves the domains, the remainder all else."""

    def node(self, cost: int) -> int:
        """Return the price of a node whose cost by ``Board.node_cost`` is ``cost``."""
        broken, waste = divmod(cost, Board.WASTE_BASE)
        return broken * self.broken + waste


def weights_for(request: Request, board: Board) -> Weights:
    """Return the weights for ``request``; index 0, the fleet itself, is free."""
    base = (len(board.nodes) + 1) * (board.largest(request.gres.type) + 1)
    depths = list(range(1, len(board.tree.levels) + 1))
    order = sorted(depths, key=lambda depth: (board.tree.levels[depth - 1] != request.preferred_level, depth))
    stranded = base
    broken = stranded * base
    breach = dict(zip(reversed(depths), (broken * base**power for power in range(1, len(depths) + 1)), strict=True))
    top = broken * base ** len(depths)
    touch = dict(zip(reversed(order), (top * base**power for power in range(1, len(order) + 1)), strict=True))
    return Weights(
        touch=(0, *(touch[depth] for depth in depths)),
        breach=(0, *(breach[depth] for depth in depths)),
        broken=broken,
        stranded=stranded,
        rest=top * base,
    )
