"""Where the API server is and who we are: a kubeconfig, or the service account of the pod.

Parsing is left to ``kubernetes.aio.config`` (exec plugins, client certificates, rotating tokens).
"""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from kubernetes.aio import config
from kubernetes.aio.client import Configuration

from bridge.errors import SpecError

TokenSource = Callable[[], Awaitable[str]]

_SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")

_DEFAULT_NAMESPACE = "default"


async def _anonymous() -> str:
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """One API server and the way to prove who asks. ``authorization`` returns the header's current value, or ``""``."""

    server: str
    tls: ssl.SSLContext | None = None
    authorization: TokenSource = _anonymous
    proxy: str | None = None


async def load_connection(kubeconfig: str | None = None, context: str | None = None) -> Connection:
    """Return the connection of ``kubeconfig``; without one, of the pod's service account, else of ``$KUBECONFIG``."""
    settings = Configuration()
    try:
        if kubeconfig is None and _SERVICE_ACCOUNT.exists():  # noqa: ASYNC240 - once, at start
            config.load_incluster_config(client_configuration=settings)
        else:
            await config.load_kube_config(config_file=kubeconfig, context=context, client_configuration=settings)
    except config.ConfigException as problem:
        raise SpecError("kubeconfig", str(problem)) from problem
    return _from(settings)


def context_namespace(kubeconfig: str | None = None, context: str | None = None) -> str:
    """Return the namespace that the kubeconfig's context names, as kubectl takes it where no other one is given."""
    try:
        contexts, active = config.list_kube_config_contexts(config_file=kubeconfig)
    except config.ConfigException:
        return _DEFAULT_NAMESPACE
    chosen = active if context is None else next((each for each in contexts if each["name"] == context), {})
    return str((chosen.get("context") or {}).get("namespace") or _DEFAULT_NAMESPACE)


def _from(settings: Configuration) -> Connection:
    async def authorization() -> str:
        # NB: asked per request, because service account tokens and exec credentials rotate.
        auth = await settings.auth_settings()
        return str(auth["BearerToken"]["value"] or "") if "BearerToken" in auth else ""

    server = str(settings.host).rstrip("/")
    return Connection(
        server=server,
        tls=_tls(settings) if server.startswith("https:") else None,
        authorization=authorization,
        proxy=settings.proxy or None,
    )


def _tls(settings: Configuration) -> ssl.SSLContext:
    tls = ssl.create_default_context(cafile=settings.ssl_ca_cert)
    # Cluster CAs made by kubeadm and friends lack the extensions that Python 3.13 began to insist on.
    tls.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if settings.cert_file:
        tls.load_cert_chain(settings.cert_file, keyfile=settings.key_file)
    if not settings.verify_ssl:
        tls.check_hostname = False
        tls.verify_mode = ssl.CERT_NONE
    return tls
