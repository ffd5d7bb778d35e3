"""What must always hold, judged from the raw stores and from what really runs; shares no code with ``bridge``.

Some harm nobody can prevent: slurmctld that lost its state, or a node without slurmd, gives devices away before anyone
could have asked it not to. Such nodes are *exposed* until the operators have had the time to see it (``World.calm``).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from typing import Any

from bridge import wellknown
from bridge.model.hold import GangKey, Marker
from bridge.model.slurm import JobState, SlurmView
from bridge.slurm.fake import FakeSlurm
from bridge.slurm.fake_records import FakeJob
from tests.kube import actors
from tests.kube.fakestore import Change
from tests.machine.truth import Container, Kubelet, Slot, consumers_of, labels_of, slots_of, slots_of_job

Object = dict[str, Any]
GUARD = "gangbridge:"
OWN_REASON = "gangbridge: "


class Violation(AssertionError):
    """An invariant is broken; begins with its name."""


def require(holds: bool, invariant: str, what: str) -> None:
    if not holds:
        raise Violation(f"{invariant}: {what}")


class Auditor:
    """Watches every write and, when asked, everything. ``exposed`` are nodes for which Slurm alone is to blame."""

    def __init__(
        self, objects: dict[tuple[str, str, str], Object], slurm: FakeSlurm, kubelets: dict[str, Kubelet]
    ) -> None:
        self.exposed: set[str] = set()
        self.meddled: set[str] = set()
        """Uids of gangs whose pods or claims somebody else has changed."""
        self.started: dict[int, bool] = {}
        """Jobs with processes that we have seen start, and whether one of their nodes was exposed then."""
        self._objects = objects
        self._slurm = slurm
        self._kubelets = kubelets
        self._granted: defaultdict[tuple[str, int], set[frozenset[Slot]]] = defaultdict(set)
        """What holds were ever given, by key: slurmctld may forget."""
        self.is_late = False
        """Set while a request arrives that nobody hopes for any more."""
        self._submitted: dict[str, set[GangKey]] = {}
        """Keys of holds that an operator has submitted since it last looked."""
        self._prepared: dict[str, str] = {}
        self._shown: dict[str, FakeJob | None] = {}
        """The job that a mirror claim was allocated for, by the claim's uid: job ids come back."""
        self._noted: Violation | None = None

    # After every write to the API server

    def changed(self, change: Change, writer: str) -> None:
        """Judge one change; ``writer`` is the operator that made it, empty for anybody else."""
        with self.noting():
            match change.plural:
                case "resourceclaims":
                    self._claim_changed(change, writer)
                case "pods" if writer:
                    self._pod_changed(change)
                case "gangjobs" if writer and change.event == "DELETED":
                    self._gang_released(change.obj)
                case _:
                    pass

    @contextmanager
    def noting(self) -> Iterator[None]:
        """Remember the first violation until ``check``: an operator would take it for an answer."""
        try:
            yield
        except Violation as violation:
            self._noted = self._noted or violation

    def _claim_changed(self, change: Change, writer: str) -> None:
        claim, meta = change.obj, change.obj["metadata"]
        had = slots_of(change.old) if change.old else frozenset()
        has = slots_of(claim) if change.event != "DELETED" else frozenset()
        if has - had:
            self._allocated(claim, has, writer)
        if writer:
            require(_is_ours(change.old or claim), "I8", f"{writer} wrote foreign claim {meta['name']}")
            if had - has:
                self._freed(change.old or claim, had - has)

    def _allocated(self, claim: Object, slots: frozenset[Slot], writer: str) -> None:
        meta, status = claim["metadata"], claim["status"]
        for other in self._claims():
            both = slots & slots_of(other) if other["metadata"]["uid"] != meta["uid"] else frozenset()
            require(not both, "I1", f"{sorted(both)} are in claims {other['metadata']['name']} and {meta['name']}")
        if not writer:
            return
        allocation, labels = status["allocation"], labels_of(claim)
        require(bool(allocation.get("allocationTimestamp")), "I7", f"{meta['name']} has no allocationTimestamp")
        require(len(status.get("reservedFor") or ()) == 1, "I7", f"{meta['name']} has not one consumer")
        require(wellknown.DELETE_PROTECTION in meta.get("finalizers", ()), "I7", f"{meta['name']} is not protected")
        require(len({node for node, _ in slots}) == 1, "I7", f"{meta['name']} spans nodes")
        if uid := labels.get(wellknown.GANG_UID):
            key = (uid, int(labels[wellknown.ATTEMPT]))
            self._remember_holds()
            require(
                any(slots <= held for held in self._granted[key]),
                "I2",
                f"{meta['name']} has devices no hold of {key} had",
            )
        else:
            self._shown[meta["uid"]] = self._slurm.jobs.get(int(labels.get(wellknown.JOB_ID, "0")))

    def _freed(self, claim: Object, slots: frozenset[Slot]) -> None:
        """I5: whoever frees a device has evidence that nobody uses it."""
        name = claim["metadata"]["name"]
        for container in self.containers():
            used = container.slots & slots
            is_user = container.uid in consumers_of(claim)
            require(not (used and is_user), "I5", f"claim {name} is freed while {container} uses {sorted(used)}")
        shown = self._shown.get(claim["metadata"]["uid"])
        for job, held in self.users():
            is_user = job is shown and bool(held & slots)
            require(not is_user, "I3", f"claim {name} is freed while job {job.job_id} runs")

    def _pod_changed(self, change: Change) -> None:
        pod, old = change.obj, change.old
        meta = pod["metadata"]
        name, uid = meta["name"], meta["uid"]
        require(_is_ours(old or pod), "I8", f"foreign pod {name} was written")
        if old is None:
            return
        is_gone = change.event == "DELETED"
        released = _holds_evidence(old) and (is_gone or not _holds_evidence(pod))
        container = next((each for each in self.containers() if each.uid == uid), None)
        require(not (released and container), "I5", f"pod {name} is let go while it runs")
        if not is_gone and old["spec"].get("schedulingGates") and not pod["spec"].get("schedulingGates"):
            self._ungated(pod)

    def _ungated(self, pod: Object) -> None:
        """I4, and the guard: what Slurm ends from here on keeps its nodes until the pods are gone."""
        labels, name = labels_of(pod), pod["metadata"]["name"]
        if "deletionTimestamp" in pod["metadata"] or labels[wellknown.GANG_UID] in self.meddled:
            # Nothing binds it any more, or somebody else took away what was there when it was decided.
            return
        key = (labels[wellknown.GANG_UID], int(labels[wellknown.ATTEMPT]))
        self._check_guard(key, actors._pinned_node(pod), f"{name} is ungated")
        mates = [
            mate
            for mate in self._pods()
            if all(labels_of(mate).get(label) == labels[label] for label in (wellknown.GANG_UID, wellknown.ATTEMPT))
        ]
        require(len(mates) == self._replicas(labels[wellknown.GANG_UID]), "I4", f"{name} is ungated without its mates")
        claims = {(each["metadata"]["namespace"], each["metadata"]["name"]): each for each in self._claims()}
        for mate in mates:
            if mate["status"]["phase"] in {"Succeeded", "Failed"}:
                continue
            for reference in mate["spec"].get("resourceClaims") or ():
                claim = claims.get((mate["metadata"]["namespace"], reference["resourceClaimName"]))
                bound = claim is not None and slots_of(claim) and mate["metadata"]["uid"] in consumers_of(claim)
                require(
                    bool(bound), "I4", f"{name} is ungated before the claim of {mate['metadata']['name']} is its own"
                )

    def _check_guard(self, key: tuple[str, int], name: str, what: str) -> None:
        node = self._slurm.nodes.get(name)
        if node is None or node.external or name in self.exposed:
            return
        guarded = node.extra.removeprefix(GUARD).split(",") if node.extra.startswith(GUARD) else []
        holds = [job for job in self.holds() if key_of(job) == key and name in job.grants]
        is_guarded = any(str(job.job_id) in guarded for job in holds)
        require(is_guarded, "I5 guard", f"{what} on {name}, guarded for {guarded}")

    def _replicas(self, uid: str) -> int:
        for key, obj in self._objects.items():
            if key[0] == "gangjobs" and obj["metadata"]["uid"] == uid:
                return int(obj["spec"]["roles"][0]["replicas"])
        return 0

    def _gang_released(self, gang: Object) -> None:
        uid, name = gang["metadata"]["uid"], gang["metadata"]["name"]
        left = [str(each) for each in self.containers() if each.gang == uid]
        require(not left, "I5", f"GangJob {name} is let go while {left} run")

    # Around every write to slurmctld

    def looked(self, operator: str) -> None:
        """An operator is shown everything that slurmctld has."""
        self._submitted.pop(operator, None)

    def hold_submitted(self, marker: Marker, operator: str) -> None:
        """I6: who cannot know whether a hold was submitted looks before he submits another one."""
        if self.is_late:
            return
        known = self._submitted.setdefault(operator, set())
        require(marker.key not in known, "I6", f"{operator} submits a hold of {marker.key} twice without a look")
        known.add(marker.key)

    def hold_ends(self, job: FakeJob, operator: str, known: SlurmView | None, *, is_cancel: bool) -> None:
        """An operator is about to cancel or complete a job; ``known`` as in ``nodes_changed``.

        Of two holds it cancels the younger, and cannot know when the older one is ended by somebody else meanwhile.
        """
        require(self.is_hold(job), "I8", f"{operator} ends job {job.job_id}, which is no hold of ours")
        if is_cancel:
            live = [each for each in self.holds() if key_of(each) == key_of(job) and each.end_time is None]
            is_younger = any(
                other.marker is not None and other.marker.key == job.marker.key and other.is_live
                for other in (known.jobs.values() if known is not None and job.marker is not None else ())
                if other.job_id < job.job_id
            )
            wanted = len(live) == 1 and not is_younger and self.is_wanted(key_of(job))
            require(not wanted, "I6", f"{operator} cancels job {job.job_id}, the hold of a gang that goes on")
        slots = slots_of_job(job) if job.is_running else frozenset()
        for container in self.containers():
            if (container.gang, container.attempt) == key_of(job):
                used = {slot for slot in container.slots & slots if not self._is_closed(slot[0])}
                require(not used, "I5", f"{operator} ends job {job.job_id} while {container} uses {sorted(used)}")

    def hold_is_changed(self, job: FakeJob, operator: str) -> None:
        require(self.is_hold(job), "I8", f"{operator} changes job {job.job_id}, which is no hold of ours")

    def nodes_changed(
        self, before: dict[str, tuple[frozenset[str], str, str]], operator: str, known: SlurmView | None
    ) -> None:
        """An operator has changed node records: ``before`` are state, reason and Extra by node.

        ``known`` is the last view that it had been given when it sent that.
        """
        for name, (states, reason, extra) in before.items():
            node = self._slurm.nodes.get(name)
            if node is None:
                continue
            if (node.states, node.reason) != (states, reason):
                is_free = "DRAIN" not in states or reason.startswith(OWN_REASON)
                require(is_free, "I8", f"{operator} changes node {name}, drained for {reason!r}")
            if node.extra != extra and known is not None and name in known.nodes:
                # Slurm cannot be asked to compare it first: what an admin writes meanwhile is lost.
                is_free = extra != known.nodes[name].extra or not extra or extra.startswith(GUARD)
                require(is_free, "I8", f"{operator} overwrites Extra {extra!r} of {name}")
            if "DRAIN" in states and "DRAIN" not in node.states:
                self._resumed(name, operator, known)

    def _resumed(self, name: str, operator: str, known: SlurmView | None) -> None:
        """I5: who lifts a fence knows of a hold that has the node, or that nobody uses it.

        The hold may end while the request is under way: then nobody can have known.
        """
        covered = {(key_of(job), node) for job in self.holds() if job.holds_nodes for node in job.grants}
        for job in known.jobs.values() if known is not None else ():
            if job.marker is not None and job.marker.cluster == self.cluster and job.state is JobState.RUNNING:
                covered |= {((job.marker.key.uid, job.marker.key.attempt), node) for node in job.nodes}
        for container in self.containers():
            is_user = container.node == name and bool(container.gang)
            is_safe = not is_user or ((container.gang, container.attempt), name) in covered
            require(is_safe, "I5", f"{operator} resumes {name} while {container} runs there without a hold")

    # Whenever asked

    def check(self) -> None:
        """Judge everything that must hold at any moment."""
        if self._noted is not None:
            raise self._noted
        self._remember_holds()
        self.check_devices()
        self._check_claims()

    def _remember_holds(self) -> None:
        for job in self.holds():
            self._granted[key_of(job)].add(slots_of_job(job))

    def check_devices(self) -> None:
        """No device has two real users."""
        owner: dict[Slot, Container] = {}
        for container in self.containers():
            for name, uid in container.claims:
                # A kubelet knows claims by name: what it has prepared once must never be another.
                known = self._prepared.setdefault(name, uid)
                require(known == uid, "I7", f"claim name {name} came back")
            for slot in container.slots:
                other = owner.setdefault(slot, container)
                require(other is container, "I5 two users", f"{slot} is used by {other} and by {container}")
        for job, slots in self.users():
            if job.job_id not in self.started:
                self.started[job.job_id] = any(node in self.exposed for node, _ in slots)
            for slot in slots:
                user = owner.get(slot)
                if user is None or not user.gang or self.started[job.job_id] or user.node in self.exposed:
                    continue
                raise Violation(f"I5 two users: {slot} is used by {user} and by job {job.job_id}")

    def _check_claims(self) -> None:
        seen: dict[Slot, str] = {}
        for claim in self._claims():
            for slot in slots_of(claim):
                name = claim["metadata"]["name"]
                other = seen.setdefault(slot, name)
                require(other == name, "I1", f"{slot} is in claims {other} and {name}")

    def check_calm(self) -> None:
        """Judge what must hold once everybody knows everything and has done all that can be done."""
        self._check_fences()
        self._check_mirrors()
        self._check_holds()
        self._check_consumers()

    def _check_fences(self) -> None:
        """Whatever still runs has a hold that covers it, or a node that gives nothing to anybody."""
        for container in self.containers():
            if not container.gang:
                continue
            key = (container.gang, container.attempt)
            covered = any(
                key_of(job) == key
                and container.slots <= slots_of_job(job)
                and (job.is_running or container.node in job.epilogs)
                for job in self.holds()
            )
            is_safe = covered or self._is_closed(container.node) or container.node not in self._slurm.nodes
            require(is_safe, "I5 fence", f"{container} runs on {container.node} with no hold and no fence")

    def _check_mirrors(self) -> None:
        """I3: a running job's devices are taken by its own claims, and no other job has any."""
        shown: dict[int, set[Slot]] = {}
        for claim in self._claims():
            if claim["metadata"]["namespace"] == wellknown.MIRROR_NAMESPACE and slots_of(claim):
                shown.setdefault(int(labels_of(claim)[wellknown.JOB_ID]), set()).update(slots_of(claim))
        taken = frozenset(chain.from_iterable(slots_of(claim) for claim in self._claims()))
        users = {job.job_id: slots for job, slots in self.users()}
        for job_id, slots in users.items():
            mine = shown.get(job_id, set())
            # A claim shows all that a job has on a node, or nothing: somebody else's claim may be in its way.
            elsewhere = {node for node, _ in slots & (taken - mine)} | {
                node for node, _ in slots if not self._exists(node)
            }
            missing = {slot for slot in slots - mine if slot[0] not in elsewhere}
            require(not missing, "I3", f"job {job_id} uses {sorted(missing)}, which no claim shows")
        for job_id, slots in shown.items():
            job = self._slurm.jobs.get(job_id)
            is_over = job is None or not (job.is_running or job.epilogs)
            require(not is_over, "I3", f"claims of job {job_id}, which is over, hold {sorted(slots)}")

    def _check_holds(self) -> None:
        """I6: one live hold per key, none without a gang."""
        gangs = {obj["metadata"]["uid"] for key, obj in self._objects.items() if key[0] == "gangjobs"}
        seen: set[tuple[str, int]] = set()
        for job in self.holds():
            if job.end_time is not None:
                continue
            key = key_of(job)
            require(key not in seen, "I6", f"two live holds of {key}")
            require(key[0] in gangs or bool(self._left_of(key)), "I6", f"job {job.job_id} is the hold of no gang")
            seen.add(key)

    def _check_consumers(self) -> None:
        """I7: no claim of ours is reserved for a pod that is gone, but in quarantine."""
        pods = {pod["metadata"]["uid"] for pod in self._pods()}
        for claim in self._claims():
            if not labels_of(claim).get(wellknown.GANG_UID) or not slots_of(claim):
                continue
            node = next(iter(slots_of(claim)))[0]
            is_kept = bool(consumers_of(claim) & pods) or self._is_closed(node) or self._is_held(claim)
            require(is_kept, "I7", f"claim {claim['metadata']['name']} holds devices for nobody")
            # Only somebody else can take the evidence away.
            is_told = bool(consumers_of(claim) & pods) or labels_of(claim)[wellknown.GANG_UID] in self.meddled
            require(
                is_told, "I5 evidence", f"the pod of claim {claim['metadata']['name']} is gone, and its end with it"
            )

    def _is_held(self, claim: Object) -> bool:
        labels = labels_of(claim)
        key = (labels[wellknown.GANG_UID], int(labels[wellknown.ATTEMPT]))
        return any(key_of(job) == key and job.holds_nodes for job in self.holds())

    def _left_of(self, key: tuple[str, int]) -> list[Object]:
        return [
            obj
            for obj in (*self._pods(), *self._claims())
            if (labels_of(obj).get(wellknown.GANG_UID), int(labels_of(obj).get(wellknown.ATTEMPT) or 0)) == key
        ]

    # What there is

    def holds(self) -> list[FakeJob]:
        """Return the holds of our cluster, live or not."""
        return [job for job in self._slurm.jobs.values() if self.is_hold(job)]

    def users(self) -> list[tuple[FakeJob, frozenset[Slot]]]:
        """Return the jobs with processes on devices. A hold has none."""
        running = [job for job in self._slurm.jobs.values() if job.is_running and not self.is_hold(job)]
        return [(job, slots_of_job(job)) for job in running]

    def is_hold(self, job: FakeJob) -> bool:
        """Return whether a job is a hold of our cluster."""
        return job.marker is not None and job.marker.cluster == self.cluster

    @property
    def cluster(self) -> str:
        """The identity of our Kubernetes cluster."""
        return str(self._objects["namespaces", "", "kube-system"]["metadata"]["uid"])

    def is_wanted(self, key: tuple[str, int]) -> bool:
        """Return whether a gang is there, is not being deleted, and has not ended this attempt."""
        for (plural, _, _), obj in self._objects.items():
            if plural == "gangjobs" and obj["metadata"]["uid"] == key[0]:
                status = obj.get("status") or {}
                is_ending = "deletionTimestamp" in obj["metadata"] or status.get("outcome")
                return not is_ending and status.get("attempt", 1) == key[1]
        return False

    def containers(self) -> list[Container]:
        return [container for kubelet in self._kubelets.values() for container in kubelet.running.values()]

    def _is_closed(self, name: str) -> bool:
        node = self._slurm.nodes.get(name)
        return node is None or bool({"DRAIN", "DOWN"} & node.states)

    def _exists(self, name: str) -> bool:
        return ("nodes", "", name) in self._objects

    def _claims(self) -> list[Object]:
        return [obj for key, obj in self._objects.items() if key[0] == "resourceclaims"]

    def _pods(self) -> list[Object]:
        return [obj for key, obj in self._objects.items() if key[0] == "pods"]


def key_of(job: FakeJob) -> tuple[str, int]:
    """Return gang uid and attempt of a hold."""
    assert job.marker is not None
    return job.marker.key.uid, job.marker.key.attempt


def _is_ours(obj: Object) -> bool:
    return labels_of(obj).get(wellknown.MANAGED_BY) == wellknown.FIELD_MANAGER


def _holds_evidence(pod: Object) -> bool:
    return wellknown.FINALIZER in (pod["metadata"].get("finalizers") or ())
