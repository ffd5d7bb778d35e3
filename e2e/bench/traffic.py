"""Writes that an API server carried out, from everybody, by its own count."""

from __future__ import annotations

import re
from collections import Counter

from e2e.lab import layout
from e2e.lab.kube_api import KubeApi

_SAMPLE = re.compile(r"apiserver_request_total\{(?P<labels>[^}]*)\} (?P<value>\S+)")
_LABEL = re.compile(r'(\w+)="([^"]*)"')
_WRITES = frozenset({"POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION"})
# Heartbeats, reviews and Events go on, or are dropped, whatever one measures.
_ASIDE = frozenset({"leases", "events", "nodes", "tokenreviews", "subjectaccessreviews"})


def writes() -> Counter[str]:
    """Return the writes since the API server's start, as ``VERB resource/subresource``."""
    status, text = KubeApi(layout.layout()).call("GET", "/metrics")
    if status != 200:
        raise RuntimeError(f"the API server's /metrics answers {status}")
    found: Counter[str] = Counter()
    for sample in _SAMPLE.finditer(text):
        labels = dict(_LABEL.findall(sample["labels"]))
        if labels["verb"] in _WRITES and labels["resource"] not in _ASIDE and not labels["dry_run"]:
            what = "/".join(part for part in (labels["resource"], labels["subresource"]) if part)
            found[f"{labels['verb']} {what}"] += int(float(sample["value"]))
    return found
