"""The structural half of a CustomResourceDefinition: defaults, types, limits, unknown fields; not its CEL rules."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

CRDS = Path(__file__).parents[2] / "crds"

_TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "boolean": (bool,),
    "number": (int, float),
}


@lru_cache
def schema_of(plural: str) -> Mapping[str, Any] | None:
    """Return the schema of one of the project's kinds, or None for anything else."""
    path = CRDS / f"{plural}.yaml"
    if not path.exists():
        return None
    version = yaml.safe_load(path.read_text())["spec"]["versions"][0]
    schema: dict[str, Any] = version["schema"]["openAPIV3Schema"]
    return schema


def fill(value: Any, schema: Mapping[str, Any]) -> Any:
    """Return ``value`` with the schema's defaults."""
    if isinstance(value, dict):
        properties = schema.get("properties") or {}
        found = dict(value)
        for name, inner in properties.items():
            if name not in found and "default" in inner:
                found[name] = inner["default"]
            if name in found:
                found[name] = fill(found[name], inner)
        return found
    if isinstance(value, list):
        return [fill(item, schema.get("items") or {}) for item in value]
    return value


def unknown_fields(value: Any, schema: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """Yield the paths that strict field validation refuses."""
    if isinstance(value, dict) and schema.get("type") == "object" and path != "metadata":
        properties = schema.get("properties") or {}
        extra = schema.get("additionalProperties")
        for name, inner in value.items():
            where = f"{path}.{name}".lstrip(".")
            if name in properties:
                yield from unknown_fields(inner, properties[name], where)
            elif isinstance(extra, dict):
                yield from unknown_fields(inner, extra, where)
            elif not schema.get("x-kubernetes-preserve-unknown-fields"):
                yield where
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from unknown_fields(item, schema.get("items") or {}, f"{path}[{index}]")


def problems(value: Any, schema: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """Yield every broken rule as ``path: problem``."""
    kind = schema.get("type")
    if kind and (not isinstance(value, _TYPES[kind]) or (kind == "integer" and isinstance(value, bool))):
        yield f"{path}: must be of type {kind}: {value!r}"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{path}: {value!r} is not one of {schema['enum']}"
    if isinstance(value, dict):
        yield from _object_problems(value, schema, path)
    elif isinstance(value, list):
        yield from _size_problems(len(value), schema, "Items", path)
        yield from _key_problems(value, schema, path)
        for index, item in enumerate(value):
            yield from problems(item, schema.get("items") or {}, f"{path}[{index}]")
    elif isinstance(value, str):
        yield from _size_problems(len(value), schema, "Length", path)
        yield from _format_problems(value, schema, path)
    elif isinstance(value, int | float) and not schema.get("minimum", value) <= value <= schema.get("maximum", value):
        yield f"{path}: {value} is outside {schema.get('minimum')}..{schema.get('maximum')}"


def _object_problems(value: Mapping[str, Any], schema: Mapping[str, Any], path: str) -> Iterator[str]:
    for name in schema.get("required") or []:
        if name not in value:
            yield f"{path}.{name}".lstrip(".") + ": required"
    yield from _size_problems(len(value), schema, "Properties", path)
    properties = schema.get("properties") or {}
    for name, inner in value.items():
        inner_schema = properties.get(name) or schema.get("additionalProperties")
        if isinstance(inner_schema, dict) and not (path == "" and name == "metadata"):
            yield from problems(inner, inner_schema, f"{path}.{name}".lstrip("."))


def _size_problems(size: int, schema: Mapping[str, Any], what: str, path: str) -> Iterator[str]:
    if not schema.get(f"min{what}", 0) <= size <= schema.get(f"max{what}", size):
        yield f"{path}: {size} {what.lower()} are outside {schema.get(f'min{what}')}..{schema.get(f'max{what}')}"


def _key_problems(value: list[Any], schema: Mapping[str, Any], path: str) -> Iterator[str]:
    keys = schema.get("x-kubernetes-list-map-keys")
    if keys:
        seen = [tuple(item.get(key) for key in keys) for item in value if isinstance(item, dict)]
        if len(set(seen)) < len(seen):
            yield f"{path}: duplicate {keys}"


def _format_problems(value: str, schema: Mapping[str, Any], path: str) -> Iterator[str]:
    if schema.get("format") == "date-time":
        try:
            datetime.fromisoformat(value)
        except ValueError:
            yield f"{path}: {value!r} is no RFC 3339 time"
    if "pattern" in schema and not re.search(schema["pattern"], value):
        yield f"{path}: {value!r} does not match {schema['pattern']}"
