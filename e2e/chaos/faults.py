"""What is done to the fleet: one function per kind, which picks a target, injects, waits, and heals what it can.

A function returns when it is healed, or at once without a note when there is nothing to aim at.
"""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from e2e.chaos import daemons, sight
from e2e.chaos.diary import Diary
from e2e.chaos.keeper import Keeper, send, workers
from e2e.chaos.load import NAMESPACE, is_deleting
from e2e.chaos.sight import Job, Object
from e2e.chaos.witness import Witness
from e2e.lab import fleet
from e2e.scenario.commands import slurm

DOWN_REASON, DRAIN_REASON = "chaos: broken", "chaos: maintenance"
KUBELET_LABEL = fleet.KUBELET_LABEL


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """What the faults may touch, and what they know."""

    rng: random.Random
    diary: Diary
    keeper: Keeper
    witness: Witness

    def holds(self, *states: str) -> list[Job]:
        """Return the gangs' holds in one of ``states``, as last seen."""
        return [job for job in self.witness.latest.jobs if job.gang and job.state in states]

    def pick(self, among: Sequence[Job]) -> Job | None:
        """Draw one."""
        return self.rng.choice(among) if among else None

    def pick_object(self, among: Sequence[Object]) -> Object | None:
        """Draw one."""
        return self.rng.choice(among) if among else None


Fault = Callable[[Field, str], None]


def operator_killed(field: Field, kind: str) -> None:
    if field.keeper.kill():
        field.diary.note(kind)


def operator_frozen(field: Field, kind: str) -> None:
    pid = field.keeper.pick()
    if pid is not None and send(pid, signal.SIGSTOP):
        field.diary.note(kind)
        _wait(field, 1, 8)
        send(pid, signal.SIGCONT)


def worker_killed(field: Field, kind: str) -> None:
    pid = field.keeper.pick()
    for worker in workers(pid) if pid is not None else ():
        if send(worker, signal.SIGKILL):
            field.diary.note(kind)


def daemon_frozen(name: str, longest_s: float) -> Fault:
    def fault(field: Field, kind: str) -> None:
        field.diary.note(kind)
        with daemons.frozen(name):
            _wait(field, 0.5, longest_s)

    return fault


def daemon_restarted(name: str, how: signal.Signals, longest_s: float) -> Fault:
    def fault(field: Field, kind: str) -> None:
        field.diary.note(kind)
        with daemons.dead(name, how):
            _wait(field, 0, longest_s)

    return fault


def slurmd_killed(field: Field, kind: str) -> None:
    name = f"slurmd-{field.rng.choice(fleet.gpu_nodes()).slurm}"
    field.diary.note(kind, name)
    with daemons.dead(name, signal.SIGKILL):
        _wait(field, 0, 4)


def hold_cancelled(field: Field, kind: str) -> None:
    job = field.pick(field.holds("RUNNING", "PENDING"))
    if job is not None:
        field.diary.note(kind, f"job {job.job_id} {job.state}", job=job.job_id, gang=job.gang)
        _scontrol("scancel", str(job.job_id))


def hold_requeued(field: Field, kind: str) -> None:
    """Slurm refuses it for a job without a script; nothing may come of it."""
    job = field.pick(field.holds("RUNNING"))
    if job is not None:
        field.diary.note(kind, f"job {job.job_id}", job=job.job_id, gang=job.gang)
        _scontrol("scontrol", "requeue", str(job.job_id))


def hold_held(field: Field, kind: str) -> None:
    job = field.pick(field.holds("PENDING"))
    if job is not None:
        field.diary.note(kind, f"job {job.job_id}")
        _scontrol("scontrol", "hold", str(job.job_id))
        _wait(field, 1, 4)
        _scontrol("scontrol", "release", str(job.job_id))


def hold_extended(field: Field, kind: str) -> None:
    job = field.pick(field.holds("RUNNING", "PENDING"))
    if job is not None:
        field.diary.note(kind, f"job {job.job_id}")
        _scontrol("scontrol", "update", f"JobId={job.job_id}", "TimeLimit=00:45:00")


def node_down(field: Field, kind: str) -> None:
    _close(field, kind, "DOWN", DOWN_REASON, most_s=5)


def node_drained(field: Field, kind: str) -> None:
    _close(field, kind, "DRAIN", DRAIN_REASON, most_s=6)


def _close(field: Field, kind: str, state: str, reason: str, *, most_s: int) -> None:
    node = field.rng.choice(fleet.gpu_nodes())
    if _state(node.slurm) & {"DRAIN", "DOWN"}:
        return
    field.diary.note(kind, node.slurm)
    _scontrol("scontrol", "update", f"NodeName={node.slurm}", f"State={state}", f"Reason={reason}")
    _wait(field, 2, most_s)
    resume(node.slurm)


def resume(node: str) -> None:
    """Open a node that one of these faults closed; another reason is not ours to take away.

    No epilog keeps a node that was down: no admin opens it while it is guarded.
    """
    if reason(node) == DOWN_REASON and not _is_unguarded(node, within_s=30):
        return
    if reason(node) in {DOWN_REASON, DRAIN_REASON}:
        _scontrol("scontrol", "update", f"NodeName={node}", "State=RESUME")


def reason(node: str) -> str:
    """Return why a node is closed, as far as the text of the reason goes; empty when it is not."""
    return _shown(node, "Reason").partition(" [")[0]


def pod_deleted(field: Field, kind: str) -> None:
    _delete_pod(field, kind, {})


def pod_force_deleted(field: Field, kind: str) -> None:
    _delete_pod(field, kind, {"gracePeriodSeconds": 0})


def gang_deleted(field: Field, kind: str) -> None:
    obj = field.pick_object([obj for obj in field.witness.latest.gangs if not is_deleting(obj)])
    if obj is not None:
        field.diary.note(kind, obj["metadata"]["name"], gang=obj["metadata"]["uid"])
        sight.api().delete(_path("/apis/gangbridge.dev/v1alpha1", "gangjobs", obj))


def gang_stripped(field: Field, kind: str) -> None:
    """Deleted, and its finalizer taken off by somebody who was in a hurry."""
    obj = field.pick_object(field.witness.latest.gangs)
    if obj is not None:
        path = _path("/apis/gangbridge.dev/v1alpha1", "gangjobs", obj)
        field.diary.note(kind, obj["metadata"]["name"], gang=obj["metadata"]["uid"])
        sight.api().delete(path)
        sight.api().call("PATCH", path, {"metadata": {"finalizers": None}}, "application/merge-patch+json")


def kubelet_silent(field: Field, kind: str) -> None:
    """A node's kubelet does nothing for a while: no pod starts or ends there, what runs goes on."""
    node = field.rng.choice(fleet.gpu_nodes())
    field.diary.note(kind, node.kube)
    if node.kubelet is fleet.Kubelet.REAL:
        with daemons.frozen(f"kubelet-{node.kube}"):
            _wait(field, 2, 8)
        return
    # KWOK plays the nodes with a label; this one is not played for a while.
    sight.api().merge(f"{sight.NODES}/{node.kube}", {"metadata": {"labels": {KUBELET_LABEL: "silent"}}})
    try:
        _wait(field, 2, 8)
    finally:
        play(node)


def play(node: fleet.LabNode) -> None:
    """Let KWOK play a node again, however often it takes."""
    deadline = time.monotonic() + 60
    while True:
        try:
            label = {KUBELET_LABEL: str(node.kubelet)}
            sight.api().merge(f"{sight.NODES}/{node.kube}", {"metadata": {"labels": label}})
        except sight.UNREACHABLE:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)
        else:
            return


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """``weight`` is how often it is drawn; two faults with a ``target`` in common never overlap."""

    name: str
    weight: int
    inject: Fault
    target: str = ""


KINDS = (
    Kind(name="operator killed", weight=7, inject=operator_killed),
    Kind(name="operator frozen", weight=2, inject=operator_frozen, target="operator"),
    Kind(name="Slurm worker killed", weight=6, inject=worker_killed),
    Kind(name="slurmctld frozen", weight=5, inject=daemon_frozen("slurmctld", 12), target="slurmctld"),
    Kind(name="slurmctld restarted", weight=3, inject=daemon_restarted("slurmctld", signal.SIGTERM, 4),
         target="slurmctld"),
    Kind(name="slurmdbd killed", weight=3, inject=daemon_restarted("slurmdbd", signal.SIGKILL, 6), target="slurmdbd"),
    Kind(name="slurmd killed", weight=4, inject=slurmd_killed, target="slurmd"),
    Kind(name="API server frozen", weight=5, inject=daemon_frozen("kube-apiserver", 8), target="kube-apiserver"),
    Kind(name="API server killed", weight=3, inject=daemon_restarted("kube-apiserver", signal.SIGKILL, 3),
         target="kube-apiserver"),
    Kind(name="kube-scheduler killed", weight=1, inject=daemon_restarted("kube-scheduler", signal.SIGKILL, 2),
         target="kube-scheduler"),
    Kind(name="controller manager killed", weight=1,
         inject=daemon_restarted("kube-controller-manager", signal.SIGKILL, 2), target="kube-controller-manager"),
    Kind(name="hold cancelled by an admin", weight=9, inject=hold_cancelled),
    Kind(name="hold requeued by an admin", weight=1, inject=hold_requeued),
    Kind(name="hold held and released", weight=4, inject=hold_held),
    Kind(name="hold given another time limit", weight=2, inject=hold_extended),
    Kind(name="node down and back in Slurm", weight=3, inject=node_down, target="node"),
    Kind(name="node drained and back", weight=4, inject=node_drained, target="node"),
    Kind(name="pod deleted", weight=5, inject=pod_deleted),
    Kind(name="pod force deleted", weight=7, inject=pod_force_deleted),
    Kind(name="GangJob deleted", weight=6, inject=gang_deleted),
    Kind(name="GangJob's finalizer stripped", weight=3, inject=gang_stripped),
    Kind(name="kubelet silent", weight=4, inject=kubelet_silent, target="kubelet"),
)  # fmt: skip


def _delete_pod(field: Field, kind: str, options: Object) -> None:
    pod = field.pick_object([pod for pod in field.witness.latest.pods if not is_deleting(pod)])
    if pod is not None:
        meta = pod["metadata"]
        field.diary.note(kind, meta["name"], gang=sight.label(pod, "gang-uid"))
        sight.api().call("DELETE", _path("/api/v1", "pods", pod), options)


def _path(group: str, plural: str, obj: Object) -> str:
    return f"{group}/namespaces/{NAMESPACE}/{plural}/{obj['metadata']['name']}"


def _state(node: str) -> set[str]:
    text = slurm("scontrol", "show", "node", node, "-o", timeout_s=8)
    return set(text.partition(" State=")[2].split()[0].replace("*", "").split("+"))


def _shown(node: str, name: str) -> str:
    """Return one of the values that scontrol shows of a node on a line of its own."""
    lines = (line.strip() for line in slurm("scontrol", "show", "node", node, timeout_s=8).splitlines())
    return next((line.removeprefix(f"{name}=") for line in lines if line.startswith(f"{name}=")), "")


def _is_unguarded(node: str, within_s: float) -> bool:
    deadline = time.monotonic() + within_s
    while _shown(node, "Extra"):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.5)
    return True


def _scontrol(command: str, *args: str) -> None:
    slurm(command, *args, timeout_s=15)


def _wait(field: Field, shortest_s: float, longest_s: float) -> None:
    time.sleep(field.rng.uniform(shortest_s, longest_s))
