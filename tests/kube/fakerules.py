"""What the API server checks of each kind beyond storing it: the rules that gangbridge leans on."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tests.kube.structural import problems, schema_of, unknown_fields

Object = dict[str, Any]

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_ATTRIBUTE_KINDS = {"int", "bool", "string", "version"}


class Refused(Exception):
    """An answer with an HTTP code and a reason."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code, self.reason, self.message = code, reason, message


def invalid(message: str) -> Refused:
    return Refused(422, "Invalid", message)


def check(plural: str, new: Object, old: Object | None, *, subresource: str) -> None:
    """Raise ``Refused`` when the API server would refuse this create (``old`` None) or update."""
    _check_metadata(new)
    schema = schema_of(plural)
    if schema:
        if strange := list(unknown_fields(new, schema)):
            raise Refused(400, "BadRequest", f'strict decoding error: unknown field "{strange[0]}"')
        found = list(problems(new, schema))
    else:
        found = list(_RULES.get(plural, _nothing)(new, old, subresource))
    if found:
        raise invalid("; ".join(found))


def _check_metadata(obj: Object) -> None:
    meta = obj["metadata"]
    if len(meta["name"]) > 253 or not _SUBDOMAIN.fullmatch(meta["name"]):
        raise invalid(f"metadata.name: {meta['name']!r} is no DNS subdomain")
    for key, value in (meta.get("labels") or {}).items():
        if not isinstance(value, str) or len(value) > 63 or not _LABEL_VALUE.fullmatch(value):
            raise invalid(f"metadata.labels: {key}={value!r} is no label value")
    for finalizer in meta.get("finalizers") or []:
        if "/" not in finalizer:
            raise invalid(f"metadata.finalizers: {finalizer!r} is not qualified")
    for owner in meta.get("ownerReferences") or []:
        if not all(owner.get(field) for field in ("apiVersion", "kind", "name", "uid")):
            raise invalid("metadata.ownerReferences: apiVersion, kind, name and uid are required")


def _nothing(_new: Object, _old: Object | None, _subresource: str) -> Iterator[str]:
    yield from ()


def _claim(new: Object, old: Object | None, subresource: str) -> Iterator[str]:
    if subresource == "status" and old is not None:
        yield from _claim_status(new, old)
        return
    if old is not None and old["spec"] != new["spec"]:
        yield "spec: field is immutable"
    requests = new["spec"]["devices"].get("requests") or []
    if len(requests) > 32:
        yield "spec.devices.requests: at most 32"
    for request in requests:
        exactly = request.get("exactly") or {}
        if not _LABEL.fullmatch(request.get("name", "")):
            yield f"spec.devices.requests.name: {request.get('name')!r}"
        if not exactly.get("deviceClassName"):
            yield "spec.devices.requests.exactly.deviceClassName: required"
        if exactly.get("allocationMode", "ExactCount") == "ExactCount" and exactly.get("count", 1) < 1:
            yield "spec.devices.requests.exactly.count: must be greater than zero"


def _claim_status(new: Object, old: Object) -> Iterator[str]:
    was, status = old.get("status") or {}, new.get("status") or {}
    allocation, consumers = status.get("allocation"), status.get("reservedFor") or []
    if allocation and was.get("allocation") and allocation != was["allocation"]:
        yield "status.allocation: Invalid value: null: field cannot be modified once set"
    if allocation:
        yield from _allocation(allocation, {request["name"] for request in new["spec"]["devices"]["requests"]})
    elif consumers:
        yield "status.reservedFor: Forbidden: may not be specified when `allocated` is not set"
    uids = [consumer.get("uid") for consumer in consumers]
    if len(uids) > 256 or len(set(uids)) < len(uids):
        yield "status.reservedFor: at most 256, each uid once"
    if any(not consumer.get(field) for consumer in consumers for field in ("resource", "name", "uid")):
        yield "status.reservedFor: resource, name and uid are required"
    known = {consumer["uid"] for consumer in was.get("reservedFor") or []}
    if old["metadata"].get("deletionTimestamp") and set(uids) - known:
        yield "status.reservedFor: Forbidden: new entries may not be added while `deletionTimestamp` is set"


def _allocation(allocation: Object, requests: set[str]) -> Iterator[str]:
    results = allocation.get("devices", {}).get("results") or []
    if len(results) > 32:
        yield f"status.allocation.devices.results: Too many: {len(results)}: must have at most 32 items"
    for result in results:
        if result.get("request") not in requests:
            yield f"status.allocation.devices.results.request: Invalid value: {result.get('request')!r}"
        if not _SUBDOMAIN.fullmatch(result.get("driver", "")) or len(result["driver"]) > 63:
            yield "status.allocation.devices.results.driver: no DNS subdomain"
        if not all(_SUBDOMAIN.fullmatch(part) for part in result.get("pool", "").split("/")):
            yield "status.allocation.devices.results.pool: no DNS subdomain"
        if not _LABEL.fullmatch(result.get("device", "")):
            yield "status.allocation.devices.results.device: no DNS label"
    for term in (allocation.get("nodeSelector") or {}).get("nodeSelectorTerms") or []:
        yield from _match_fields(term)


def _match_fields(term: Mapping[str, Any]) -> Iterator[str]:
    for field in term.get("matchFields") or []:
        if field.get("key") != "metadata.name" or field.get("operator") not in {"In", "NotIn"}:
            yield f"matchFields: {field}"
        elif len(field.get("values") or []) != 1:
            yield "matchFields.values: must have one element"


def _slice(new: Object, old: Object | None, _subresource: str) -> Iterator[str]:
    spec = new["spec"]
    if old is not None and (old["spec"]["driver"], old["spec"]["pool"]["name"]) != (
        spec["driver"],
        spec["pool"]["name"],
    ):
        yield "spec.driver, spec.pool.name: field is immutable"
    chosen = [kind for kind in ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection") if spec.get(kind)]
    if len(chosen) != 1:
        yield f"spec: exactly one of nodeName, nodeSelector, allNodes is required, got {chosen}"
    if spec["pool"].get("resourceSliceCount", 0) < 1:
        yield "spec.pool.resourceSliceCount: must be greater than zero"
    terms = (spec.get("nodeSelector") or {}).get("nodeSelectorTerms")
    if terms is not None and len(terms) != 1:
        yield "spec.nodeSelector.nodeSelectorTerms: must have exactly one node selector term"
    devices = spec.get("devices") or []
    if len(devices) > 128:
        yield f"spec.devices: Too many: {len(devices)}: must have at most 128 items"
    names = [device["name"] for device in devices]
    if len(set(names)) < len(names):
        yield "spec.devices: duplicate name"
    for device in devices:
        yield from _device(device)


def _device(device: Mapping[str, Any]) -> Iterator[str]:
    if not _LABEL.fullmatch(device["name"]):
        yield f"spec.devices.name: {device['name']!r} is no DNS label"
    for key, value in (device.get("attributes") or {}).items():
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,31}", key):
            yield f"spec.devices.attributes: {key!r}"
        if len(value) != 1 or not set(value) <= _ATTRIBUTE_KINDS or len(str(next(iter(value.values())))) > 64:
            yield f"spec.devices.attributes[{key}]: {value}"


def _pod(new: Object, old: Object | None, subresource: str) -> Iterator[str]:
    spec = new["spec"]
    if subresource == "status":
        return
    if not _LABEL.fullmatch(spec.get("hostname", "a")) or not _LABEL.fullmatch(spec.get("subdomain", "a")):
        yield "spec.hostname, spec.subdomain: no DNS label"
    if spec.get("nodeName") and spec.get("schedulingGates"):
        yield "spec.nodeName: cannot be set until all schedulingGates have been cleared"
    claims = {claim["name"] for claim in spec.get("resourceClaims") or []}
    for container in [*(spec.get("initContainers") or []), *spec["containers"]]:
        for claim in (container.get("resources") or {}).get("claims") or []:
            if claim["name"] not in claims:
                yield f"spec.containers.resources.claims: Not found: {claim['name']!r}"
    if old is not None:
        yield from _pod_update(spec, old["spec"])


def _pod_update(spec: Object, was: Object) -> Iterator[str]:
    gates = {gate["name"] for gate in was.get("schedulingGates") or []}
    if {gate["name"] for gate in spec.get("schedulingGates") or []} - gates:
        yield "spec.schedulingGates: Forbidden: only deletion is allowed"
    ignored = {"schedulingGates", "tolerations"} | ({"affinity", "nodeSelector"} if gates else set())
    if {key: value for key, value in spec.items() if key not in ignored} != {
        key: value for key, value in was.items() if key not in ignored
    }:
        yield "spec: Forbidden: pod updates may not change fields other than schedulingGates, tolerations"


def _node_name(obj: Object) -> str:
    return str(obj["spec"].get("nodeName") or "")


def pod_grace(pod: Object, asked: int | None) -> int:
    """Return the grace period of a delete: none for pods that no kubelet runs."""
    if not _node_name(pod) or (pod.get("status") or {}).get("phase") in {"Succeeded", "Failed"}:
        return 0
    return asked if asked is not None else int(pod["spec"].get("terminationGracePeriodSeconds", 30))


_RULES: Mapping[str, Callable[[Object, Object | None, str], Iterator[str]]] = {
    "resourceclaims": _claim,
    "resourceslices": _slice,
    "pods": _pod,
}
