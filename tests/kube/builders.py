"""Values for the tests: a gang, its roster, its raw objects."""

from __future__ import annotations

from typing import Any

from bridge.lifecycle.actions import Member, Roster
from bridge.model.gang import Gang, GangSpec, GangStatus, Role
from bridge.model.gres import GresRequest
from bridge.model.kube import Device

UID = "4c1d2a3b-0000-4000-8000-000000000001"
DRIVER = "gpu.gangbridge.dev"


def gang(name: str = "llm", *, namespace: str = "default", uid: str = UID, attempt: int = 1, replicas: int = 4) -> Gang:
    role = Role(name="worker", replicas=replicas, gres=GresRequest(name="gpu", type="h100", count=2))
    spec = GangSpec(queue="gpu", role=role)
    return Gang(namespace=namespace, name=name, uid=uid, spec=spec, status=GangStatus(attempt=attempt))


def device(index: int, node: str = "k8s-gpu-0") -> Device:
    return Device(driver=DRIVER, pool=node, device=f"gpu-{index}")


def member(rank: int = 0, *, per_node: int = 2, gpus: int = 2) -> Member:
    node_rank, local_rank = divmod(rank, per_node)
    node = f"k8s-gpu-{node_rank}"
    return Member(
        rank=rank,
        kube_node=node,
        slurm_node=f"gpu{node_rank}",
        node_rank=node_rank,
        local_rank=local_rank,
        devices=tuple(device(local_rank * gpus + index, node) for index in range(gpus)),
        device_class=DRIVER,
    )


def roster(pods: int = 4, *, per_node: int = 2, job_id: int = 4711) -> Roster:
    nodes = tuple(f"gpu{index}" for index in range(pods // per_node))
    members = tuple(member(rank, per_node=per_node) for rank in range(pods))
    return Roster(job_id=job_id, nodes=nodes, pods_per_node=per_node, members=members)


def template(**spec: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "train", "image": "localhost/train:1"}], **spec}}


def gangjob(name: str = "llm", namespace: str = "default", **spec: Any) -> dict[str, Any]:
    role = {"name": "worker", "replicas": 4, "gres": "gpu:h100:2", "template": template()}
    return {
        "apiVersion": "gangbridge.dev/v1alpha1",
        "kind": "GangJob",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"queue": "gpu", "timeLimit": "4h", "roles": [role], **spec},
    }


def pod(name: str = "p", namespace: str = "default", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": namespace}, **template(**spec)}
