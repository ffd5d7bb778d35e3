"""Namespaces and rights: the operator, the tenants `research` (alice) and `bio` (bob), roles of KWOK and DNS."""

from __future__ import annotations

from typing import Any

from e2e.lab.identities import OPERATOR_NAMESPACE
from e2e.lab.kube_api import KubeApi

TENANTS = {"research": "alice", "bio": "bob"}
RBAC = "/apis/rbac.authorization.k8s.io/v1"
GROUP = "rbac.authorization.k8s.io"

KWOK_RULES = (
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch", "patch"]},
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch", "patch", "delete"]},
    {"apiGroups": [""], "resources": ["nodes/status", "pods/status"], "verbs": ["patch", "update"]},
    {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"],
     "verbs": ["get", "list", "watch", "create", "patch", "update"]},
    {"apiGroups": ["", "events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch", "update"]},
)  # fmt: skip
DNS_RULES = ({"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list"]},)


def apply(api: KubeApi) -> None:
    for namespace in (OPERATOR_NAMESPACE, *TENANTS):
        manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        api.apply(f"/api/v1/namespaces/{namespace}", manifest)
    for namespace, user in TENANTS.items():
        path = f"{RBAC}/namespaces/{namespace}/rolebindings/tenant"
        api.apply(path, _binding("RoleBinding", "tenant", "edit", user, namespace))
    for user, rules in {"kwok": KWOK_RULES, "dns": DNS_RULES}.items():
        name = f"lab-{user}"
        role = {"apiVersion": f"{GROUP}/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": list(rules)}
        api.apply(f"{RBAC}/clusterroles/{name}", role)
        api.apply(f"{RBAC}/clusterrolebindings/{name}", _binding("ClusterRoleBinding", name, name, user))


def _binding(kind: str, name: str, role: str, user: str, namespace: str | None = None) -> dict[str, Any]:
    metadata = {"name": name} if namespace is None else {"name": name, "namespace": namespace}
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": kind,
        "metadata": metadata,
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": GROUP, "kind": "User", "name": user}],
    }
