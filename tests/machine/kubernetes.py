"""Everything of Kubernetes around the API server, one step of one component at a time."""

from __future__ import annotations

from typing import Any

from bridge import wellknown
from tests.kube import actors
from tests.kube.fakeapi import FakeApi
from tests.kube.fakestore import Key
from tests.machine.truth import TERMINAL, Kubelet, bound_to, end_grace

Object = dict[str, Any]
Condition = dict[str, str]

BY_GC: Condition = {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC"}
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"


class Cluster:
    """The components' steps; each returns whether it changed anything."""

    def __init__(self, api: FakeApi, nodes: tuple[str, ...]) -> None:
        self.api = api
        self.kubelets = {node: Kubelet(node, api) for node in nodes}

    def settle(self) -> None:
        """Let every component do all it has to do."""
        for _ in range(100):
            if not sum(self.step(number) for number in range(self.steps)):
                return
        raise AssertionError("Kubernetes never comes to rest")

    @property
    def steps(self) -> int:
        return 6 + 2 * len(self.kubelets)

    def step(self, number: int) -> bool:
        """Run one component: the controllers first, then each kubelet's look and each kubelet's start."""
        controllers = (
            self.schedule,
            self.control_claims,
            self.collect_garbage,
            self.watch_nodes,
            self.evict,
            self.collect_pods,
        )
        if number < len(controllers):
            return controllers[number]()
        kubelets = list(self.kubelets.values())
        number -= len(controllers)
        if number < len(kubelets):
            return kubelets[number].sync()
        return self.start(kubelets[number - len(kubelets)])

    def schedule(self) -> bool:
        """kube-scheduler: bind what has no gate, one node to go to and its claims allocated for it."""
        bound = False
        for pod in self.api.of("pods"):
            spec = pod["spec"]
            if (
                not spec.get("affinity")
                or spec.get("schedulingGates")
                or bound_to(pod)
                or "deletionTimestamp" in pod["metadata"]
            ):
                continue
            node = self.api.objects.get(("nodes", "", actors._pinned_node(pod)))
            claims = spec.get("resourceClaims") or []
            if (
                node is not None
                and is_ready(node)
                and all(actors._is_ready_for(self.api, pod, each) for each in claims)
            ):
                actors._force(self.api, pod, {"spec": {**spec, "nodeName": node["metadata"]["name"]}})
                bound = True
        return bound

    def control_claims(self) -> bool:
        """The resource claim controller."""
        return bool(actors.claim_controller(self.api))

    def collect_garbage(self) -> bool:
        """Delete what is owned by objects that are gone."""
        uids = {obj["metadata"]["uid"] for obj in self.api.objects.values()}
        changed = False
        for plural in ("pods", "services"):
            for obj in self.api.of(plural):
                owners = obj["metadata"].get("ownerReferences") or []
                if owners and not any(owner["uid"] in uids for owner in owners):
                    changed |= delete(self.api, plural, obj)
        return changed

    def watch_nodes(self) -> bool:
        """The node lifecycle controller: a node is as ready as its kubelet is heard."""
        changed = False
        for node in self.api.of("nodes"):
            name = node["metadata"]["name"]
            is_well = self.kubelets[name].is_well
            if is_ready(node) != is_well:
                status = {"conditions": [{"type": "Ready", "status": "True" if is_well else "Unknown"}]}
                self.api.store.modify(
                    ("nodes", "", name), lambda old, status=status: {**old, "status": status}, "status"
                )
                changed = True
        return changed

    def evict(self) -> bool:
        """The taint manager: delete the pods of nodes that are not ready."""
        changed = False
        for pod in self.api.of("pods"):
            node = self.api.objects.get(("nodes", "", bound_to(pod)))
            if node is not None and not is_ready(node) and "deletionTimestamp" not in pod["metadata"]:
                changed |= delete(self.api, "pods", pod)
        return changed

    def collect_pods(self) -> bool:
        """Pod garbage collection: pods of nodes that vanished, or that somebody declared out of service."""
        changed = False
        for pod in self.api.of("pods"):
            if not bound_to(pod):
                continue
            node = self.api.objects.get(("nodes", "", bound_to(pod)))
            is_out = node is not None and not is_ready(node) and OUT_OF_SERVICE in taints(node)
            if node is None or (is_out and "deletionTimestamp" in pod["metadata"]):
                changed |= self._collect(pod)
        return changed

    def start(self, kubelet: Kubelet) -> bool:
        """Let a kubelet start what it can."""
        return bool(sum(kubelet.start(uid) is not None for uid in sorted(kubelet.known)))

    def _collect(self, pod: Object) -> bool:
        changed = False
        meta = pod["metadata"]
        key = ("pods", meta["namespace"], meta["name"])
        if pod["status"]["phase"] not in TERMINAL:
            status = {**pod["status"], "phase": "Failed", "conditions": [BY_GC]}
            self.api.store.modify(key, lambda old: {**old, "status": status}, "status")
            changed = True
        return end_grace(self.api, self.api.objects[key]) or changed


def delete(api: FakeApi, plural: str, obj: Object) -> bool:
    """Delete an object as anybody would; return whether that changed anything."""
    meta = obj["metadata"]
    key: Key = (plural, meta.get("namespace", ""), meta["name"])
    before = api.store.version
    api.store.delete(key, {})
    return api.store.version != before


def is_ready(node: Object) -> bool:
    conditions = (node.get("status") or {}).get("conditions") or ()
    return any(item["type"] == "Ready" and item["status"] == "True" for item in conditions)


def taints(node: Object) -> set[str]:
    return {taint["key"] for taint in (node.get("spec") or {}).get("taints") or ()}


def is_protected(node: Object) -> bool:
    """Return whether pods that gangbridge does not place stay away."""
    return wellknown.TAINT in taints(node)
