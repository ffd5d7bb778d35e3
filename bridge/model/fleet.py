"""What the admin and the platform team wrote: Fleet and GangQueue."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from bridge.model.links import LinkModel
from bridge.model.selector import Selector


class Mode(StrEnum):
    """How far a site has gone: ``Observe`` never writes to Slurm, ``Share`` submits holds too."""

    OBSERVE = "Observe"
    SHARE = "Share"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceMapping:
    """Devices of GRES ``gres`` (``gpu`` or ``gpu:h100``) are devices of ``driver``, requested by ``device_class``."""

    gres: str
    driver: str
    device_class: str

    def covers(self, name: str, type_: str) -> bool:
        """Return whether a device of this GRES name and type is meant."""
        return self.gres in {name, f"{name}:{type_}"}


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelSource:
    """Domains are values of Kubernetes node labels: level to label key."""

    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmSource:
    """Domains are the switches or blocks of Slurm's topology of that name; its default one for ``""``."""

    topology: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrakeSpec:
    """More than ``max_lost_percent`` of all gangs, and at least ``min_lost``, lost at once put the brake on.

    An admin who knows better releases it until ``released_until`` (seconds since the epoch).
    """

    max_lost_percent: int = 30
    min_lost: int = 3
    released_until: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetSpec:
    """``levels`` go from coarse to fine; of ``sources`` the first that knows a domain is believed."""

    name: str
    mode: Mode
    levels: tuple[str, ...] = ()
    sources: tuple[LabelSource | SlurmSource, ...] = ()
    devices: tuple[DeviceMapping, ...] = ()
    links: LinkModel = field(default_factory=LinkModel)
    brake: BrakeSpec = field(default_factory=BrakeSpec)

    def mapping_for(self, name: str, type_: str) -> DeviceMapping | None:
        """Return the most specific mapping that covers the GRES, if any."""
        found = [mapping for mapping in self.devices if mapping.covers(name, type_)]
        return max(found, key=lambda mapping: mapping.gres.count(":"), default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSpec:
    """Which namespaces may use which partition, account, QOS and Slurm user. Deny by default.

    ``namespace_selector`` is None where the queue has none; an empty selector selects every namespace.
    """

    name: str
    fleet: str
    namespaces: frozenset[str] = frozenset()
    namespace_selector: Selector | None = None
    partition: str
    account: str
    qos: tuple[str, ...] = ()
    user: str
    default_time_limit_min: int = 60
    max_time_limit_min: int | None = None
    max_gpus_per_gang: int | None = None

    def admits(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Return whether gangs of ``namespace`` (with its labels) may use the queue."""
        selected = self.namespace_selector is not None and self.namespace_selector.matches(labels)
        return selected or namespace in self.namespaces
