"""A GangJob from a file, checked as far as a plan needs it: the API server's schema is not at hand."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bridge import wellknown
from bridge.errors import SpecError
from bridge.model.gang import Gang
from operators import reading
from operators.plan.located import BadInput, Document, parse_yaml, read_text

SPEC_FIELDS = frozenset({"queue", "timeLimit", "roles", "topology", "failurePolicy", "origin"})
TOPOLOGY_FIELDS = frozenset({"required", "preferred", "segment"})
ROLE_FIELDS = frozenset({"name", "replicas", "podsPerNode", "gres", "template"})
MOST_REPLICAS = 4096
_PLANNED = {"uid": "planned", "creationTimestamp": "1970-01-01T00:00:00Z"}


def read_gang_file(path: Path, namespace: str) -> Gang:
    """Return the one GangJob in a file (``-``: standard input) as if it had just been created.

    ``namespace`` counts where the file names none. BadInput names file, line and field.
    """
    file = "standard input" if str(path) == "-" else str(path)
    documents = parse_yaml(file, sys.stdin.read() if str(path) == "-" else read_text(path))
    found = [each for each in documents if isinstance(each.value, dict) and each.value.get("kind") == "GangJob"]
    if len(found) != 1:
        lines = ", ".join(str(each.line("kind")) for each in found)
        raise BadInput(file, None, f"has {len(found)} GangJobs{f' (lines {lines})' if found else ''}, one is needed")
    document = found[0]
    _check(document)
    meta = {"namespace": namespace} | document.value["metadata"] | _PLANNED
    gang = reading.read_gang(document.value | {"metadata": meta, "status": {}})
    if isinstance(gang.spec, SpecError):
        raise document.error(gang.spec.path, gang.spec.problem) from gang.spec
    return gang


def _check(document: Document) -> None:
    obj = document.value
    if obj.get("apiVersion") != wellknown.API_VERSION:
        raise document.error("apiVersion", f"is {obj.get('apiVersion')!r}, must be {wellknown.API_VERSION}")
    meta = _mapping(document, obj, "metadata")
    _text(document, meta, "metadata.name")
    if "namespace" in meta:
        _text(document, meta, "metadata.namespace")
    spec = _mapping(document, obj, "spec")
    _known(document, spec, "spec", SPEC_FIELDS)
    _text(document, spec, "spec.queue")
    if "timeLimit" in spec:
        _text(document, spec, "spec.timeLimit")
    if spec.get("topology") is not None:
        topology = _mapping(document, spec, "spec.topology")
        _known(document, topology, "spec.topology", TOPOLOGY_FIELDS)
        for field in ("required", "preferred"):
            if field in topology:
                _text(document, topology, f"spec.topology.{field}")
    if not isinstance(spec.get("roles"), list) or not spec["roles"]:
        raise document.error("spec.roles", "must be a list of at least one role")
    for number in range(len(spec["roles"])):
        _check_role(document, spec["roles"][number], f"spec.roles[{number}]")


def _check_role(document: Document, role: Any, path: str) -> None:  # noqa: ANN401 - whatever stands in the file
    if not isinstance(role, dict):
        raise document.error(path, f"must be a mapping, is {role!r}")
    _known(document, role, path, ROLE_FIELDS)
    _text(document, role, f"{path}.name")
    _text(document, role, f"{path}.gres")
    _number(document, role, f"{path}.replicas", MOST_REPLICAS)
    if "podsPerNode" in role:
        _number(document, role, f"{path}.podsPerNode", 64)
        if role["replicas"] % role["podsPerNode"]:
            problem = f"{role['replicas']} replicas do not divide into {role['podsPerNode']} on each node"
            raise document.error(f"{path}.podsPerNode", problem)
    pod = _mapping(document, _mapping(document, role, f"{path}.template"), f"{path}.template.spec")
    containers, at = pod.get("containers"), f"{path}.template.spec.containers"
    if not isinstance(containers, list) or not containers:
        raise document.error(at, "must be a list of at least one container")
    for number, container in enumerate(containers):
        if not isinstance(container, dict):
            raise document.error(f"{at}[{number}]", f"must be a mapping, is {container!r}")
        resources = container.get("resources") or {}
        if not isinstance(resources, dict):
            raise document.error(f"{at}[{number}].resources", f"must be a mapping, is {resources!r}")
        for field in ("requests", "limits"):
            if resources.get(field) is not None:
                _mapping(document, resources, f"{at}[{number}].resources.{field}")


def _known(document: Document, value: Mapping[str, Any], path: str, fields: frozenset[str]) -> None:
    for field in value:
        if field not in fields:
            known = ", ".join(sorted(fields))
            raise document.error(f"{path}.{field}", f"there is no such field (there are: {known})")


def _mapping(document: Document, parent: Mapping[str, Any], path: str) -> Mapping[str, Any]:
    value = parent.get(_last(path))
    if not isinstance(value, dict):
        raise document.error(path, "is missing" if value is None else f"must be a mapping, is {value!r}")
    return value


def _text(document: Document, parent: Mapping[str, Any], path: str) -> None:
    value = parent.get(_last(path))
    if value is None:
        raise document.error(path, "is missing")
    if not isinstance(value, str) or not value:
        raise document.error(path, f"must be a text (put it in quotes), is {value!r}")


def _number(document: Document, parent: Mapping[str, Any], path: str, most: int) -> None:
    value = parent.get(_last(path))
    if value is None:
        raise document.error(path, "is missing")
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
        raise document.error(path, f"must be a whole number from 1 to {most}, is {value!r}")


def _last(path: str) -> str:
    return path.rpartition(".")[2]
