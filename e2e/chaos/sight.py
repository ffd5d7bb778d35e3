"""Both servers at one moment, raw: lists of the API server, ``scontrol show job -d``; no code of the product."""

from __future__ import annotations

import json
import re
import subprocess
import threading
from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ClusterShell.NodeSet import NodeSet

from e2e.chaos.daemons import CONTROLLER, LAB
from e2e.lab.command import LabError
from e2e.lab.kube_api import KubeApi
from e2e.scenario.commands import CommandFailed, slurm

Object = dict[str, Any]
Device = tuple[str, int]
"""Slurm node and GRES index."""

EXTERNAL = "ext"
"""Begin of the Slurm names of nodes without a slurmd."""
DRIVER = "gpu.gangbridge.dev"
GANGJOBS = "/apis/gangbridge.dev/v1alpha1/gangjobs"
CLAIMS = "/apis/resource.k8s.io/v1/resourceclaims"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
PODS = "/api/v1/pods"
SERVICES = "/api/v1/services"
NODES = "/api/v1/nodes"
UNREACHABLE = (OSError, LabError, CommandFailed, subprocess.TimeoutExpired)
"""What reading or writing raises while a server is down, frozen or starting."""

_FIELD = re.compile(r"(?<!\S)(JobId|JobName|JobState|Partition|NodeList|StartTime)=(\S*)")
_MARKER = re.compile(r"(?<!\S)(?:AdminComment|Comment)=(\{\S*\})")
_SHARE = re.compile(r"(?<!\S)Nodes=(\S+) CPU_IDs=\S* Mem=\S* GRES=(\S*)")
_INDICES = re.compile(r"gpu(?::[^:(]+)?:\d+\(IDX:([0-9,-]+)\)")
_STARTED = re.compile(r"^\[(\S+)\] slurmctld version \S+ started", re.MULTILINE)
START_GAP_S = 3
"""Seconds after a start of slurmctld in which it runs no epilog for what ends (seen with salloc and scancel alone)."""
_local = threading.local()


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job as scontrol shows it; ``gang`` and ``attempt`` are those of the marker, empty and 0 without one.

    ``began`` is in seconds since the epoch; 0 before it has begun.
    """

    job_id: int
    name: str
    state: str
    partition: str
    gang: str
    attempt: int
    nodes: tuple[str, ...]
    devices: frozenset[Device]
    began: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """A device with two owners.

    ``is_given_away``: Slurm gave the device on before its pods were gone. On an EXTERNAL node, and in the first seconds
    after a start of slurmctld, nothing can keep it from that; a hold of another gang does no harm, because its pods
    wait until the claim is freed.
    """

    text: str
    is_given_away: bool = False


def api() -> KubeApi:
    """Return this thread's connection to the API server, as the lab's administrator."""
    if not hasattr(_local, "api"):
        _local.api = KubeApi(LAB)
    found: KubeApi = _local.api
    return found


def listed(path: str) -> list[Object]:
    """Return every object of a kind."""
    items: list[Object] = api().get(path)["items"]
    return items


def jobs() -> list[Job]:
    """Return every job that slurmctld knows, those that ended a while ago too."""
    text = slurm("scontrol", "show", "job", "-d", "-o", timeout_s=8)
    return [parse_job(line) for line in text.splitlines() if line.startswith("JobId=")]


def parse_job(line: str) -> Job:
    """Return the job of one line of ``scontrol show job -d -o``."""
    fields = dict(_FIELD.findall(line))
    marker: Object = next((json.loads(text) for text in _MARKER.findall(line)), {})
    return Job(
        job_id=int(fields["JobId"]),
        name=fields["JobName"],
        state=fields["JobState"],
        partition=fields["Partition"],
        gang=str(marker.get("uid", "")),
        attempt=int(marker.get("attempt", 0)),
        nodes=_expand(fields.get("NodeList", "")),
        devices=frozenset(
            (node, index) for nodes, gres in _SHARE.findall(line) for node in _expand(nodes) for index in _numbers(gres)
        ),
        began=_seconds(fields.get("StartTime", "")),
    )


def slurm_names() -> dict[str, str]:
    """Return the Slurm name of every managed node by its Kubernetes name."""
    label = "gangbridge.dev/slurm-node"
    return {
        node["metadata"]["name"]: node["metadata"]["labels"][label]
        for node in listed(NODES)
        if label in node["metadata"].get("labels", {})
    }


def inventory() -> dict[tuple[str, str], Device]:
    """Return what every published device is in Slurm, by pool and device."""
    names = slurm_names()
    return {
        (spec["pool"]["name"], device["name"]): (names[spec["pool"]["name"]], device["attributes"]["index"]["int"])
        for spec in (item["spec"] for item in listed(SLICES))
        if spec["driver"] == DRIVER and spec["pool"]["name"] in names
        for device in spec.get("devices", ())
    }


def devices_of(claim: Object, known: dict[tuple[str, str], Device]) -> list[Device]:
    """Return the devices in an allocated claim."""
    results = claim.get("status", {}).get("allocation", {}).get("devices", {}).get("results", [])
    return [known[result["pool"], result["device"]] for result in results if result["driver"] == DRIVER]


def label(obj: Object, name: str) -> str:
    """Return one of the product's labels of an object, empty without it."""
    found: str = obj["metadata"].get("labels", {}).get(f"gangbridge.dev/{name}", "")
    return found


def controller_starts() -> list[float]:
    """Return when slurmctld has started, in seconds since the epoch."""
    text = (LAB.logs / f"{CONTROLLER}.log").read_text(errors="replace")
    return [_seconds(at) for at in _STARTED.findall(text)]


def owners(
    claims: list[Object], running: list[Job], known: dict[tuple[str, str], Device], starts: list[float]
) -> set[Conflict]:
    """Return every two owners of a device: two claims, two jobs, or a gang's claim and another's job.

    ``starts`` are those of slurmctld: a job that ends within ``START_GAP_S`` of one gets no epilog (Slurm's own gap).
    """
    in_claims: dict[Device, list[Object]] = defaultdict(list)
    in_jobs: dict[Device, list[Job]] = defaultdict(list)
    for claim in claims:
        for device in devices_of(claim, known):
            in_claims[device].append(claim)
    for job in running:
        for device in job.devices:
            in_jobs[device].append(job)
    found: set[Conflict] = set()
    for (node, index), holding in in_claims.items():
        if len(holding) > 1:
            found.add(Conflict(text=f"devices of {node} are in claims {sorted(map(_name, holding))}"))
        for claim in holding:
            key = label(claim, "gang-uid"), label(claim, "attempt")
            others = [job for job in in_jobs[node, index] if (job.gang, str(job.attempt)) != key]
            if key[0] and others:
                ids = [job.job_id for job in others]
                text = f"devices of {node} are in claim {_name(claim)} and held by jobs {ids}"
                is_harmless = node.startswith(EXTERNAL) or all(
                    job.gang or any(0 <= job.began - start + 1 <= START_GAP_S + 1 for start in starts) for job in others
                )
                found.add(Conflict(text=text, is_given_away=is_harmless))
    for (node, _), several in in_jobs.items():
        if len(several) > 1:
            found.add(Conflict(text=f"devices of {node} are held by jobs {[job.job_id for job in several]}"))
    return found


def _name(obj: Object) -> str:
    return f"{obj['metadata']['namespace']}/{obj['metadata']['name']}"


def _seconds(text: str) -> float:
    """Return a time as Slurm writes it (the machine's own) in seconds since the epoch; 0 for none."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return 0.0


def _expand(hostlist: str) -> tuple[str, ...]:
    return () if hostlist in {"", "(null)"} else tuple(NodeSet(hostlist))


def _numbers(gres: str) -> list[int]:
    found: list[int] = []
    for text in _INDICES.findall(gres):
        for part in text.split(","):
            first, _, last = part.partition("-")
            found += range(int(first), int(last or first) + 1)
    return found
