"""Gangs that a server or the policy refuses are parked with its words, and start by themselves when the cause goes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from e2e.scenario import batch, fleet, gang
from e2e.scenario.commands import NAMESPACE, Object, apply, kubectl, listed

pytestmark = pytest.mark.usefixtures("bridge")

STARTS_WITHIN_S = 25
"""The back-off after a refusal by a server is 15 s."""
HARMLESS = {
    "securityContext": {
        "runAsNonRoot": True,
        "runAsUser": 1000,
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }
}
QUEUES = ("late", "dear", "vain")


@pytest.fixture
def causes() -> Iterator[None]:
    """A quota for pods that request something, and a standard of security; no queue ``late`` yet."""
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "no-pods", "namespace": NAMESPACE},
        "spec": {"hard": {"pods": "0"}, "scopes": ["NotBestEffort"]},
    }
    apply(quota, _queue("dear", account="bio"), _queue("vain", qos="nosuchqos"))
    kubectl("label", "namespace", NAMESPACE, "pod-security.kubernetes.io/enforce=restricted")
    yield
    _remove_obstacles()
    kubectl("delete", "gangqueues", *QUEUES, "--ignore-not-found")


@pytest.mark.usefixtures("causes")
def test_five_parked_gangs_say_why_in_the_servers_words_and_start_when_the_causes_go_away() -> None:
    before = {job["job_id"] for job in batch.jobs()}
    with fleet.only(*fleet.KWOK):
        gangs = {
            "early": gang.submit("early", queue="late", pod_spec=_pod()),
            "charged": gang.submit("charged", queue="dear", pod_spec=_pod()),
            "ranked": gang.submit("ranked", queue="vain", pod_spec=_pod()),
            "thrifty": gang.submit("thrifty", pod_spec=_pod(resources={"requests": {"cpu": "1"}})),
            "loose": gang.submit("loose"),
        }
        assert "there is no GangQueue 'late'" in gangs["early"].parked("UnknownQueue")
        assert "Invalid account or account/partition combination" in gangs["charged"].parked("SlurmRejected")
        assert "Invalid qos" in gangs["ranked"].parked("SlurmRejected")
        assert "exceeded quota: no-pods, requested: pods=1" in gangs["thrifty"].parked("PodRejected")
        assert 'violates PodSecurity "restricted' in gangs["loose"].parked("PodRejected")
        assert {each.status()["phase"] for each in gangs.values()} == {"Pending"}
        assert {job["job_id"] for job in batch.jobs()} <= before, "nothing was submitted"
        assert listed("pods,resourceclaims") == []

        _remove_obstacles()
        apply(_queue("late"), _queue("dear"), _queue("vain"))
        for each in gangs.values():
            each.wait_for("Running", within_s=STARTS_WITHIN_S)
    assert {gangs["charged"].hold()["account"], gangs["ranked"].hold()["account"]} == {"physics"}


def _remove_obstacles() -> None:
    kubectl("delete", "resourcequotas", "no-pods", "-n", NAMESPACE, "--ignore-not-found")
    kubectl("label", "namespace", NAMESPACE, "pod-security.kubernetes.io/enforce-")


def _pod(**container: Object) -> Object:
    """Return a pod that the strictest standard admits."""
    return {"containers": [{"name": "main", "image": gang.IMAGE, "imagePullPolicy": "Never", **HARMLESS, **container}]}


def _queue(name: str, *, account: str = "physics", qos: str = "normal") -> Object:
    return {
        "apiVersion": "gangbridge.dev/v1alpha1",
        "kind": "GangQueue",
        "metadata": {"name": name},
        "spec": {
            "fleet": "main",
            "namespaces": {"names": [NAMESPACE]},
            "slurm": {"partition": "gpu", "account": account, "qos": [qos], "user": "alice"},
        },
    }
