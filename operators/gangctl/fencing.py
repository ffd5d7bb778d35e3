"""What a fence would do: which devices it frees, and who would be run over. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from operators.gangctl.facts import Node
from operators.gangctl.ledger import Entry, Ledger, World


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What one claim holds on the node."""

    claim: str
    pod: str
    owner: str
    devices: tuple[str, ...]

    def describe(self) -> str:
        """Return a line for people."""
        devices = f"{self.devices[0]}" if len(self.devices) == 1 else f"{len(self.devices)} devices"
        return f"{self.owner}: claim {self.claim}, pod {self.pod or '-'}, {devices}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """``freed`` are the quarantined claims of the node; ``alive`` those of pods that count as running there."""

    node: Node
    freed: tuple[Share, ...]
    alive: tuple[Share, ...]


def effect_of(ledger: Ledger, node: Node) -> Effect:
    """Return what fencing ``node`` would mean now. What sbatch jobs hold stays Slurm's to free."""
    here = [entry for entry in ledger.entries if entry.node == node.name]
    return Effect(
        node=node,
        freed=_shares(entry for entry in here if entry.world is World.QUARANTINED),
        alive=_shares(entry for entry in here if entry.world is World.PODS),
    )


def _shares(entries: Iterable[Entry]) -> tuple[Share, ...]:
    by_claim: dict[str, list[Entry]] = {}
    for entry in entries:
        if entry.owner is not None:
            by_claim.setdefault(entry.owner.claim, []).append(entry)
    return tuple(
        Share(
            claim=claim,
            pod=held[0].owner.pod if held[0].owner else "",
            owner=held[0].owner.label if held[0].owner else "",
            devices=tuple(entry.device.device for entry in held),
        )
        for claim, held in sorted(by_claim.items())
    )
