"""JSON merge patch (RFC 7386), JSON patch (RFC 6902) and a server-side apply that knows no conflicts."""

from __future__ import annotations

from typing import Any

from tests.kube.fakerules import invalid


def copied(value: Any) -> Any:
    """Return a copy of a JSON value; copy.deepcopy looks for more than there can be."""
    if isinstance(value, dict):
        return {key: copied(inner) for key, inner in value.items()}
    return [copied(inner) for inner in value] if isinstance(value, list) else value


def merge(target: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return copied(patch)
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge(result.get(key), value)
    return result


def json_patch(target: Any, operations: list[dict[str, Any]]) -> Any:
    for operation in operations:
        *parents, last = [part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:]]
        try:
            place = target
            for part in parents:
                place = place[int(part)] if isinstance(place, list) else place[part]
            _change(place, last, operation)
        except (KeyError, IndexError, ValueError, TypeError) as problem:
            raise invalid(f"the server rejected our request due to an error in our request: {problem!r}") from problem
    return target


def _change(place: Any, last: str, operation: dict[str, Any]) -> None:
    key: Any = last if isinstance(place, dict) or last == "-" else int(last)
    match operation["op"]:
        case "test":
            if place[key] != operation["value"]:
                raise ValueError(f"testing value {operation['path']} failed")
        case "remove":
            del place[key]
        case "replace":
            place[key]
            place[key] = operation["value"]
        case "add" if isinstance(place, list):
            place.insert(len(place) if key == "-" else key, operation["value"])
        case "add":
            place[key] = operation["value"]
        case other:
            raise ValueError(f"unexpected kind: {other}")
