"""Small values for tests of the deciding half: everything has a default, a test names only what it is about."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from bridge.accounting.gres import parse_gres_request
from bridge.errors import SpecError
from bridge.lifecycle.names import claim_name, mirror_claim_name, mirror_name, pod_name
from bridge.model.fleet import DeviceMapping, FleetSpec, LabelSource, Mode, QueueSpec
from bridge.model.gang import Gang, GangSpec, GangStatus, Role
from bridge.model.gres import Gres
from bridge.model.hold import Marker
from bridge.model.kube import ClaimView, Device, KubeNode, MirrorView, PodPhase, PodView, Pool, PoolDevice
from bridge.model.slurm import JobState, SlurmJob, SlurmNode, SlurmView
from bridge.model.snapshot import Snapshot
from bridge.wellknown import DRIVER, MIRROR_NAMESPACE

NOW = 1_000_000
LEVELS = ("spine", "rack")
VENDOR = "gpu.vendor.example"


def fleet(*, mode: Mode = Mode.SHARE, levels: Sequence[str] = LEVELS, driver: str = DRIVER) -> FleetSpec:
    return FleetSpec(
        name="main",
        mode=mode,
        levels=tuple(levels),
        sources=(LabelSource(labels={level: f"topology/{level}" for level in levels}),),
        devices=(DeviceMapping(gres="gpu:h100", driver=driver, device_class=driver),),
    )


def queue(**changes: Any) -> QueueSpec:
    values: dict[str, Any] = {
        "name": "gpu",
        "fleet": "main",
        "namespaces": frozenset({"research"}),
        "partition": "gpu",
        "account": "physics",
        "qos": ("normal",),
        "user": "alice",
    }
    return QueueSpec(**values | changes)


def gpus(indices: Iterable[int], type_: str = "h100") -> tuple[Gres, ...]:
    """Return what an allocation shows on one node: these tracked indices."""
    listed = tuple(indices)
    return (Gres(name="gpu", type=type_, count=len(listed), indices=listed),)


def node(name: str, *, count: int = 8, states: Iterable[str] = ("IDLE",), **changes: Any) -> SlurmNode:
    values: dict[str, Any] = {
        "name": name,
        "states": frozenset(states),
        "hostname": name,
        "cpus": 64,
        "memory_mib": 512_000,
        "gres": gpus(range(count)),
        "partitions": frozenset({"gpu"}),
    }
    return SlurmNode(**values | changes)


def kube_node(name: str, *, domains: Sequence[str] = ("s1", "r1"), **changes: Any) -> KubeNode:
    labels = {f"topology/{level}": domain for level, domain in zip(LEVELS, domains, strict=True)}
    values: dict[str, Any] = {"name": name, "slurm_node": name, "ready": True, "tainted": True, "labels": labels}
    return KubeNode(**values | changes)


def pool(node_name: str, *, count: int = 8, driver: str = DRIVER, generation: int = 1) -> Pool:
    devices = tuple(PoolDevice(name=f"gpu-{index}", index=index, type="h100") for index in range(count))
    return Pool(driver=driver, name=node_name, node=node_name, generation=generation, devices=devices)


def device(node_name: str, index: int) -> Device:
    return Device(driver=DRIVER, pool=node_name, device=f"gpu-{index}")


def devices(node_name: str, indices: Iterable[int]) -> tuple[Device, ...]:
    return tuple(device(node_name, index) for index in indices)


def gang(
    name: str = "llm",
    *,
    replicas: int = 2,
    gres: str = "gpu:h100:8",
    pods_per_node: int | None = None,
    namespace: str = "research",
    status: GangStatus | None = None,
    problem: SpecError | None = None,
    has_finalizer: bool = True,
    deleting: bool = False,
    created: int = NOW - 100,
    **spec: Any,
) -> Gang:
    """Return a gang whose uid follows from its name; ``spec`` goes to ``GangSpec``."""
    role = Role(
        name="worker",
        replicas=replicas,
        pods_per_node=pods_per_node,
        gres=parse_gres_request(gres),
        milli_cpu=spec.pop("milli_cpu", 0),
        memory_mib=spec.pop("memory_mib", 0),
    )
    return Gang(
        namespace=namespace,
        name=name,
        uid=f"uid-{name}",
        created=created,
        deleting=deleting,
        has_finalizer=has_finalizer,
        spec=problem or GangSpec(queue=spec.pop("queue", "gpu"), role=role, **spec),
        status=status or GangStatus(),
    )


def job(job_id: int = 1, state: JobState = JobState.RUNNING, **changes: Any) -> SlurmJob:
    """Return a job of bob's; ``on`` gives its GPU indices by node."""
    on: Mapping[str, Iterable[int]] = changes.pop("on", {})
    values: dict[str, Any] = {
        "job_id": job_id,
        "state": state,
        "name": "sbatch",
        "user": "bob",
        "account": "bio",
        "partition": "gpu",
        "nodes": tuple(on),
        "gres": {name: gpus(indices) for name, indices in on.items()},
        "submit_time": NOW - 50,
        "start_time": NOW - 40 if on else None,
        "end_time": NOW + 3600 if on else None,
        "time_limit_min": 60,
    }
    return SlurmJob(**values | changes)


def hold(owner: Gang, job_id: int = 10, state: JobState = JobState.RUNNING, **changes: Any) -> SlurmJob:
    """Return a hold of ``owner``'s current attempt."""
    marker = Marker(key=owner.key, namespace=owner.namespace, name=owner.name)
    on = changes.get("on", {})
    values: dict[str, Any] = {"user": "alice", "account": "physics", "required_nodes": tuple(on), "marker": marker}
    return job(job_id, state, **values | changes)


def pod(owner: Gang, rank: int = 0, *, on: str = "n1", phase: PodPhase = PodPhase.PENDING, **changes: Any) -> PodView:
    name = pod_name(owner, rank)
    values: dict[str, Any] = {
        "namespace": owner.namespace,
        "name": name,
        "uid": f"uid-{name}",
        "gang_uid": owner.uid,
        "attempt": owner.status.attempt,
        "rank": rank,
        "node": on,
        "slurm_node": changes.get("node", on),
        "phase": phase,
        "gated": False,
        "stopped": phase in {PodPhase.SUCCEEDED, PodPhase.FAILED},
        "held": True,
    }
    return PodView(**values | changes)


def claim(owner: Gang, rank: int = 0, **changes: Any) -> ClaimView:
    """Return a claim of ``owner``; ``on`` is (node, indices) of its allocation, reserved for the pod of its rank."""
    name = claim_name(owner, rank)
    values: dict[str, Any] = {
        "namespace": owner.namespace,
        "name": name,
        "uid": f"uid-{name}",
        "gang_uid": owner.uid,
        "attempt": owner.status.attempt,
        "rank": rank,
    }
    if "on" in changes:
        values["node"] = values["slurm_node"] = changes["on"][0]
        values["devices"] = devices(*changes.pop("on"))
        values["reserved_for"] = (f"uid-{pod_name(owner, rank)}",)
    return ClaimView(**values | changes)


def foreign_claim(name: str, held: Iterable[Device]) -> ClaimView:
    """Return somebody else's allocated claim."""
    return ClaimView(
        namespace="other", name=name, uid=f"uid-{name}", devices=tuple(held), reserved_for=("uid-somebody",)
    )


def mirror(of: SlurmJob, **changes: Any) -> MirrorView:
    values: dict[str, Any] = {
        "namespace": MIRROR_NAMESPACE,
        "name": mirror_name(of),
        "uid": f"uid-{mirror_name(of)}",
        "job_id": of.job_id,
        "submit_time": of.submit_time or 0,
    }
    return MirrorView(**values | changes)


def mirror_claim(of: SlurmJob, node_name: str, indices: Iterable[int] = (), ordinal: int = 0) -> ClaimView:
    name = mirror_claim_name(of, node_name, ordinal)
    held = devices(node_name, indices)
    reserved = (f"uid-{mirror_name(of)}",) if held else ()
    return ClaimView(
        namespace=MIRROR_NAMESPACE, name=name, uid=f"uid-{name}", devices=held, reserved_for=reserved, job_id=of.job_id
    )


def slurm(nodes: Iterable[SlurmNode], jobs: Iterable[SlurmJob] = ()) -> SlurmView:
    return SlurmView(
        jobs={each.job_id: each for each in jobs}, nodes={each.name: each for each in nodes}, taken_at=float(NOW)
    )


def snapshot(
    machines: Sequence[SlurmNode] = (), /, *, jobs: Iterable[SlurmJob] = (), silent: bool = False, **changes: Any
) -> Snapshot:
    """Return a snapshot of a fleet of ``machines``, each with its Kubernetes node and pool; ``silent`` is slurmctld."""
    values: dict[str, Any] = {
        "now": NOW,
        "fleet": fleet(),
        "queues": {"gpu": queue()},
        "namespaces": {"research": {}},
        "nodes": tuple(kube_node(each.name) for each in machines),
        "pools": tuple(pool(each.name, count=sum(gres.count for gres in each.gres)) for each in machines),
        "slurm": None if silent else slurm(machines, jobs),
    }
    return Snapshot(**values | changes)


def with_status(owner: Gang, **changes: Any) -> Gang:
    return replace(owner, status=replace(owner.status, **changes))
