"""Kubernetes' side: raw lists, page by page, through the ``kubernetes`` client."""

from __future__ import annotations

import json
import ssl
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any, Self

import urllib3
from kubernetes import config
from kubernetes.client import ApiClient, Configuration

from auditor.errors import Unreadable
from bridge import wellknown

Object = dict[str, Any]

PODS = "/api/v1/pods"
NODES = "/api/v1/nodes"
SYSTEM_NAMESPACE = "/api/v1/namespaces/kube-system"
CLAIMS = "/apis/resource.k8s.io/v1/resourceclaims"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
GANGJOBS = f"/apis/{wellknown.API_VERSION}/gangjobs"
FLEETS = f"/apis/{wellknown.API_VERSION}/fleets"

_PAGE = 500
_DEADLINE_S = 30


class Kubernetes:
    """One API server, as ``kubeconfig`` says; without it as a pod's service account, else as ``$KUBECONFIG`` says.

    ``now`` is the server's clock at its last answer, in seconds since the epoch.
    """

    def __init__(self, kubeconfig: str | None = None) -> None:
        settings = Configuration()
        settings.retries = False
        try:
            _load(kubeconfig, settings)
        except (config.ConfigException, OSError) as error:
            raise Unreadable("Kubernetes", f"{kubeconfig or 'kubeconfig'}: {error}") from error
        self.now = int(time.time())
        self._api = ApiClient(settings)
        if settings.verify_ssl:
            self._api.rest_client.pool_manager.connection_pool_kw["ssl_context"] = _tls()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._api.close()

    def get(self, path: str, query: Mapping[str, str] | None = None) -> Object:
        """Return one object, or one page of a list."""
        request = self._api.param_serialize(
            "GET",
            path,
            query_params=list((query or {}).items()),
            header_params={"Accept": "application/json"},
            auth_settings=["BearerToken"],
        )
        try:
            answer = self._api.call_api(*request[:3], _request_timeout=_DEADLINE_S)
            text = answer.read()
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise Unreadable("Kubernetes", f"GET {path}: {error}") from error
        if date := answer.getheader("Date"):
            self.now = int(parsedate_to_datetime(date).timestamp())
        return _object(path, answer.status, text)

    def list(self, path: str, *, label_selector: str = "") -> list[Object]:
        """Return all objects of a consistent list."""
        query = {"limit": str(_PAGE)} | ({"labelSelector": label_selector} if label_selector else {})
        items: list[Object] = []
        while True:
            page = self.get(path, query)
            items += page.get("items") or []
            token = (page.get("metadata") or {}).get("continue")
            if not token:
                return items
            query["continue"] = token


def _load(kubeconfig: str | None, settings: Configuration) -> None:
    if kubeconfig is None:
        try:
            config.load_incluster_config(client_configuration=settings)
        except config.ConfigException:
            pass
        else:
            return
    config.load_kube_config(config_file=kubeconfig, client_configuration=settings)


def _tls() -> ssl.SSLContext:
    """Cluster CAs made by kubeadm and friends lack the extensions that Python 3.13 began to insist on."""
    context = urllib3.util.ssl_.create_urllib3_context()
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


def _object(path: str, status: int, text: bytes) -> Object:
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if status >= 400:
        said = value.get("message") if isinstance(value, dict) else text[:200].decode(errors="replace")
        raise Unreadable("Kubernetes", f"GET {path}: {status}: {said}")
    if not isinstance(value, dict):
        raise Unreadable("Kubernetes", f"GET {path}: the answer is no object")
    return value
