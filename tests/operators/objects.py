"""Raw objects as the API server would return them, with only what a test is about spelled out."""

from __future__ import annotations

from typing import Any

from bridge import wellknown
from tests.builders import LEVELS

Object = dict[str, Any]

CREATED = "2026-01-02T03:04:05Z"
CREATED_S = 1767323045


def meta(name: str, namespace: str = "", **changes: Any) -> Object:
    found: Object = {"name": name, "uid": f"uid-{name}", "creationTimestamp": CREATED, "resourceVersion": "1"}
    return found | ({"namespace": namespace} if namespace else {}) | changes


def gangjob(
    name: str = "llm",
    *,
    namespace: str = "research",
    replicas: int = 2,
    gres: str = "gpu:h100:8",
    role: Object | None = None,
    status: Object | None = None,
    metadata: Object | None = None,
    **spec: Any,
) -> Object:
    """Return a user's GangJob; ``role`` and ``spec`` are merged over the defaults."""
    template = {"spec": {"containers": [{"name": "train", "image": "busybox"}]}}
    worker: Object = {"name": "worker", "replicas": replicas, "gres": gres, "template": template}
    return {
        "apiVersion": wellknown.API_VERSION,
        "kind": "GangJob",
        "metadata": meta(name, namespace, **(metadata or {})),
        "spec": {"queue": "gpu", "origin": "Kubernetes", "roles": [worker | (role or {})]} | spec,
    } | ({"status": status} if status else {})


def gangqueue(**spec: Any) -> Object:
    slurm = {"partition": "gpu", "account": "physics", "qos": ["normal"], "user": "alice"}
    default: Object = {"fleet": "main", "namespaces": {"names": ["research"]}, "slurm": slurm}
    return {
        "apiVersion": wellknown.API_VERSION,
        "kind": "GangQueue",
        "metadata": meta("gpu"),
        "spec": default | spec,
    }


def fleet(**spec: Any) -> Object:
    sources = [{"nodeLabels": {level: f"topology/{level}" for level in LEVELS}}]
    devices = [{"gres": "gpu:h100", "driver": wellknown.DRIVER, "deviceClass": wellknown.DRIVER}]
    default: Object = {"mode": "Share", "topology": {"levels": list(LEVELS), "sources": sources}, "devices": devices}
    return {
        "apiVersion": wellknown.API_VERSION,
        "kind": "Fleet",
        "metadata": meta("main"),
        "spec": default | spec,
    }


def node(name: str, *, ready: bool = True, **labels: str) -> Object:
    own = {wellknown.SLURM_NODE: name, "topology/spine": "s1", "topology/rack": "r1"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": meta(name, labels=own | labels),
        "spec": {},
        "status": {"conditions": [{"type": "Ready", "status": "True" if ready else "False"}]},
    }


def pod(name: str = "p", *, labels: Object | None = None, spec: Object | None = None, **status: Any) -> Object:
    own = {wellknown.GANG_UID: "uid-llm", wellknown.ATTEMPT: "1", wellknown.RANK: "0"}
    return {"metadata": meta(name, "research", labels=own | (labels or {})), "spec": spec or {}, "status": status}


def terminated(code: int, at: str = CREATED, **more: Any) -> Object:
    return {"state": {"terminated": {"exitCode": code, "finishedAt": at} | more}}


def device(name: str, **attributes: Any) -> Object:
    kinds = {int: "int", str: "string"}
    values = {f"{wellknown.DRIVER}/{key}": {kinds[type(value)]: value} for key, value in attributes.items()}
    return {"name": name, "attributes": values}


def resource_slice(
    name: str,
    *,
    pool: str = "n1",
    count: int = 1,
    generation: int = 1,
    devices: tuple[Object, ...] = (),
    driver: str = wellknown.DRIVER,
    **spec: Any,
) -> Object:
    return {
        "metadata": meta(name),
        "spec": {
            "driver": driver,
            "pool": {"name": pool, "generation": generation, "resourceSliceCount": count},
            "devices": list(devices),
        }
        | (spec or {"nodeName": pool}),
    }
