"""Rights and policies as they are shipped, without a server."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from bridge import wellknown
from e2e.lab import identities
from operators.kube.slices import build_device_class
from operators.lease import NAME
from operators.settings import Settings
from tests.kube.realapi import DRIVER, OPERATOR

MANIFESTS = Path(__file__).parents[2] / "operators" / "manifests"


def objects(folder: str) -> list[dict[str, Any]]:
    """Return the objects that the folder's kustomization lists."""
    listed = yaml.safe_load((MANIFESTS / folder / "kustomization.yaml").read_text())["resources"]
    texts = [(MANIFESTS / folder / name).read_text() for name in listed]
    return [obj for text in texts for obj in yaml.safe_load_all(text)]


def one(kind: str, name: str, folder: str = "access") -> dict[str, Any]:
    (found,) = (obj for obj in objects(folder) if (obj["kind"], obj["metadata"]["name"]) == (kind, name))
    return found


def rights(role: str) -> set[str]:
    rules = one("ClusterRole", role)["rules"]
    return {f"{verb} {resource}" for rule in rules for resource in rule["resources"] for verb in rule["verbs"]}


def test_every_file_is_listed() -> None:
    for folder in ("access", "workloads"):
        listed = yaml.safe_load((MANIFESTS / folder / "kustomization.yaml").read_text())["resources"]
        assert sorted([*listed, "kustomization.yaml"]) == sorted(path.name for path in (MANIFESTS / folder).iterdir())


def test_operator_has_these_rights_and_no_others() -> None:
    every = {"get", "list", "watch", "create", "update", "patch", "delete"}
    wanted = {f"{verb} gangjobs" for verb in every}
    wanted |= {
        f"{verb} {kind}" for kind in ("gangqueues", "fleets", "nodes") for verb in ("get", "list", "watch", "patch")
    }
    wanted |= {f"{verb} {kind}/status" for kind in ("gangjobs", "fleets") for verb in ("get", "update", "patch")}
    wanted |= {f"{verb} {kind}" for kind in ("pods", "services") for verb in every - {"update"}}
    wanted |= {f"{verb} {kind}" for kind in ("resourceclaims", "resourceslices") for verb in every}
    wanted |= {f"{verb} resourceclaims/{sub}" for sub in ("status", "binding") for verb in ("update", "patch")}
    for kind in ("namespaces", "deviceclasses", "customresourcedefinitions"):
        wanted |= {f"{verb} {kind}" for verb in ("get", "list", "watch")}
    wanted |= {"update gangjobs/finalizers", "create events", "patch events"}
    assert rights("gangbridge") == wanted


def test_operator_cannot_run_code_or_read_secrets() -> None:
    for obj in objects("access"):
        for rule in obj.get("rules", []):
            assert not {"*"} & {*rule["apiGroups"], *rule["resources"], *rule["verbs"]}
            assert not {"secrets", "pods/exec", "pods/binding", "nodes/proxy"} & set(rule["resources"])


def test_driver_only_reads() -> None:
    reads = {"get resourceclaims"} | {f"{verb} resourceslices" for verb in ("get", "list", "watch")}
    assert rights("gangbridge-driver") == reads


def test_binding_right_holds_in_all_namespaces() -> None:
    """The API server asks for resourceclaims/binding cluster-wide: a RoleBinding would not do."""
    binding = one("ClusterRoleBinding", "gangbridge")
    assert binding["roleRef"]["name"] == "gangbridge"
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "gangbridge", "namespace": "gangbridge-system"}]


def test_policies_name_the_operator_and_the_driver_spelled_in_the_code() -> None:
    policies = [obj for obj in objects("access") if obj["kind"] == "ValidatingAdmissionPolicy"]
    bound = {obj["spec"]["policyName"] for obj in objects("access") if obj["kind"].endswith("PolicyBinding")}
    assert {policy["metadata"]["name"] for policy in policies} == bound
    for policy in policies:
        assert policy["spec"]["failurePolicy"] == "Fail"
        assert f'!= "{OPERATOR}"' in policy["spec"]["matchConditions"][0]["expression"]
        for validation in policy["spec"]["validations"]:
            assert "gang" in validation["message"]
    text = "".join(path.read_text() for path in (MANIFESTS / "access").glob("*-policies.yaml"))
    assert f'["{wellknown.DRIVER}"]' in text
    spelled = set(re.findall(r"gangbridge\.dev/[a-z-]+", text))
    labels = {wellknown.MANAGED_BY, wellknown.GANG_UID, wellknown.ATTEMPT, wellknown.RANK, wellknown.SLURM_NODE}
    assert spelled == labels | {wellknown.FINALIZER}
    assert set(re.findall(r'"(gangbridge-[a-z]+)"', text)) == {wellknown.MIRROR_NAMESPACE}


def test_service_accounts_are_the_labs_identities() -> None:
    users = {identity.user for identity in identities.identities()}
    assert {OPERATOR, DRIVER} <= users


def test_device_class_is_the_builders() -> None:
    assert one("DeviceClass", wellknown.DRIVER) == build_device_class()


def test_workloads_run_as_their_service_accounts() -> None:
    operator = one("Deployment", "gangbridge", "workloads")["spec"]
    assert operator["replicas"] == 2
    driver = one("DaemonSet", "gangbridge-driver", "workloads")["spec"]
    for workload, name in ((operator, "gangbridge"), (driver, "gangbridge-driver")):
        pod = workload["template"]["spec"]
        assert pod["serviceAccountName"] == name
        assert [container["image"] for container in pod["containers"]] == ["gangbridge"]
        assert pod["containers"][0]["securityContext"]["allowPrivilegeEscalation"] is False


def test_replicas_hold_the_lease_that_is_installed_under_the_names_of_their_pods() -> None:
    lease = one("Lease", NAME)
    assert lease["metadata"]["namespace"] == Settings().lease_namespace
    assert "spec" not in lease, "applying the manifests again must not take the Lease from its holder"
    named, unnamed = one("Role", "gangbridge-leader")["rules"]
    assert (named["resourceNames"], named["verbs"]) == ([NAME], ["get", "update"])
    assert ("resourceNames" in unnamed, unnamed["verbs"]) == (False, ["create"])
    (container,) = one("Deployment", "gangbridge", "workloads")["spec"]["template"]["spec"]["containers"]
    names = [variable["valueFrom"] for variable in container["env"] if variable["name"] == "POD_NAME"]
    assert names == [{"fieldRef": {"fieldPath": "metadata.name"}}]
