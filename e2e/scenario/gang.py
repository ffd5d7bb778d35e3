"""GangJobs: manifests as researchers write them, and what kubectl shows of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from e2e.scenario import batch
from e2e.scenario.commands import NAMESPACE, Object, apply, conditions, found, kubectl, listed
from e2e.scenario.eventually import eventually

IMAGE = "localhost/lab/busybox:1"
FOREVER = "trap 'exit 0' TERM; sleep 600 & wait"
"""Runs until it is asked to end, and then ends at once."""
SHOW_DEVICES = "ls /dev/fakegpu*; env; "
"""Prints the device nodes that the container has, and its environment."""
OVER = frozenset({"Succeeded", "Failed"})


def manifest(
    name: str,
    *,
    pods: int = 1,
    gpus: int = 1,
    script: str = FOREVER,
    queue: str = "gpu",
    per_node: int | None = None,
    kwok: str | None = None,
    terminating: str | None = None,
    grace_s: int = 2,
    namespace: str = NAMESPACE,
    pod_spec: Object | None = None,
    **spec: Any,
) -> Object:
    """Return a GangJob of ``pods`` pods with ``gpus`` devices each.

    ``kwok`` says how its pods end where no real kubelet runs them: run, succeed or fail; ``terminating`` how long they
    take there to stop when they are deleted.
    """
    container = {"name": "main", "image": IMAGE, "imagePullPolicy": "Never", "command": ["sh", "-c", script]}
    template: Object = {
        "spec": {"containers": [container], "terminationGracePeriodSeconds": grace_s, **(pod_spec or {})}
    }
    played = {"result": kwok, "terminating": terminating}
    if annotations := {f"kwok.gangbridge.dev/{key}": value for key, value in played.items() if value}:
        template["metadata"] = {"annotations": annotations}
    role: Object = {"name": "worker", "replicas": pods, "gres": f"gpu:h100:{gpus}", "template": template}
    if per_node:
        role["podsPerNode"] = per_node
    return {
        "apiVersion": "gangbridge.dev/v1alpha1",
        "kind": "GangJob",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"queue": queue, "timeLimit": "30m", "roles": [role], **spec},
    }


@dataclass(frozen=True, slots=True)
class Gang:
    """A GangJob that was applied."""

    name: str
    namespace: str = NAMESPACE

    def raw(self) -> Object:
        """Return the object; AssertionError when there is none."""
        obj = found("gangjob", self.name, namespace=self.namespace)
        assert obj is not None, f"there is no GangJob {self.namespace}/{self.name}"
        return obj

    def status(self) -> Object:
        """Return the status, empty before the first one."""
        status: Object = self.raw().get("status", {})
        return status

    def uid(self) -> str:
        """Return the uid."""
        uid: str = self.raw()["metadata"]["uid"]
        return uid

    def condition(self, type_: str) -> Object:
        """Return a condition; its status is Unknown before it is set."""
        return conditions(self.raw()).get(type_, {"status": "Unknown", "reason": "", "message": ""})

    def wait_for(self, *phases: str, within_s: float = 20) -> Object:
        """Return the status once the phase is one of ``phases``; fail early when the gang is over in another one."""

        def probe() -> Object | None:
            status = self.status()
            phase = status.get("phase")
            if phase in phases:
                return status
            if phase in OVER:
                raise PhaseMissed(f"{self.name} is {phase}: {status.get('message')}")
            shown = {key: status.get(key) for key in ("phase", "reason", "message", "pods")}
            raise AssertionError(f"{self.name}: {shown}")

        found_status = eventually(probe, f"{self.name} is {' or '.join(phases)}", within_s=within_s)
        assert found_status is not None
        return found_status

    def parked(self, reason: str, *, within_s: float = 10) -> str:
        """Return the message of ``Accepted=False`` with ``reason``."""

        def probe() -> str | None:
            condition = self.condition("Accepted")
            assert (condition["status"], condition["reason"]) == ("False", reason), condition
            return str(condition["message"])

        message = eventually(probe, f"{self.name} is parked for {reason}", within_s=within_s)
        assert message
        return message

    def waits(self, reason: str, words: str, *, within_s: float = 10) -> None:
        """Assert that the gang is Queued for ``reason`` and soon says ``words`` in its message."""

        def probe() -> bool:
            status = self.status()
            shown = status.get("phase"), status.get("reason"), status.get("message", "")
            assert shown[:2] == ("Queued", reason), shown
            assert words in shown[2], shown
            return True

        eventually(probe, f"{self.name} waits for {reason}", within_s=within_s)

    def pods(self, attempt: int | None = None) -> list[Object]:
        """Return the pods in rank order."""
        selector = f"gangbridge.dev/gang-uid={self.uid()}" + (f",gangbridge.dev/attempt={attempt}" if attempt else "")
        return sorted(listed("pods", "-l", selector, namespace=self.namespace), key=rank)

    def claims(self) -> list[Object]:
        """Return the claims in rank order."""
        selector = f"gangbridge.dev/gang-uid={self.uid()}"
        return sorted(listed("resourceclaims", "-l", selector, namespace=self.namespace), key=rank)

    def hold(self) -> Object:
        """Return the hold of the current attempt as slurmctld shows it."""
        shown = eventually(lambda: self.status().get("hold"), f"{self.name} shows its hold")
        return batch.job(shown["jobId"])

    def holds(self) -> list[Object]:
        """Return every hold of the gang, ended ones too."""
        return batch.holds_of(self.uid(), batch.jobs())

    def delete(self) -> None:
        """``kubectl delete`` it and return when it is gone."""
        kubectl("delete", "gangjob", self.name, "-n", self.namespace, "--timeout=40s")

    def request_deletion(self) -> None:
        """``kubectl delete --wait=false`` it."""
        kubectl("delete", "gangjob", self.name, "-n", self.namespace, "--wait=false")


class PhaseMissed(Exception):
    """The gang ended without ever showing the phase that was waited for."""


def submit(name: str, user: str = "alice", **spec: Any) -> Gang:
    """Apply a GangJob (see ``manifest``) as ``user``."""
    obj = manifest(name, **spec)
    apply(obj, user=user)
    return Gang(name, obj["metadata"]["namespace"])


def rank(obj: Object) -> int:
    """Return the rank of a pod or claim."""
    return int(obj["metadata"]["labels"]["gangbridge.dev/rank"])


def environment(pod: Object) -> dict[str, str]:
    """Return what ``env`` printed in the pod."""
    lines = logs(pod).splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line)


def seen_devices(pod: Object) -> list[int]:
    """Return the numbers of the device nodes that the pod's container has, from what ``ls`` printed in it."""
    lines = logs(pod).splitlines()
    return sorted(int(line.removeprefix("/dev/fakegpu")) for line in lines if line.startswith("/dev/fakegpu"))


def logs(pod: Object) -> str:
    """Return ``kubectl logs`` of a pod."""
    return kubectl("logs", "-n", pod["metadata"]["namespace"], pod["metadata"]["name"])
