"""Both servers in memory: plans are carried out on them one action at a time, and what must never happen is watched.

``FakeSlurm`` is slurmctld; pods, claims and GangJobs are the model's own values. The kubelet, the resource claim
controller and users act when a test lets them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from bridge.lifecycle import actions as act
from bridge.lifecycle.mirror import digest
from bridge.lifecycle.names import claim_name, mirror_name, pod_name
from bridge.lifecycle.plan import Plan, plan
from bridge.model.fence import Fence
from bridge.model.fleet import FleetSpec
from bridge.model.gang import Gang, GangStatus
from bridge.model.kube import ClaimView, MirrorView, PodPhase, PodView, Pool, PoolDevice
from bridge.model.slurm import SlurmView
from bridge.model.snapshot import Snapshot
from bridge.slurm.fake import FakeNode, FakeSlurm
from bridge.wellknown import DRIVER, MIRROR_NAMESPACE
from tests.builders import device, fleet, kube_node, queue


class Died(Exception):
    """The operator was killed at the place that the test chose."""


def now(call: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine of the fake slurmctld, which never waits."""
    try:
        call.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("the fake slurmctld waited")


@dataclass
class World:
    """``die_at`` is the number of the write (actions and statuses, from 0) before which the operator dies, once."""

    slurm: FakeSlurm
    fleet: FleetSpec = field(default_factory=fleet)
    gangs: dict[str, Gang] = field(default_factory=dict)
    pods: dict[str, PodView] = field(default_factory=dict)
    claims: dict[str, ClaimView] = field(default_factory=dict)
    mirrors: dict[str, MirrorView] = field(default_factory=dict)
    pools: dict[str, Pool] = field(default_factory=dict)
    services: set[tuple[str, str]] = field(default_factory=set)
    down_nodes: set[str] = field(default_factory=set)
    hidden_nodes: set[str] = field(default_factory=set)
    hanging_nodes: set[str] = field(default_factory=set)
    fences: set[str] = field(default_factory=set)
    claim_names: Counter[str] = field(default_factory=Counter)
    held_back: set[str] = field(default_factory=set)
    die_at: int | None = None
    writes: int = 0
    log: list[str] = field(default_factory=list)
    _serial: int = 0

    # What the operator sees and does

    def snapshot(self) -> Snapshot:
        view: SlurmView | None = None if self.slurm.down else now(self.slurm.view())
        return Snapshot(
            now=int(self.slurm.now),
            fleet=self.fleet,
            queues={"gpu": queue()},
            namespaces={"research": {}},
            gangs=tuple(self.gangs.values()),
            mirrors=tuple(self.mirrors.values()),
            pods=tuple(self.pods.values()),
            claims=tuple(self.claims.values()),
            services=frozenset(self.services),
            nodes=tuple(
                kube_node(
                    name,
                    ready=name not in self.down_nodes,
                    fenced=Fence(reason="powered off") if name in self.fences else None,
                )
                for name in self.slurm.nodes
                if name not in self.hidden_nodes
            ),
            pools=tuple(self.pools.values()),
            slurm=view,
            held_back=frozenset(self.held_back),
        )

    def cycle(self) -> bool:
        """Plan and carry out once; return whether there was anything to do."""
        decided: Plan = plan(self.snapshot())
        for decision in decided.decisions:
            for stage in decision.stages:
                for action in stage:
                    self._write(action)
            if decision.status is not None:
                self._write(decision)
        for chore in decided.chores:
            for stage in chore.stages:
                for action in stage:
                    self._write(action)
        return not decided.is_idle

    def settle(self, *others: Callable[[], int], limit: int = 60) -> None:
        """Cycle, with the ``others`` (kubelet, controller) in between, until nobody has anything to do."""
        for _ in range(limit):
            try:
                busy = self.cycle()
            except Died:
                busy = True
            busy = any([busy, *(other() for other in others)])
            if not busy:
                return
        raise AssertionError(f"still busy after {limit} cycles: {self.log[-12:]}")

    def run(self, **changes: Any) -> None:
        """Settle together with the kubelets."""
        self.settle(self.kubelet, **changes)

    # Others

    def kubelet(self) -> int:
        """Start pods that have their claim, stop those that are deleted. Containers of a hanging node never stop."""
        before = dict(self.pods)
        for name, pod in before.items():
            if pod.node in self.down_nodes | self.hanging_nodes | self.hidden_nodes:
                continue
            if pod.deleting and not pod.stopped:
                self.pods[name] = replace(pod, phase=PodPhase.FAILED, stopped=True)
            elif not pod.gated and pod.phase is PodPhase.PENDING:
                claim = self.claims[f"{name}-gpu"]
                if claim.is_allocated and claim.reserved_for == (pod.uid,):
                    self.pods[name] = replace(pod, phase=PodPhase.RUNNING)
        return int(self.pods != before)

    def end_pods(self, phase: PodPhase = PodPhase.SUCCEEDED, code: int | None = None) -> None:
        for name, pod in self.pods.items():
            self.pods[name] = replace(pod, phase=phase, exit_code=code, stopped=True)

    def delete_pod(self, name: str) -> None:
        pod = self.pods.get(name)
        if pod is None:
            return
        ended = replace(pod, deleting=True, stopped=pod.stopped or pod.gated)
        if ended.stopped and not pod.held:
            del self.pods[name]
        else:
            self.pods[name] = ended

    def change(self, gang: Gang, **changes: Any) -> None:
        self.gangs[gang.uid] = replace(self.gangs[gang.uid], **changes)

    def status(self, gang: Gang) -> GangStatus:
        return self.gangs[gang.uid].status

    def live_holds(self) -> list[int]:
        return [job.job_id for job in now(self.slurm.view()).jobs.values() if job.marker and job.is_live]

    # Writes

    def _write(self, what: act.Action | act.Decision) -> None:
        if self.writes == self.die_at:
            self.die_at = None
            self.held_back.clear()
            raise Died
        self.writes += 1
        if isinstance(what, act.Decision):
            if what.gang.uid in self.gangs and what.status is not None:
                self.change(what.gang, status=what.status)
                self.log.append(f"Status {what.gang.name} {what.status.phase}")
            return
        self.log.append(type(what).__name__)
        getattr(self, f"_{type(what).__name__}")(what)

    def _uid(self) -> str:
        self._serial += 1
        return f"uid-{self._serial}"

    def _AddFinalizer(self, action: act.AddFinalizer) -> None:  # noqa: N802 - named after the action, as all of these
        self.change(action.gang, has_finalizer=True)

    def _RemoveFinalizer(self, action: act.RemoveFinalizer) -> None:  # noqa: N802
        uid = action.gang.uid
        assert not [pod for pod in self.pods.values() if pod.gang_uid == uid]
        assert not [claim for claim in self.claims.values() if claim.gang_uid == uid]
        assert not self._holds_of(uid)
        assert self.gangs.pop(uid).deleting

    def _DryRunPod(self, action: act.DryRunPod) -> None:  # noqa: N802
        assert action.gang.uid in self.gangs

    def _SubmitHold(self, action: act.SubmitHold) -> None:  # noqa: N802
        assert self.gangs[action.gang.uid].has_finalizer
        now(self.slurm.allocate(action.request))

    def _RepinHold(self, action: act.RepinHold) -> None:  # noqa: N802
        now(self.slurm.repin(action.job_id, action.nodes))

    def _CompleteHold(self, action: act.CompleteHold) -> None:  # noqa: N802
        self._assert_unused(action.job_id)
        now(self.slurm.complete(action.job_id, action.status))

    def _CancelHold(self, action: act.CancelHold) -> None:  # noqa: N802
        self._assert_unused(action.job_id)
        now(self.slurm.cancel(action.job_id))

    def _CreateService(self, action: act.CreateService) -> None:  # noqa: N802
        self.services.add((action.gang.namespace, action.gang.uid))

    def _CreatePod(self, action: act.CreatePod) -> None:  # noqa: N802
        name = pod_name(action.gang, action.member.rank)
        assert name not in self.pods
        self.pods[name] = PodView(
            namespace=action.gang.namespace,
            name=name,
            uid=self._uid(),
            gang_uid=action.gang.uid,
            attempt=action.gang.status.attempt,
            rank=action.member.rank,
            node=action.member.kube_node,
            slurm_node=action.member.slurm_node,
            phase=PodPhase.PENDING,
            gated=True,
            held=True,
        )

    def _CreateClaim(self, action: act.CreateClaim) -> None:  # noqa: N802
        name = claim_name(action.gang, action.member.rank)
        self._new_claim(name, action.gang.namespace, action.gang.uid, action.gang.status.attempt, action.member.rank)

    def _CreateMirrorClaim(self, action: act.CreateMirrorClaim) -> None:  # noqa: N802
        self._new_claim(action.name, MIRROR_NAMESPACE, job_id=action.job.job_id)

    def _new_claim(
        self, name: str, namespace: str, uid: str = "", attempt: int = 0, rank: int = 0, job_id: int = 0
    ) -> None:
        assert name not in self.claims
        self.claim_names[name] += 1
        assert self.claim_names[name] == 1, f"claim name {name} came back"
        self.claims[name] = ClaimView(
            namespace=namespace,
            name=name,
            uid=self._uid(),
            gang_uid=uid,
            attempt=attempt,
            rank=rank,
            job_id=job_id,
        )

    def _AllocateClaim(self, action: act.AllocateClaim) -> None:  # noqa: N802
        claim = self.claims[action.claim.name]
        assert not claim.is_allocated
        taken = {device for other in self.claims.values() for device in other.devices}
        assert not taken & set(action.devices), "a device has two owners"
        assert set(action.devices) <= self._devices_of(claim), "a device is not its job's"
        self.claims[claim.name] = replace(
            claim, devices=action.devices, node=action.node, slurm_node=action.node, reserved_for=(action.consumer.uid,)
        )

    def _UngatePod(self, action: act.UngatePod) -> None:  # noqa: N802
        pod = self.pods[action.pod.name]
        for mate in self._mates(pod):
            claim = self.claims.get(f"{mate.name}-gpu")
            assert mate.is_terminal or (claim.is_allocated and claim.reserved_for == (mate.uid,))
        self.pods[pod.name] = replace(pod, gated=False)

    def _DeletePod(self, action: act.DeletePod) -> None:  # noqa: N802
        self.delete_pod(action.pod.name)

    def _ReleasePod(self, action: act.ReleasePod) -> None:  # noqa: N802
        pod = self.pods[action.pod.name]
        assert pod.stopped or self._is_fenced(pod.node), "a pod was let go without evidence"
        claim = self.claims.get(f"{pod.name}-gpu")
        assert claim is None or pod.uid not in claim.reserved_for, "a pod was let go before its devices were free"
        if pod.deleting:
            del self.pods[pod.name]
        else:
            self.pods[pod.name] = replace(pod, held=False)

    def _SetGuard(self, action: act.SetGuard) -> None:  # noqa: N802
        now(self.slurm.set_extra(action.nodes, action.text))

    def _DrainNodes(self, action: act.DrainNodes) -> None:  # noqa: N802
        now(self.slurm.drain(action.nodes, action.reason))

    def _ResumeNodes(self, action: act.ResumeNodes) -> None:  # noqa: N802
        now(self.slurm.resume(action.nodes, action.reason))

    def _FreeClaim(self, action: act.FreeClaim) -> None:  # noqa: N802
        users = [pod for pod in self.pods.values() if pod.uid in action.claim.reserved_for]
        assert all(pod.stopped or self._is_fenced(pod.node) for pod in users), "a claim was freed under a running pod"
        self.claims.pop(action.claim.name, None)

    def _WriteMirror(self, action: act.WriteMirror) -> None:  # noqa: N802
        name = mirror_name(action.job)
        old = self.mirrors.get(name)
        uid = old.uid if old else self._uid()
        self.mirrors[name] = MirrorView(
            namespace=MIRROR_NAMESPACE,
            name=name,
            uid=uid,
            job_id=action.job.job_id,
            submit_time=action.job.submit_time or 0,
            digest=digest(action.job),
        )

    def _DeleteMirror(self, action: act.DeleteMirror) -> None:  # noqa: N802
        assert not [claim for claim in self.claims.values() if claim.job_id == action.mirror.job_id]
        del self.mirrors[action.mirror.name]

    def _PublishPool(self, action: act.PublishPool) -> None:  # noqa: N802
        known = self.pools.get(action.kube_node)
        assert action.generation == (known.generation if known else 0) + 1
        self.pools[action.kube_node] = Pool(
            driver=DRIVER,
            name=action.kube_node,
            node=action.kube_node,
            generation=action.generation,
            devices=tuple(PoolDevice(name=each.name, index=each.index, type=each.type) for each in action.devices),
        )

    # Truth

    def _is_drained(self, node: str) -> bool:
        return now(self.slurm.view()).nodes[node].is_drained

    def _is_fenced(self, node: str) -> bool:
        return node in self.fences

    def _mates(self, pod: PodView) -> list[PodView]:
        return [each for each in self.pods.values() if (each.gang_uid, each.attempt) == (pod.gang_uid, pod.attempt)]

    def _holds_of(self, uid: str) -> list[int]:
        return [number for number in self.live_holds() if self.slurm.jobs[number].marker.key.uid == uid]

    def _assert_unused(self, job_id: int) -> None:
        """No pod may run and no claim may be there when the hold that they live on ends."""
        job = self.slurm.jobs[job_id]
        devices = self._granted([job_id])
        key = job.marker.key
        used = [
            claim
            for claim in self.claims.values()
            if (claim.gang_uid, claim.attempt) == (key.uid, key.attempt)
            and devices & set(claim.devices)
            and not self._is_drained(claim.node)
        ]
        nodes = [
            pod
            for pod in self.pods.values()
            if pod.gang_uid == key.uid and not pod.is_terminal and not self._is_drained(pod.node)
        ]
        assert not used
        assert not [pod for pod in nodes if pod.node in job.grants and not self._is_duplicate(job_id)]

    def _is_duplicate(self, job_id: int) -> bool:
        key = self.slurm.jobs[job_id].marker.key
        return any(other < job_id and self.slurm.jobs[other].marker.key == key for other in self.live_holds())

    def _devices_of(self, claim: ClaimView) -> set:
        if claim.job_id:
            return self._granted([claim.job_id])
        holds = [number for number in self._holds_of(claim.gang_uid) if self.slurm.jobs[number].is_running]
        return self._granted(holds)

    def _granted(self, numbers: Iterable[int]) -> set:
        return {
            device(node, index)
            for number in numbers
            if self.slurm.jobs[number].is_running
            for node, held in self.slurm.jobs[number].grants.items()
            for gres in held
            for index in gres.indices or ()
        }


def world(*names: str, **changes: Any) -> World:
    """Return a world of nodes with 8 tracked H100 each."""
    return World(slurm=FakeSlurm([FakeNode(name=name) for name in names or ("n1", "n2", "n3")]), **changes)
