"""Both servers, the nodes, and the operators between them: everything a rule may touch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from bridge import wellknown
from bridge.model.hold import GangKey, Marker
from bridge.model.slurm import JobState
from bridge.slurm.fake_records import FakeNode, h100
from operators.kube.claims import node_selector
from operators.kube.errors import Conflict, KubeError, TooManyRequests, unavailable
from operators.kube.resources import Resource
from tests.kube import fakestore
from tests.kube.fakeapi import FakeApi
from tests.kube.fakepatch import merge
from tests.kube.fakerules import Refused
from tests.kube.fakestore import Key, Store
from tests.machine.clockwork import Clock
from tests.machine.invariants import Auditor
from tests.machine.kubernetes import BY_GC, OUT_OF_SERVICE, Cluster, is_protected, taints
from tests.machine.network import Call
from tests.machine.process import Hands, Process
from tests.machine.slurmctld import Slurmctld
from tests.machine.truth import TERMINAL, Container, Kubelet, bound_to, consumers_of, end_grace, labels_of, slots_of
from tests.operators import objects
from tests.operators.stand import bare

Object = dict[str, Any]

START = 1_900_000_000.0
NODES = ("n1", "n2")
EXTERNAL = ("x1", "x2")
GPUS = 2
NAMESPACE = "research"
OWN_REASON = "gangbridge: "
NOTE = "rack door is open"
"""What an admin writes into a node's Extra."""
LIVELOCK = 3000
"""Calls of one process after which it should long have come to rest."""


class ApiStore(Store):
    """The fake's store; every change is shown to ``watcher``."""

    def __init__(self) -> None:
        super().__init__()
        self.watcher: Any = None
        self.closing: set[str] = set()

    def create(self, resource: Resource, obj: Object, *, dry_run: bool = False) -> Object:
        if obj["metadata"].get("namespace") in self.closing:
            raise Refused(403, "Forbidden", "because it is being terminated")
        if resource.plural == "events":
            return {**obj, "metadata": {**obj["metadata"], "uid": "event", "resourceVersion": "1"}}
        return super().create(resource, obj, dry_run=dry_run)

    def _record(self, event: str, plural: str, obj: Object, old: Object | None) -> None:
        super()._record(event, plural, obj, old)
        if self.watcher is not None:
            self.watcher(self.history[-1])


class World:
    """``writer`` is the process whose request is being carried out, empty for anybody else."""

    def __init__(self) -> None:
        self.hands = Hands()
        self.clock = self.hands.clock = Clock(START)
        self.api = FakeApi()
        self.store = self.api.store = ApiStore()
        slurm_nodes = [FakeNode(name=name, gres=h100(GPUS)) for name in NODES]
        slurm_nodes += [
            FakeNode(name=name, gres=h100(GPUS), external=True, partitions=frozenset({"ext"})) for name in EXTERNAL
        ]
        self.slurm = Slurmctld(slurm_nodes, now=START)
        self.cluster = Cluster(self.api, (*NODES, *EXTERNAL))
        self.processes: list[Process] = []
        self.adrift: list[Call] = []
        self.writer = ""
        self.counts: Counter[str] = Counter()
        self.exits: dict[tuple[str, int], list[str]] = {}
        """How containers ended by themselves, by gang and attempt."""
        self.fenced_at_last: list[str] = []
        self.auditor: Auditor
        self._names = 0

    @contextmanager
    def own_clock(self) -> Iterator[None]:
        """Let the API server stamp objects with the world's time."""
        before = fakestore._now
        fakestore._now = lambda: datetime.fromtimestamp(int(self.clock.now), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        try:
            yield
        finally:
            fakestore._now = before

    def furnish(self) -> None:
        """Put in place what admins do."""
        for namespace in (NAMESPACE, "gangbridge-system", wellknown.MIRROR_NAMESPACE, "kube-system"):
            self.api.put("namespaces", {"metadata": {"name": namespace}})
        for name in (*NODES, *EXTERNAL):
            self.api.put("nodes", bare(objects.node(name)), status=True)
        self.api.put("fleets", bare(objects.fleet()))
        self.api.put("gangqueues", bare(objects.gangqueue()))
        slurm = {"partition": "ext", "account": "physics", "qos": ["normal"], "user": "alice"}
        self.api.put("gangqueues", {**bare(objects.gangqueue(slurm=slurm)), "metadata": {"name": "ext"}})

    # Operators

    def start_process(self) -> Process:
        """Start an operator without memory."""
        self._names += 1
        process = Process(
            f"operator-{self._names}", hands=self.hands, store=self.store, slurm=self.slurm, who=self._write_as
        )
        self.processes.append(process)
        return process

    def kill(self, process: Process) -> None:
        """SIGKILL: its memory is gone, what it has sent is under way."""
        if process in self.processes:
            self.processes.remove(process)
        process.die()
        self.gather_adrift(process)

    def gather_adrift(self, process: Process) -> None:
        """Take over the requests that the process no longer waits for."""
        self.adrift += process.network.adrift
        process.network.adrift.clear()

    def land(self, call: Call) -> None:
        """Let a request arrive that nobody hopes for."""
        self.auditor.is_late = True
        call.commit()
        self.auditor.is_late = False

    def afloat(self) -> list[Call]:
        """Return the requests that may arrive although nobody who is awake waits for them."""
        frozen = [call for process in self.processes if process.is_frozen for call in process.network.pending]
        return [*self.adrift, *(call for call in frozen if call.is_write and not call.is_committed)]

    def flow(self, process: Process, most: int = LIVELOCK) -> int:
        """Let the process work undisturbed for up to ``most`` calls, or until it waits; return how many there were."""
        for count in range(most):
            if not self.advance_to_call(process):
                return count
            process.network.answer(process.network.pending[0])
        self.advance_to_call(process)
        return most

    def advance_to_call(self, process: Process) -> bool:
        """Run the process until it has a call pending; return whether it has."""
        for _ in range(100):
            process.run()
            news = process.deliver()
            process.run()
            self.gather_adrift(process)
            if process.is_deposed:
                self.kill(process)
                return False
            if process.network.pending:
                return True
            due = process.settles_at
            if not news and (due is None or due > self.clock.passed + 0.05):
                return False
            if due is not None and not news:
                self.pass_time(max(0.0, due - self.clock.passed))
        raise AssertionError(f"{process.name} turns in a circle without a call")

    def pass_time(self, seconds: float) -> None:
        """Let time go by on every clock. Callers that have waited too long give up."""
        self.clock.passed += seconds
        self.slurm.advance(seconds)
        for process in list(self.processes):
            for call in list(process.network.pending):
                if self.clock.passed > call.late_at and not process.is_frozen:
                    process.network.delay(call)
            self.gather_adrift(process)

    # Faults

    def error(self, kind: int) -> KubeError:
        """Return an answer of an API server that has trouble."""
        conflict = Conflict(409, "Conflict", "the object has been modified")
        return (conflict, TooManyRequests(429, "TooManyRequests", "slow down"), unavailable("500"))[kind % 3]

    def started(self) -> int:
        """Return how many containers were ever started."""
        return sum(kubelet.starts for kubelet in self.cluster.kubelets.values())

    # Users

    def write_gang(self, name: str, *, replicas: int, gpus: int, queue: str, restarts: int, minutes: int) -> None:
        """Create a GangJob."""
        job = bare(objects.gangjob(name, replicas=replicas, gres=f"gpu:h100:{gpus}", queue=queue))
        job["spec"] |= {"timeLimit": f"{minutes}m", "failurePolicy": {"maxRestarts": restarts}}
        self.api.put("gangjobs", job)

    def release_brake(self) -> None:
        """Let an admin say that what looks lost is lost indeed."""
        word = datetime.fromtimestamp(int(self.clock.now), UTC).isoformat()
        patch = {"metadata": {"annotations": {wellknown.RELEASE_BRAKE: word}}}
        self.store.modify(("fleets", "", "main"), lambda old: merge(old, patch), "")

    def withdraw_release(self) -> None:
        """Let the admin's word on the brake be over."""
        patch = {"metadata": {"annotations": {wellknown.RELEASE_BRAKE: None}}}
        self.store.modify(("fleets", "", "main"), lambda old: merge(old, patch), "")

    def strip(self, plural: str, obj: Object, finalizer: str) -> None:
        """Take a finalizer off, as an editor would."""
        meta = obj["metadata"]
        key: Key = (plural, meta.get("namespace", ""), meta["name"])
        if key not in self.store.objects:
            return

        def without(old: Object) -> Object:
            meta = old["metadata"]
            kept = [name for name in meta.get("finalizers", ()) if name != finalizer]
            return {**old, "metadata": {**meta, "finalizers": kept}}

        self.store.modify(key, without, "")

    def vanish(self, plural: str, obj: Object) -> None:
        """Delete an object without grace; it stays only if a finalizer is left."""
        meta = obj["metadata"]
        if (plural, meta["namespace"], meta["name"]) in self.store.objects:
            end_grace(self.api, self.store.objects[plural, meta["namespace"], meta["name"]])

    def has_evidence(self, claim: Object) -> bool:
        """Return whether the pod that a claim is made for is there, and is kept."""
        name = claim["metadata"]["name"].removesuffix("-gpu")
        pod = self.store.objects.get(("pods", claim["metadata"]["namespace"], name))
        return pod is not None and wellknown.FINALIZER in pod["metadata"].get("finalizers", ())

    def has_claim(self, pod: Object) -> bool:
        """Return whether the claim of a pod is there, and is kept."""
        meta = pod["metadata"]
        claim = self.store.objects.get(("resourceclaims", meta["namespace"], f"{meta['name']}-gpu"))
        return claim is not None and "deletionTimestamp" not in claim["metadata"]

    def exit(self, container: Container, phase: str) -> None:
        """Let a container end by itself."""
        self.cluster.kubelets[container.node].exit(container.uid, phase)
        self.exits.setdefault((container.gang, container.attempt), []).append(phase)

    def start_stray(self, kubelet: Kubelet, count: int) -> bool:
        """Give devices that no claim holds to a pod of somebody else's; return whether there were any.

        kube-scheduler and the bridge allocate without asking each other, so this happens only where no allocation of
        the bridge is under way, and every operator hears of it at once: who protects nodes needs no more.
        """
        node = self.store.objects.get(("nodes", "", kubelet.node))
        is_told = all(process.hears("resourceclaims") for process in self.processes)
        if node is None or is_protected(node) or not kubelet.is_well or not is_told:
            return False
        taken = {slot for claim in self.api.of("resourceclaims") for slot in slots_of(claim)}
        # Devices that somebody took the claim of are in use all the same.
        taken |= {slot for container in kubelet.running.values() for slot in container.slots}
        free = [index for index in range(GPUS) if (kubelet.node, index) not in taken][:count]
        if len(free) < count or ("resourceslices", "", f"gangbridge-{kubelet.node}-0") not in self.store.objects:
            return False
        self._names += 1
        name = f"stray-{self._names}"
        claim = _stray_claim(name, kubelet.node, count)
        self.api.put("resourceclaims", claim)
        pod: Object = {"metadata": {"name": name, "namespace": "default"}, "spec": {"containers": [{"name": "x"}]}}
        self.api.put("pods", pod)
        uid = self.store.objects["pods", "default", name]["metadata"]["uid"]
        device = {"request": "gpu", "driver": wellknown.DRIVER, "pool": kubelet.node}
        status = {
            "allocation": {
                "devices": {"results": [device | {"device": f"gpu-{index}"} for index in free]},
                "nodeSelector": node_selector(kubelet.node),
            },
            "reservedFor": [{"resource": "pods", "name": name, "uid": uid}],
        }
        key = ("resourceclaims", "default", name)
        self.store.modify(key, lambda old: {**old, "status": status}, "status")
        bound = self.store.objects["pods", "default", name]
        claims = [{"name": "gpus", "resourceClaimName": name}]
        self.store._commit(
            "MODIFIED", "pods", {**bound, "spec": {**bound["spec"], "nodeName": kubelet.node, "resourceClaims": claims}}
        )
        kubelet.sync()
        kubelet.start(uid)
        for process in self.processes:
            process.deliver("resourceclaims")
        return True

    # Nodes

    def squat(self, namespace: str, name: str) -> bool:
        """Let a user take the name of one of our pods that is gone; return whether it is."""
        is_free = ("pods", namespace, name) not in self.store.objects
        if is_free:
            self.api.put(
                "pods", {"metadata": {"name": name, "namespace": namespace}, "spec": {"containers": [{"name": "x"}]}}
            )
        return is_free

    def fence(self, name: str, *, by_taint: bool) -> None:
        """Write an admin's word that nothing runs on a node."""
        node = self.store.objects.get(("nodes", "", name))
        if node is None:
            return
        if by_taint:
            self._set_taints(name, [*taints(node), OUT_OF_SERVICE])
        else:
            self._annotate(name, "checked by hand")

    def is_fenced(self, name: str) -> bool:
        """Return whether an admin vouches that nothing runs on a node."""
        node = self.store.objects.get(("nodes", "", name))
        if node is None:
            return False
        return wellknown.FENCED in (node["metadata"].get("annotations") or {}) or OUT_OF_SERVICE in taints(node)

    def unfence(self, name: str) -> None:
        """Take an admin's word back, before the machine is switched on."""
        node = self.store.objects.get(("nodes", "", name))
        if node is not None:
            self._annotate(name, None)
            self._set_taints(name, sorted(taints(node) - {OUT_OF_SERVICE}))

    def untaint(self, name: str) -> None:
        """Remove the taint that keeps strays away."""
        node = self.store.objects.get(("nodes", "", name))
        if node is not None:
            self._set_taints(name, sorted(taints(node) - {wellknown.TAINT}))

    def drop_node_object(self, name: str) -> None:
        """Delete a Node object, as cloud controllers do for machines that they do not find."""
        if not self.cluster.kubelets[name].is_well and ("nodes", "", name) in self.store.objects:
            self.api.remove("nodes", name)

    def register(self, name: str) -> None:
        """Let a kubelet that is back register its node, and an admin label it."""
        if ("nodes", "", name) not in self.store.objects and self.cluster.kubelets[name].is_well:
            self.api.put("nodes", bare(objects.node(name)), status=True)

    def _annotate(self, name: str, word: str | None) -> None:
        patch = {"metadata": {"annotations": {wellknown.FENCED: word}}}
        self.store.modify(("nodes", "", name), lambda old: merge(old, patch), "")

    def _set_taints(self, name: str, keys: list[str]) -> None:
        found = [{"key": key, "effect": "NoSchedule"} for key in keys]
        self.store.modify(("nodes", "", name), lambda old: {**old, "spec": {**old["spec"], "taints": found}}, "")

    # Slurm

    def change_slurm_node(self, name: str, what: int) -> None:
        """Let a node of Slurm fail, let an admin drain or annotate it; let it come back if it is not well."""
        node = self.slurm.nodes.get(name)
        if node is None:
            self.add_external(name)
            return
        match what:
            case 0 | 1 | 2 if self._is_broken(name):
                self._repair(name)
            case 0:
                self.counts["node down in Slurm"] += 1
                self.auditor.exposed.add(name)
                self.slurm.set_node(name, "DOWN", *(node.states & {"DRAIN"}), reason=node.reason or "Not responding")
            case 1:
                self.slurm.admin_drain(name)
            case 2 if not node.extra:
                node.extra = NOTE
            case 3 if "DRAIN" in node.states:
                # Whoever drained it: an admin may overrule a fence, and we fence again.
                self.counts["node resumed by hand"] += 1
                self.auditor.exposed.add(name)
                self.slurm.admin_resume(name)
            case _:
                pass

    def add_external(self, name: str) -> None:
        """Register a dynamic node again, which slurmctld forgets together with its state."""
        self.slurm.nodes[name] = FakeNode(name=name, gres=h100(GPUS), external=True, partitions=frozenset({"ext"}))

    def boot(self, name: str) -> None:
        """Let a machine and its kubelet come back."""
        kubelet = self.cluster.kubelets[name]
        kubelet.is_up = kubelet.is_reachable = True
        self.register(name)

    def _is_broken(self, name: str) -> bool:
        node = self.slurm.nodes[name]
        is_drained = "DRAIN" in node.states and not node.reason.startswith(OWN_REASON)
        return "DOWN" in node.states or is_drained or node.extra == NOTE

    def _repair(self, name: str) -> None:
        node = self.slurm.nodes[name]
        self._return_to_service(name)
        if "DRAIN" in node.states and not node.reason.startswith(OWN_REASON):
            self.slurm.admin_resume(name)
        if node.extra == NOTE:
            node.extra = ""

    def _return_to_service(self, name: str) -> None:
        node = self.slurm.nodes[name]
        if "DOWN" in node.states:
            self.slurm.set_node(name, *(node.states - {"DOWN"}), reason=node.reason if "DRAIN" in node.states else "")

    def lose_slurm_state(self) -> None:
        """Start slurmctld without its state."""
        self.auditor.exposed |= set(self.slurm.nodes)
        self.slurm.lose_state()

    def saved_slurm_state(self) -> Callable[[], None]:
        """Return what brings slurmctld back to the state of now."""
        slurm = self.slurm
        jobs, last_id = dict(slurm.jobs), slurm._last_id
        nodes = {name: replace(node) for name, node in slurm.nodes.items()}

        def restore() -> None:
            slurm.jobs.clear()
            slurm.jobs.update(jobs)
            slurm.nodes, slurm._last_id = nodes, last_id

        return restore

    def other_hold(self, node: str, gpus: int) -> None:
        """Submit a hold of another Kubernetes cluster's bridge."""
        marker = Marker(key=GangKey(uid="theirs", attempt=1), namespace="a", name="b", cluster="another")
        self.slurm.external_job(node, gpus, marker)

    # The end

    def heal(self) -> None:
        """Repair everything that is broken, switch off what nobody can tell about, and end everybody else's work."""
        self.store.closing.clear()
        for name in self.cluster.kubelets:
            self.unfence(name)
            self.boot(name)
            if name not in self.slurm.nodes:
                self.add_external(name)
            self._repair(name)
        for pod in self.api.of("pods", NAMESPACE):
            if not labels_of(pod):
                self.api.remove("pods", pod["metadata"]["name"], NAMESPACE)
        self.slurm.epilog = False
        for job in list(self.slurm.jobs.values()):
            if not self.auditor.is_hold(job) and job.end_time is None:
                self.slurm._end(job, JobState.CANCELLED, job.exit_status)
        self.slurm._end_epilogs()
        self.cluster.settle()
        self.vouch()

    def vouch(self) -> None:
        """Switch off the nodes of which nobody will tell, and let an admin say so."""
        for name in sorted(self._quarantined() - set(self.fenced_at_last)):
            self.cluster.kubelets[name].crash()
            self.fence(name, by_taint=False)
            self.fenced_at_last.append(name)

    def is_at_rest(self) -> bool:
        """Return whether nothing is left to end; an admin takes his words back when what they were for is done."""
        if not self._quarantined():
            for name in self.fenced_at_last:
                self.unfence(name)
                self.boot(name)
            self.fenced_at_last.clear()
        return not self.leftovers()

    def leftovers(self) -> list[str]:
        """Return what is left that should have ended, in words."""
        found = []
        for gang in self.api.of("gangjobs"):
            meta, status = gang["metadata"], gang.get("status") or {}
            is_finished = any(
                item["type"] == "Finished" and item["status"] == "True" for item in status.get("conditions", ())
            )
            if not is_finished or "deletionTimestamp" in meta:
                found.append(f"GangJob {meta['name']} is {status.get('phase')}: {status.get('message')}")
            elif status["phase"] == "Succeeded":
                good = self.exits.get((meta["uid"], status["attempt"]), []).count("Succeeded")
                if good < gang["spec"]["roles"][0]["replicas"]:
                    found.append(f"GangJob {meta['name']} Succeeded with {good} containers that did")
        found += [f"claim {claim['metadata']['name']}" for claim in self.api.of("resourceclaims") if labels_of(claim)]
        found += [
            f"pod {pod['metadata']['name']} is {pod['status']['phase']}"
            for pod in self.api.of("pods", NAMESPACE)
            if labels_of(pod) and (pod["status"]["phase"] not in TERMINAL or "deletionTimestamp" in pod["metadata"])
        ]
        found += [
            f"hold {job.job_id} is {job.state}" for job in self.auditor.holds() if job.end_time is None or job.epilogs
        ]
        for name, node in self.slurm.nodes.items():
            if node.extra or node.reason:
                found.append(f"node {name}: Extra {node.extra!r}, reason {node.reason!r}")
        return found

    def _quarantined(self) -> set[str]:
        """Return the nodes with gang claims that no pod will ever give back."""
        uids = {pod["metadata"]["uid"] for pod in self.api.of("pods")}
        found = set()
        for claim in self.api.of("resourceclaims", NAMESPACE):
            if slots_of(claim) and not consumers_of(claim) & uids:
                found |= {node for node, _ in slots_of(claim)}
        for pod in self.api.of("pods", NAMESPACE):
            if BY_GC in (pod["status"].get("conditions") or ()):
                found.add(bound_to(pod))
        return found

    @contextmanager
    def _write_as(self, name: str) -> Iterator[None]:
        self.writer = name
        try:
            yield
        finally:
            self.writer = ""


def _stray_claim(name: str, node: str, count: int) -> Object:
    exactly = {"deviceClassName": wellknown.DRIVER, "allocationMode": "ExactCount", "count": count}
    return {
        "metadata": {"name": name, "namespace": "default", "finalizers": [wellknown.DELETE_PROTECTION]},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}},
    }
