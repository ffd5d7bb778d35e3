"""What the API server said, reduced to what the ledger questions need. Pure; raw objects in, frozen values out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bridge import wellknown
from bridge.errors import ParseError
from bridge.model.fence import Fence
from bridge.model.hostlist import expand
from bridge.model.kube import Device
from operators.reading import is_mirror, read_fence, seconds, slice_node

Object = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Objects:
    """Raw objects of one moment.

    ``seen`` has the kinds (plural) that could not be read everywhere, each with the namespaces where it could.
    """

    nodes: Sequence[Object] = ()
    slices: Sequence[Object] = ()
    claims: Sequence[Object] = ()
    gangjobs: Sequence[Object] = ()
    pods: Sequence[Object] = ()
    fleets: Sequence[Object] = ()
    seen: Mapping[str, frozenset[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A Kubernetes node. ``slurm_node`` is empty for one that is not managed."""

    name: str
    uid: str = ""
    slurm_node: str = ""
    ready: bool = False
    unschedulable: bool = False
    fence: Fence | None = None
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A device as its slice shows it. ``ids`` are the names that hardware has: uuid, parent's uuid, PCI bus id."""

    device: Device
    node: str = ""
    index: int | None = None
    uuid: str = ""
    ids: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """One device in one allocated claim: a gang's has ``gang``, an sbatch job's ``job_id``, a foreign one neither.

    ``owner_uid`` is the uid of the GangJob behind it. ``pod`` and ``pod_uid`` are the pod that it is reserved for.
    """

    device: Device
    node: str
    namespace: str
    claim: str
    owner_uid: str = ""
    gang: str = ""
    attempt: int = 0
    rank: int | None = None
    job_id: int = 0
    pod: str = ""
    pod_uid: str = ""
    since: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """A gang, or the mirror of an sbatch job, with the Slurm job that owns its devices (0: none yet)."""

    namespace: str
    name: str
    attempt: int
    job_id: int = 0
    job_name: str = ""
    user: str = ""
    account: str = ""
    partition: str = ""
    start: int | None = None
    end: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Everything read. ``closed`` is by Slurm name: reason and message. ``drivers`` are those that the Fleet maps."""

    nodes: Mapping[str, Node]
    devices: tuple[Published, ...]
    holdings: tuple[Holding, ...]
    work: Mapping[str, Work]
    pods: Mapping[str, bool]
    """By uid: whether the pod is being deleted."""
    closed: Mapping[str, tuple[str, str]]
    levels: Mapping[str, str]
    """Level of the topology to the node label that names its domains; empty where labels do not."""
    drivers: frozenset[str]
    seen: Mapping[str, frozenset[str]]

    def sees(self, plural: str, namespace: str) -> bool:
        """Return whether objects of that kind could be read there."""
        return plural not in self.seen or namespace in self.seen[plural]


def read_facts(objects: Objects) -> Facts:
    """Return the facts in ``objects``; what somebody wrote wrong is left out, never an error."""
    fleets = sorted(objects.fleets, key=lambda fleet: str(fleet["metadata"]["name"]))
    holdings = (holding for claim in objects.claims for holding in _holdings(claim))
    return Facts(
        nodes={obj["metadata"]["name"]: _node(obj) for obj in objects.nodes},
        devices=tuple(_devices(objects.slices)),
        holdings=tuple(sorted(holdings, key=lambda holding: (holding.namespace, holding.claim, holding.device))),
        work={obj["metadata"]["uid"]: _work(obj) for obj in objects.gangjobs},
        pods={obj["metadata"]["uid"]: "deletionTimestamp" in obj["metadata"] for obj in objects.pods},
        closed={name: why for fleet in fleets for name, why in _closed(fleet)},
        levels=_levels(fleets[0]) if fleets else {},
        drivers=frozenset(item["driver"] for fleet in fleets for item in fleet["spec"].get("devices", ())),
        seen=objects.seen,
    )


def newest(slices: Iterable[Object]) -> dict[tuple[str, str], list[Object]]:
    """Return the slices of each pool (driver, name) at its newest generation."""
    pools: dict[tuple[str, str], list[Object]] = {}
    for obj in slices:
        pools.setdefault((obj["spec"]["driver"], obj["spec"]["pool"]["name"]), []).append(obj)
    latest = {key: max(part["spec"]["pool"]["generation"] for part in parts) for key, parts in pools.items()}
    return {
        key: [part for part in parts if part["spec"]["pool"]["generation"] == latest[key]]
        for key, parts in pools.items()
    }


def _node(obj: Object) -> Node:
    meta, spec, status = obj["metadata"], obj.get("spec") or {}, obj.get("status") or {}
    labels = meta.get("labels") or {}
    return Node(
        name=meta["name"],
        uid=meta["uid"],
        slurm_node=labels.get(wellknown.SLURM_NODE, ""),
        ready=any(item["type"] == "Ready" and item["status"] == "True" for item in status.get("conditions", ())),
        unschedulable=bool(spec.get("unschedulable")),
        fence=read_fence(obj),
        labels=labels,
    )


def _devices(slices: Iterable[Object]) -> Iterable[Published]:
    """Yield the devices of every pool, of incomplete ones too: they are there, whatever is missing beside them."""
    for (driver, pool), parts in newest(slices).items():
        for part in parts:
            own = slice_node(part["spec"])
            for item in part["spec"].get("devices") or ():
                values = {key.rpartition("/")[2]: value for key, value in (item.get("attributes") or {}).items()}
                index = values.get("index", {}).get("int")
                uuid = values.get("uuid", {}).get("string", "")
                texts = (uuid, *(values.get(key, {}).get("string", "") for key in ("parentUUID", "pciBusID")))
                yield Published(
                    device=Device(driver=driver, pool=pool, device=item["name"]),
                    node=own or item.get("nodeName", ""),
                    index=None if index is None else int(index),
                    uuid=uuid,
                    ids=frozenset(text.lower() for text in texts if text),
                )


def _holdings(claim: Object) -> Iterable[Holding]:
    meta, status = claim["metadata"], claim.get("status") or {}
    allocation = status.get("allocation") or {}
    consumer: Object = next(iter(status.get("reservedFor") or ()), {})
    pod = consumer if consumer.get("resource") == "pods" else {}
    labels = meta.get("labels") or {}
    # NB: only gangbridge can put its label on a claim, and only it can write into the namespace of the mirrors.
    is_ours = labels.get(wellknown.MANAGED_BY) == wellknown.FIELD_MANAGER
    is_mirrors = is_ours and meta["namespace"] == wellknown.MIRROR_NAMESPACE
    is_gangs = is_ours and not is_mirrors
    uid = labels.get(wellknown.GANG_UID, "") if is_gangs else consumer.get("uid", "")
    for result in (allocation.get("devices") or {}).get("results") or ():
        if result.get("adminAccess"):
            continue
        yield Holding(
            device=Device(driver=result["driver"], pool=result["pool"], device=result["device"]),
            node=slice_node(allocation),
            namespace=meta["namespace"],
            claim=meta["name"],
            owner_uid=uid,
            gang=labels.get(wellknown.GANG, "") if is_gangs else "",
            attempt=_number(labels, wellknown.ATTEMPT) or 0,
            rank=_number(labels, wellknown.RANK) if is_gangs else None,
            job_id=(_number(labels, wellknown.JOB_ID) or 0) if is_mirrors else 0,
            pod=pod.get("name", ""),
            pod_uid=pod.get("uid", ""),
            since=seconds(allocation.get("allocationTimestamp")),
        )


def _work(obj: Object) -> Work:
    meta, status = obj["metadata"], obj.get("status") or {}
    hold = status.get("hold") or {}
    is_running = hold.get("state") in {"RUNNING", "SUSPENDED"}
    return Work(
        namespace=meta["namespace"],
        name=meta["name"],
        attempt=status.get("attempt", 1),
        job_id=hold.get("jobId", 0),
        job_name=hold.get("name", "") if is_mirror(obj) else "",
        user=hold.get("user", ""),
        account=hold.get("account", ""),
        partition=hold.get("partition", ""),
        start=seconds(status.get("startTime")),
        end=seconds(hold.get("endTime")) if is_running else None,
    )


def _closed(fleet: Object) -> Iterable[tuple[str, tuple[str, str]]]:
    for item in (fleet.get("status") or {}).get("closed") or ():
        try:
            names = expand(item["nodes"])
        except ParseError:
            continue
        for name in names:
            yield name, (item["reason"], item.get("message", ""))


def _levels(fleet: Object) -> dict[str, str]:
    topology = fleet["spec"].get("topology") or {}
    sources = [source.get("nodeLabels") or {} for source in topology.get("sources", ())]
    return {
        level: next((labels[level] for labels in sources if level in labels), "")
        for level in topology.get("levels", ())
    }


def _number(texts: Mapping[str, str], key: str) -> int | None:
    text = texts.get(key, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None
