"""The two reads that the plugin needs of the API server, with nothing but the standard library."""

from __future__ import annotations

import json
import ssl
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from bridge.wellknown import DRIVER
from operators.driver.claims import ClaimRef
from operators.driver.errors import ApiRefused, ApiUnavailable
from operators.driver.kubeconfig import Access

TIMEOUT_SECONDS = 5.0
"""Far below kubelet's own limit for a call to a plugin, so that kubelet gets our reason and not its deadline."""

_RESOURCES = "/apis/resource.k8s.io/v1"


class ApiReader:
    """Reads claims and slices; every call is a connection of its own, so nothing goes stale."""

    def __init__(self, access: Access, *, timeout: float = TIMEOUT_SECONDS) -> None:
        self._access = access
        self._timeout = timeout

    def claim(self, ref: ClaimRef) -> Mapping[str, Any]:
        """The claim of that name, whatever its uid; ApiRefused with status 404 when there is none."""
        path = f"{_RESOURCES}/namespaces/{quote(ref.namespace, safe='')}/resourceclaims/{quote(ref.name, safe='')}"
        return self._get(path)

    def slices(self, pool: str) -> list[Mapping[str, Any]]:
        """Slices of our driver, at least those of ``pool``: servers before 1.37 cannot select by pool name."""
        try:
            return self._slices(f"spec.driver={DRIVER},spec.pool.name={pool}")
        except ApiRefused as error:
            if error.status != 400:
                raise
            return self._slices(f"spec.driver={DRIVER}")

    def _slices(self, selector: str) -> list[Mapping[str, Any]]:
        query = urlencode({"fieldSelector": selector})
        return list(self._get(f"{_RESOURCES}/resourceslices?{query}")["items"])

    def _get(self, path: str) -> Mapping[str, Any]:
        base = urlsplit(self._access.server)
        full = base.path.rstrip("/") + path
        try:
            status, body = self._exchange(full)
        except (OSError, HTTPException) as error:
            raise ApiUnavailable(f"API server {base.netloc}, GET {full}: {error!r}") from error
        if status == 429 or status >= 500:
            raise ApiUnavailable(f"API server {base.netloc}, GET {full}: HTTP {status}: {_message(body)}")
        if status != 200:
            raise ApiRefused(f"API server {base.netloc}, GET {full}: HTTP {status}: {_message(body)}", status)
        try:
            answer: Mapping[str, Any] = json.loads(body)
        except ValueError as error:
            raise ApiUnavailable(f"API server {base.netloc}, GET {full}: the answer is not JSON") from error
        return answer

    def _exchange(self, path: str) -> tuple[int, bytes]:
        connection = self._connect()
        try:
            connection.request("GET", path, headers={"Accept": "application/json", **self._access.headers()})
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def _connect(self) -> HTTPConnection:
        base = urlsplit(self._access.server)
        host = base.hostname or ""
        if base.scheme == "http":
            return HTTPConnection(host, base.port, timeout=self._timeout)
        tls = self._access.tls or ssl.create_default_context()
        return HTTPSConnection(host, base.port, timeout=self._timeout, context=tls)


def _message(body: bytes) -> str:
    """The message of a Kubernetes Status object, or the beginning of whatever came instead."""
    try:
        return str(json.loads(body)["message"])
    except (ValueError, KeyError, TypeError):
        return body[:200].decode(errors="replace")
