"""Pods of a gang and the Service that gives them host names. Pure.

A member's pod is the role's template plus what the hold decided: one node, one rank, one claim, and a gate until the
claim is allocated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bridge import wellknown
from bridge.errors import SpecError
from bridge.lifecycle.actions import Member, Roster
from bridge.lifecycle.names import claim_name, pod_name, service_name
from bridge.model.gang import Gang, GangSpec
from operators.kube.environment import MASTER_PORT, member_environment, with_environment
from operators.kube.labels import gang_labels, owner_reference

Object = dict[str, Any]

CLAIM = "gpus"
"""Name of the gang's claim inside a pod (``spec.resourceClaims[].name``)."""

_TEMPLATE = "spec.roles[0].template.spec"
_OURS = ("nodeName", "schedulingGates", "hostname", "subdomain")
_TOLERATION = {"key": wellknown.TAINT, "operator": "Exists", "effect": "NoSchedule"}


def build_service(gang: Gang) -> Object:
    """Return the headless Service of the gang, for all of its attempts."""
    labels = gang_labels(gang)
    del labels[wellknown.ATTEMPT]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": service_name(gang),
            "namespace": gang.namespace,
            "labels": labels,
            "ownerReferences": [owner_reference(gang)],
        },
        "spec": {
            "clusterIP": "None",
            # Ranks look each other up before any of them is ready.
            "publishNotReadyAddresses": True,
            "selector": {wellknown.GANG_UID: gang.uid},
            "ports": [{"name": "master", "port": MASTER_PORT, "protocol": "TCP"}],
        },
    }


def build_pod(gang: Gang, roster: Roster, member: Member, template: Mapping[str, Any]) -> Object:
    """Return the pod of ``member``; ``SpecError`` when the template claims what is the gang's to decide."""
    pod = _base(gang, template, pod_name(gang, member.rank))
    # Whoever deletes the pod, by force too: the object stays until its end is proven and its devices are free.
    pod["metadata"]["finalizers"] = [wellknown.FINALIZER]
    pod["metadata"]["labels"] |= {
        wellknown.RANK: str(member.rank),
        wellknown.JOB_ID: str(roster.job_id),
        wellknown.SLURM_NODE: member.slurm_node,
    }
    spec = pod["spec"]
    values = member_environment(gang, roster, member)
    for kind in ("initContainers", "containers"):
        if spec.get(kind):
            spec[kind] = [with_environment(container, values) for container in spec[kind]]
    spec["containers"] = [_with_claim(container) for container in spec["containers"]]
    own_claims = list(spec.get("resourceClaims") or [])
    spec["resourceClaims"] = [*own_claims, {"name": CLAIM, "resourceClaimName": claim_name(gang, member.rank)}]
    spec["affinity"] = _pinned(spec.get("affinity") or {}, member.kube_node)
    return pod


def build_trial_pod(gang: Gang, template: Mapping[str, Any]) -> Object:
    """Return a pod for a server-side dry run: whatever refuses it would refuse every member (schema, quota, policy)."""
    return _base(gang, template, pod_name(gang, 0))


def ungate_patch(uid: str) -> list[Object]:
    """Return the JSON patch that hands pod ``uid`` to kube-scheduler; ``Invalid`` for another pod or a second time."""
    gate = "/spec/schedulingGates/0"
    return [
        {"op": "test", "path": "/metadata/uid", "value": uid},
        {"op": "test", "path": f"{gate}/name", "value": wellknown.GATE},
        {"op": "remove", "path": gate},
    ]


def _base(gang: Gang, template: Mapping[str, Any], name: str) -> Object:
    meta = template.get("metadata") or {}
    spec = dict(template.get("spec") or {})
    _check(spec)
    role = {wellknown.ROLE: gang.spec.role.name} if isinstance(gang.spec, GangSpec) else {}
    spec |= {
        "restartPolicy": "Never",
        "schedulingGates": [{"name": wellknown.GATE}],
        "hostname": name,
        "subdomain": service_name(gang),
        "tolerations": _tolerating(spec.get("tolerations") or []),
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": gang.namespace,
            "labels": {**(meta.get("labels") or {}), **gang_labels(gang), **role},
            "annotations": dict(meta.get("annotations") or {}),
            "ownerReferences": [owner_reference(gang)],
        },
        "spec": spec,
    }


def _check(spec: Mapping[str, Any]) -> None:
    for field in _OURS:
        if spec.get(field):
            raise SpecError(f"{_TEMPLATE}.{field}", "is set by gangbridge")
    policy = spec.get("restartPolicy", "Never")
    if policy != "Never":
        problem = f"must be Never or absent, is {policy!r}; failurePolicy.maxRestarts starts the whole gang again"
        raise SpecError(f"{_TEMPLATE}.restartPolicy", problem)
    if not spec.get("containers"):
        raise SpecError(f"{_TEMPLATE}.containers", "needs at least 1 container, has 0")
    for index, claim in enumerate(spec.get("resourceClaims") or []):
        if claim.get("name") == CLAIM:
            raise SpecError(f"{_TEMPLATE}.resourceClaims[{index}].name", f"{CLAIM!r} is the gang's own claim")


def _with_claim(container: Mapping[str, Any]) -> Object:
    """Return the container with the gang's claim, unless it lists claims of its own: ``claims: []`` asks for none."""
    resources = container.get("resources") or {}
    if "claims" in resources:
        return dict(container)
    return {**container, "resources": {**resources, "claims": [{"name": CLAIM}]}}


def _tolerating(own: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return list(own) if _TOLERATION in own else [*own, _TOLERATION]


def _pinned(own: Mapping[str, Any], node: str) -> Object:
    """Return the affinity that allows ``node`` alone, on top of what the template requires.

    By name and as a required term, kube-scheduler never looks at other nodes; otherwise its PostFilter would deallocate
    the claim of a pod that it finds unschedulable.
    """
    node_affinity = own.get("nodeAffinity") or {}
    required = node_affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    only = {"key": "metadata.name", "operator": "In", "values": [node]}
    # Terms are alternatives: each of them has to name the node.
    terms = [
        {**term, "matchFields": [*(term.get("matchFields") or []), only]}
        for term in required.get("nodeSelectorTerms") or [{}]
    ]
    pinned = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {**own, "nodeAffinity": {**node_affinity, **pinned}}
