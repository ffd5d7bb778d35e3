"""The definitions against the code that fills them, without a server."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from bridge.accounting.gres import parse_gres_request
from bridge.errors import ParseError
from bridge.model.duration import parse_time_limit
from bridge.model.fleet import Mode
from bridge.model.gang import Condition, GangStatus, HoldStatus, Outcome, Phase
from operators.kube.resources import FLEETS, GANGJOBS, GANGQUEUES, Resource
from tests.kube.builders import gangjob
from tests.kube.structural import CRDS, fill, problems, schema_of, unknown_fields

KINDS = [GANGJOBS, GANGQUEUES, FLEETS]
WITH_STATUS = [GANGJOBS, FLEETS]


def definition(resource: Resource) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((CRDS / f"{resource.plural}.yaml").read_text())["spec"]
    return found


def schema(resource: Resource) -> Mapping[str, Any]:
    found = schema_of(resource.plural)
    assert found is not None
    return found


def at(resource: Resource, path: str) -> Mapping[str, Any]:
    """Return the schema at a dotted path; lists are passed through."""
    here = schema(resource)
    for part in path.split("."):
        here = (here.get("items") or here)["properties"][part]
    return here


def walk(here: Mapping[str, Any], path: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    yield path, here
    for name, inner in (here.get("properties") or {}).items():
        yield from walk(inner, f"{path}.{name}")
    for part in ("items", "additionalProperties"):
        if isinstance(here.get(part), dict):
            yield from walk(here[part], f"{path}[]")


def camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(part.title() for part in rest)


def fields(kind: type) -> set[str]:
    return {camel(field.name) for field in dataclasses.fields(kind)}


def test_names_match_what_the_client_asks_for() -> None:
    for resource in KINDS:
        found = definition(resource)
        assert (found["group"], found["names"]["plural"], found["names"]["kind"]) == (
            resource.group,
            resource.plural,
            resource.kind,
        )
        assert (found["scope"] == "Namespaced") == resource.namespaced
        assert [version["name"] for version in found["versions"]] == [resource.version]
        has_status = {"status": {}} if resource in WITH_STATUS else None
        assert found["versions"][0].get("subresources") == has_status


def test_columns_are_the_promised_ones() -> None:
    columns = {
        resource.plural: " ".join(
            column["name"].upper()
            for column in definition(resource)["versions"][0]["additionalPrinterColumns"]
            if not column.get("priority")
        )
        for resource in KINDS
    }
    assert columns == {
        "gangjobs": "QUEUE PHASE REASON PODS GPUS PLACEMENT JOBID START AGE",
        "gangqueues": "FLEET PARTITION ACCOUNT QOS USER AGE",
        "fleets": "SLURM NODES GPUS-FREE PODS SBATCH GANGS VIOLATIONS SYNC AGE",
    }


def test_columns_point_at_fields_that_exist() -> None:
    for resource in KINDS:
        for column in definition(resource)["versions"][0]["additionalPrinterColumns"]:
            path = column["jsonPath"].lstrip(".")
            if not path.startswith("metadata"):
                kind = {"date": "string"}.get(column["type"], column["type"])
                assert at(resource, path)["type"] in {kind, "array"}, path


@pytest.mark.parametrize("resource", KINDS, ids=lambda resource: resource.plural)
def test_every_field_is_described_and_bounded(resource: Resource) -> None:
    """Unbounded strings and lists would break the cost limit of the rules; undescribed fields, ``kubectl explain``."""
    for part in ("spec", "status") if resource in WITH_STATUS else ("spec",):
        for path, here in walk(at(resource, part), part):
            is_item = path.endswith("[]") and here["type"] != "object"
            assert here.get("description") or is_item or path.endswith("schedulingGates[]"), path
            if here["type"] == "string":
                assert "maxLength" in here or "enum" in here or "format" in here, path
            if here["type"] == "array":
                assert "maxItems" in here, path
            if isinstance(here.get("additionalProperties"), dict):
                assert "maxProperties" in here, path
            assert here["type"] != "integer" or here.get("format") in {"int32", "int64"}, path


def test_gang_status_holds_exactly_what_the_model_has() -> None:
    shown = set(at(GANGJOBS, "status")["properties"])
    assert shown | set(at(GANGJOBS, "status.placement")["properties"]) - {"summary"} == fields(GangStatus)
    assert set(at(GANGJOBS, "status.outcome")["properties"]) == fields(Outcome)
    assert set(at(GANGJOBS, "status.hold")["properties"]) >= fields(HoldStatus)
    ours = (fields(Condition) - {"since"}) | {"lastTransitionTime", "observedGeneration"}
    assert set(at(GANGJOBS, "status.conditions")["items"]["properties"]) == ours


def test_enums_are_the_models() -> None:
    assert at(GANGJOBS, "status.phase")["enum"] == list(Phase)
    assert at(FLEETS, "spec.mode")["enum"] == list(Mode)


def test_nothing_is_promised_that_does_not_work_yet() -> None:
    text = "".join(path for resource in KINDS for path, _ in walk(schema(resource), ""))
    for word in ("notice", "successPolicy", "Manage"):
        assert word not in text
    assert at(GANGJOBS, "spec.roles")["maxItems"] == 1


def test_example_is_valid_and_gets_its_defaults() -> None:
    example = gangjob(failurePolicy={}, topology={"required": "rack"})
    assert list(unknown_fields(example, schema(GANGJOBS))) == []
    assert list(problems(example, schema(GANGJOBS))) == []
    assert fill(example, schema(GANGJOBS))["spec"]["failurePolicy"] == {"maxRestarts": 0}


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        pytest.param({"replicas": 0}, "replicas", id="0-replicas"),
        pytest.param({"replicas": 10**6}, "replicas", id="million"),
        pytest.param({"replicas": "4"}, "replicas", id="text"),
        pytest.param({"podsPerNode": 0}, "podsPerNode", id="0-per-node"),
        pytest.param({"template": {"spec": {"containers": []}}}, "containers", id="no-container"),
        pytest.param({"template": {"spec": {"containers": [{}]}}}, "name", id="nameless"),
        pytest.param({"gres": ""}, "gres", id="empty-gres"),
    ],
)
def test_structural_mistakes_are_found(change: dict[str, Any], problem: str) -> None:
    job = gangjob()
    job["spec"]["roles"][0] |= change
    assert any(problem in text for text in problems(job, schema(GANGJOBS)))


def rules(here: Mapping[str, Any]) -> list[re.Pattern[str]]:
    """Return the regular expressions of a field's rules; RE2 and re agree on what is used here."""
    found = [
        re.fullmatch(r"self\.matches\('(.*)'\)", rule["rule"].strip()) for rule in here["x-kubernetes-validations"]
    ]
    assert all(found)
    return [re.compile(match[1]) for match in found if match]


def allows(patterns: list[re.Pattern[str]], text: str) -> bool:
    return all(pattern.search(text) for pattern in patterns)


TIME = rules(at(GANGJOBS, "spec.timeLimit"))
GRES = rules(at(GANGJOBS, "spec.roles.gres"))


def test_queues_and_gangs_write_times_alike() -> None:
    assert rules(at(GANGQUEUES, "spec.limits.maxTimeLimit")) == TIME
    assert rules(at(GANGQUEUES, "spec.defaults.timeLimit")) == TIME


@given(st.text("0123456789dhms:-", max_size=12) | st.from_regex(TIME[0], fullmatch=True))
def test_schema_and_parser_agree_on_times(text: str) -> None:
    try:
        parse_time_limit(text)
    except ParseError as error:
        is_too_long = "outside" in error.problem and allows(TIME[1:], text)
        assert is_too_long or not allows(TIME, text)
    else:
        digits = max(len(number) for number in re.findall(r"\d+", text))
        assert allows(TIME, text) or digits > 2, "only absurdly long numbers are left to the schema"


@given(st.text("gpuh10:.-,", max_size=14) | st.from_regex(GRES[0], fullmatch=True))
def test_every_gres_the_schema_takes_can_be_read(text: str) -> None:
    if text.isascii() and allows(GRES, text) and len(text) <= 128:
        assert 1 <= parse_gres_request(text).count <= 32


@pytest.mark.parametrize("text", ["gpu:8", "gpu:h100:8", "gpu:1g.10gb:2", "gpu:a100_80gb:32", "gpu:10"])
def test_usual_gres_is_taken(text: str) -> None:
    assert allows(GRES, text)
