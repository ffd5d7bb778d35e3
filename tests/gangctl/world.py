"""A small fleet as raw objects: ours made by the operator's builders, others as their drivers write them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from bridge import wellknown
from bridge.lifecycle.names import mirror_claim_name, mirror_name
from bridge.model.kube import PoolDevice
from bridge.model.slurm import SlurmJob
from operators.gangctl.facts import Objects
from operators.kube.claims import allocated, build_mirror_claim, mirror_consumer, pod_consumer
from operators.kube.mirrors import build_mirror_job
from operators.kube.slices import build_slices
from operators.status import mirror_status, timestamp
from tests.builders import NOW, device, job
from tests.operators import objects

Object = dict[str, Any]
START = NOW - 600
END = NOW + 3600

RACKS = {"topology/spine": "s1", "topology/rack": "r1"}


def node(name: str, slurm: str = "", *, ready: bool = True, unschedulable: bool = False, **meta: Any) -> Object:
    """Return a managed node, or with ``slurm`` empty one that is not."""
    made = objects.node(name, ready=ready)
    labels = RACKS | ({wellknown.SLURM_NODE: slurm} if slurm else {})
    made["metadata"] |= {"labels": labels, **meta}
    made["spec"] = {"unschedulable": True} if unschedulable else {}
    return made


def slices(name: str, slurm: str, count: int = 4) -> list[Object]:
    """Return what the operator publishes for a node without a vendor driver."""
    devices = [PoolDevice(name=f"gpu-{index}", index=index, type="h100") for index in range(count)]
    made = build_slices(kube_node=name, slurm_node=slurm, devices=devices, generation=1)
    return [each | {"metadata": each["metadata"] | {"uid": f"uid-{each['metadata']['name']}"}} for each in made]


def gang(name: str = "llm", namespace: str = "research", *, attempt: int = 1, job_id: int = 4711) -> Object:
    hold = {
        "jobId": job_id,
        "state": "RUNNING",
        "nodes": "gpu0",
        "user": "alice",
        "account": "physics",
        "partition": "gpu",
        "endTime": timestamp(END),
    }
    status = {"phase": "Running", "attempt": attempt, "startTime": timestamp(START), "hold": hold}
    return objects.gangjob(name, namespace=namespace, status=status)


def gang_claim(
    rank: int, on: str, indices: Iterable[int], *, owner: str = "llm", namespace: str = "research", attempt: int = 1
) -> Object:
    """Return the allocated claim of a gang's pod, whose uid is ``uid-pod-RANK``."""
    labels = {
        wellknown.MANAGED_BY: wellknown.FIELD_MANAGER,
        wellknown.GANG: owner,
        wellknown.GANG_UID: f"uid-{owner}",
        wellknown.ATTEMPT: str(attempt),
        wellknown.RANK: str(rank),
    }
    held = [device(on, index) for index in indices]
    bare = build_mirror_claim(f"{owner}-{rank}-gpu", job_id=1, device_class=wellknown.DRIVER, count=len(held))
    bare["metadata"] |= {"namespace": namespace, "labels": labels, "uid": f"uid-{owner}-{rank}-gpu"}
    consumer = pod_consumer(f"{owner}-{rank}", f"uid-pod-{rank}")
    return allocated(bare, devices=held, node=on, consumer=consumer, now=START + 5)


def gang_pod(rank: int, *, namespace: str = "research", deleting: bool = False) -> Object:
    deletion = {"deletionTimestamp": objects.CREATED} if deleting else {}
    labels = {wellknown.MANAGED_BY: wellknown.FIELD_MANAGER}
    return {"metadata": objects.meta(f"llm-{rank}", namespace, uid=f"uid-pod-{rank}", labels=labels, **deletion)}


def sbatch_job(job_id: int = 20, on: str = "gpu0", indices: Iterable[int] = (3,)) -> SlurmJob:
    return job(job_id, name="bert", on={on: list(indices)}, start_time=START, end_time=END)


def mirror(of: SlurmJob) -> Object:
    made = build_mirror_job(of, "digest")
    status = {key: value for key, value in mirror_status(of).items() if value is not None}
    return made | {"metadata": made["metadata"] | {"uid": f"uid-{mirror_name(of)}"}, "status": status}


def mirror_claim(of: SlurmJob, kube: str, slurm: str) -> Object:
    held = [device(kube, index) for gres in of.gres[slurm] for index in gres.indices or ()]
    name = mirror_claim_name(of, slurm, 0)
    bare = build_mirror_claim(name, job_id=of.job_id, device_class=wellknown.DRIVER, count=len(held))
    bare["metadata"]["uid"] = f"uid-{name}"
    consumer = mirror_consumer(mirror_name(of), f"uid-{mirror_name(of)}")
    return allocated(bare, devices=held, node=kube, consumer=consumer, now=START + 9)


def fleet(*closed: Object, reachable: bool = True) -> Object:
    condition = {"type": "SlurmReachable", "status": "True" if reachable else "False"}
    status = {"closed": list(closed), "conditions": [condition], "lastSyncTime": "2026-01-02T03:04:05Z"}
    return objects.fleet() | {"status": status}


VENDOR = "gpu.nvidia.com"


def vendor_slice(on: str) -> Object:
    """Return a slice as k8s-dra-driver-gpu writes it: names by minor, no GRES index, one GPU whole, one in parts."""
    whole = {
        "name": "gpu-0",
        "attributes": {
            "type": {"string": "gpu"},
            "uuid": {"string": f"GPU-00000000-{on}"},
            "productName": {"string": "NVIDIA H100 80GB HBM3"},
            "driverVersion": {"version": "580.65.6"},
            "resource.kubernetes.io/pciBusID": {"string": "0000:3B:00.0"},
        },
        "capacity": {"memory": {"value": "81559Mi"}},
    }
    parts = [
        {
            "name": f"gpu-1-mig-1g10gb-19-{place}",
            "attributes": {
                "type": {"string": "mig"},
                "uuid": {"string": f"MIG-{place}-{on}"},
                "parentUUID": {"string": f"GPU-11111111-{on}"},
                "profile": {"string": "1g.10gb"},
            },
        }
        for place in (0, 1)
    ]
    spec = {
        "driver": VENDOR,
        "pool": {"name": on, "generation": 3, "resourceSliceCount": 1},
        "nodeName": on,
        "devices": [whole, *parts],
    }
    return {"metadata": objects.meta(f"{on}-{VENDOR}-abcde"), "spec": spec}


def vendor_claim(on: str, name: str, pod: str = "notebook") -> Object:
    """Return a claim that kube-scheduler allocated from a template, as users have them beside gangs."""
    result = {"request": "gpu", "driver": VENDOR, "pool": on, "device": name}
    allocation = {"devices": {"results": [result]}, "allocationTimestamp": timestamp(START)}
    return {
        "metadata": objects.meta(f"{pod}-gpu-x7k2p", "bio"),
        "spec": {},
        "status": {
            "allocation": allocation,
            "reservedFor": [{"resource": "pods", "name": pod, "uid": f"uid-{pod}"}],
        },
    }


def everything(**changes: Any) -> Objects:
    """Return two managed nodes of 4 GPUs: a gang of two pods and an sbatch job on the first, nobody on the second."""
    seen = sbatch_job()
    values: dict[str, Any] = {
        "nodes": [node("k8s-gpu-0", "gpu0"), node("k8s-gpu-1", "gpu1")],
        "slices": [*slices("k8s-gpu-0", "gpu0"), *slices("k8s-gpu-1", "gpu1")],
        "gangjobs": [gang(), mirror(seen)],
        "claims": [
            gang_claim(0, "k8s-gpu-0", [0]),
            gang_claim(1, "k8s-gpu-0", [1]),
            mirror_claim(seen, "k8s-gpu-0", "gpu0"),
        ],
        "pods": [gang_pod(0), gang_pod(1)],
        "fleets": [fleet()],
    }
    return Objects(**values | changes)
