"""How many calls were made, by verb and resource: writes per gang is a number that tests hold us to."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter

READS = frozenset({"get", "list", "watch"})


class Traffic:
    """Counts of finished calls: ``gangbridge_kube_requests_total{verb,resource,code}``.

    ``resource`` is the plural, with the subresource as ``resourceclaims/status``; ``code`` is the HTTP code, 0 for no
    answer.
    """

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()
        self._calls = Counter(
            "gangbridge_kube_requests", "Calls to the API server.", ["verb", "resource", "code"], registry=self.registry
        )

    def count(self, verb: str, resource: str, code: int) -> None:
        """Count one finished call."""
        self._calls.labels(verb=verb, resource=resource, code=str(code)).inc()

    def writes(self) -> dict[tuple[str, str], int]:
        """Return the writes so far, refused ones included, by (verb, resource)."""
        found: dict[tuple[str, str], int] = {}
        for metric in self._calls.collect():
            for sample in metric.samples:
                verb, resource = sample.labels["verb"], sample.labels["resource"]
                if sample.name.endswith("_total") and verb not in READS:
                    found[verb, resource] = found.get((verb, resource), 0) + int(sample.value)
        return found
