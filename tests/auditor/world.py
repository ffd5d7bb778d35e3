"""Both servers' answers as they are: one gang on two nodes, one sbatch job with its mirror, all of it sound.

Tests break one thing each. Times: the servers' clocks say ``NOW``; everything began ten minutes before.
"""

from __future__ import annotations

import copy
import json
from typing import Any

from auditor.evidence import Evidence
from auditor.kube_objects import read_claim, read_drivers, read_gang, read_node, read_places, read_pod
from auditor.slurm_json import read_jobs, read_nodes
from bridge import wellknown

Object = dict[str, Any]

NOW = 1_800_000_000
LONG_AGO = NOW - 600
CREATED = "2027-01-15T07:50:00Z"
"""``LONG_AGO``, as Kubernetes writes it."""
CLUSTER = "uid-of-kube-system"
GANG, HOLD, JOB = "uid-llm", 100, 200
NODES = {"k8s-gpu0": "gpu0", "k8s-ext0": "ext0"}


def number(value: int) -> Object:
    return {"set": True, "infinite": False, "number": value}


def marker(uid: str = GANG, attempt: int = 1, cluster: str = CLUSTER) -> str:
    value = {"gangbridge": 1, "uid": uid, "attempt": attempt, "gang": "research/llm", "cluster": cluster}
    return json.dumps(value, separators=(",", ":"))


def job_record(job_id: int, nodes: str, gres: list[str], **changes: Any) -> Object:
    record: Object = {
        "job_id": job_id,
        "job_state": ["RUNNING"],
        "user_name": "alice",
        "nodes": nodes,
        "gres_detail": gres,
        "admin_comment": "",
        "comment": "",
        "het_job_id": number(0),
        "submit_time": number(LONG_AGO),
        "start_time": number(LONG_AGO),
        "end_time": number(NOW + 3600),
        "job_resources": {"nodes": {"allocation": [{"cores": [{"index": 0, "status": ["ALLOCATED"]}]}]}},
    }
    return record | changes


def node_record(name: str, *states: str, **changes: Any) -> Object:
    return {"name": name, "state": list(states), "reason": "", "reason_set_by_user": "", "extra": ""} | changes


def meta(name: str, namespace: str = "", **changes: Any) -> Object:
    found: Object = {"name": name, "uid": f"uid-{name}", "creationTimestamp": CREATED, "resourceVersion": "1"}
    return found | ({"namespace": namespace} if namespace else {}) | changes


def gang_labels(rank: int, uid: str = GANG, attempt: int = 1) -> Object:
    return {
        wellknown.MANAGED_BY: "gangbridge",
        wellknown.GANG: "llm",
        wellknown.GANG_UID: uid,
        wellknown.ATTEMPT: str(attempt),
        wellknown.RANK: str(rank),
    }


def allocation(node: str, indices: list[int]) -> Object:
    results = [
        {"request": "gpu", "driver": wellknown.DRIVER, "pool": node, "device": f"gpu-{index}"} for index in indices
    ]
    only = {"key": "metadata.name", "operator": "In", "values": [node]}
    return {
        "allocationTimestamp": CREATED,
        "devices": {"results": results},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [only]}]},
    }


def claim(name: str, namespace: str, labels: Object, node: str, indices: list[int], consumer: Object) -> Object:
    return {
        "metadata": meta(
            name,
            namespace,
            labels=labels,
            finalizers=[wellknown.DELETE_PROTECTION],
            managedFields=[{"manager": "gangbridge"}],
        ),
        "spec": {},
        "status": {"allocation": allocation(node, indices), "reservedFor": [consumer]},
    }


def member(rank: int, node: str, indices: list[int]) -> tuple[Object, Object]:
    """Return a running pod of the gang and its claim."""
    labels = gang_labels(rank)
    name = f"llm-1-{rank}"
    pod = {
        "metadata": meta(
            name,
            "research",
            labels=labels | {wellknown.JOB_ID: str(HOLD)},
            finalizers=[wellknown.FINALIZER],
            managedFields=[{"manager": "gangbridge"}],
        ),
        "spec": {"nodeName": node},
        "status": {"phase": "Running", "containerStatuses": [{"state": {"running": {}}}]},
    }
    consumer = {"resource": "pods", "name": name, "uid": f"uid-{name}"}
    return pod, claim(f"{name}-gpu", "research", labels, node, indices, consumer)


def slice_of(node: str, *, generation: int = 1, devices: int = 8, first: int = 0) -> Object:
    only = {"key": "metadata.name", "operator": "In", "values": [node]}
    return {
        "metadata": meta(f"slice-{node}"),
        "spec": {
            "driver": wellknown.DRIVER,
            "pool": {"name": node, "generation": generation, "resourceSliceCount": 1},
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [only]}]},
            "devices": [
                {"name": f"gpu-{number}", "attributes": {"index": {"int": number + first}}} for number in range(devices)
            ],
        },
    }


class World:
    """``jobs`` and ``nodes`` are Slurm's records; ``objects`` are Kubernetes', by plural and then by name."""

    def __init__(self) -> None:
        self.now = self.kube_now = NOW
        self.jobs: dict[int, Object] = {
            HOLD: job_record(HOLD, "ext0,gpu0", ["gpu:h100:2(IDX:0-1)", "gpu:h100:2(IDX:0-1)"], admin_comment=marker()),
            JOB: job_record(JOB, "gpu0", ["gpu:h100:2(IDX:4-5)"], user_name="bob"),
        }
        self.nodes: dict[str, Object] = {
            "ext0": node_record("ext0", "MIXED", "EXTERNAL"),
            "gpu0": node_record("gpu0", "MIXED", extra=f"gangbridge:{HOLD}"),
        }
        pods, claims = zip(member(0, "k8s-ext0", [0, 1]), member(1, "k8s-gpu0", [0, 1]), strict=True)
        mirror = {"apiGroup": wellknown.GROUP, "resource": "gangjobs", "name": "slurm-200", "uid": "uid-slurm-200"}
        labels = {wellknown.MANAGED_BY: "gangbridge", wellknown.JOB_ID: str(JOB)}
        shown = claim("slurm-200-a-0", wellknown.MIRROR_NAMESPACE, labels, "k8s-gpu0", [4, 5], mirror)
        self.objects: dict[str, dict[str, Object]] = {
            "pods": {obj["metadata"]["name"]: obj for obj in pods},
            "resourceclaims": {obj["metadata"]["name"]: obj for obj in (*claims, shown)},
            "resourceslices": {node: slice_of(node) for node in NODES},
            "gangjobs": {
                "llm": {"metadata": meta("llm", "research"), "spec": {}, "status": {"attempt": 1, "phase": "Running"}},
                "slurm-200": {"metadata": meta("slurm-200", wellknown.MIRROR_NAMESPACE, labels=labels), "spec": {}},
            },
            "nodes": {
                name: {"metadata": meta(name, labels={wellknown.SLURM_NODE: slurm_name}), "spec": {}}
                for name, slurm_name in NODES.items()
            },
            "fleets": {"main": {"metadata": meta("main"), "spec": {"devices": [{"driver": wellknown.DRIVER}]}}},
            "namespaces": {"kube-system": {"metadata": meta("kube-system", uid=CLUSTER)}},
        }

    # Shorthands for what tests break

    def pod(self, rank: int) -> Object:
        return self.objects["pods"][f"llm-1-{rank}"]

    def claim(self, rank: int) -> Object:
        return self.objects["resourceclaims"][f"llm-1-{rank}-gpu"]

    def mirror_claim(self) -> Object:
        return self.objects["resourceclaims"]["slurm-200-a-0"]

    def copied(self, obj: Object, name: str, **labels: str) -> Object:
        """Put a copy of a claim or pod beside it, with other labels."""
        twin = copy.deepcopy(obj)
        twin["metadata"] |= {"name": name, "uid": f"uid-{name}"}
        twin["metadata"]["labels"] |= labels
        self.objects["pods" if "nodeName" in obj["spec"] else "resourceclaims"][name] = twin
        return twin

    def without_gang(self) -> None:
        """Remove the gang with everything of it: what is left is the sbatch job."""
        self.objects["pods"].clear()
        self.objects["gangjobs"].pop("llm")
        for rank in (0, 1):
            self.objects["resourceclaims"].pop(f"llm-1-{rank}-gpu")
        self.jobs.pop(HOLD)
        self.nodes["gpu0"]["extra"] = ""

    # Answers

    def squeue(self) -> bytes:
        return json.dumps({"jobs": list(self.jobs.values()), "last_update": number(self.now)}).encode()

    def scontrol(self) -> bytes:
        return json.dumps({"nodes": list(self.nodes.values())}).encode()

    def evidence(self) -> Evidence:
        jobs, now = read_jobs(self.squeue())
        every = {plural: list(objects.values()) for plural, objects in self.objects.items()}
        nodes = {node.name: node for obj in every["nodes"] if (node := read_node(obj)) is not None}
        gangs = [read_gang(obj) for obj in every["gangjobs"]]
        return Evidence(
            cluster=CLUSTER,
            slurm_now=now,
            kube_now=self.kube_now,
            jobs=jobs,
            slurm_nodes=read_nodes(self.scontrol()),
            kube_nodes=nodes,
            places=read_places(every["resourceslices"], nodes, read_drivers(every["fleets"])),
            claims=[read_claim(obj) for obj in every["resourceclaims"]],
            pods=[read_pod(obj) for obj in every["pods"]],
            gangs={gang.uid: gang for gang in gangs if gang.namespace != wellknown.MIRROR_NAMESPACE},
            mirrors={gang.uid: gang for gang in gangs if gang.namespace == wellknown.MIRROR_NAMESPACE},
        )
