"""How to reach the API server and as whom: from a kubeconfig file or from the pod's service account."""

from __future__ import annotations

import base64
import binascii
import os
import ssl
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from operators.driver.errors import SetupError

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Address and identity. ``token_file`` is read again for each request, because kubelet rotates such tokens."""

    server: str
    token: str | None = field(default=None, repr=False)
    token_file: Path | None = None
    tls: ssl.SSLContext | None = None

    def __post_init__(self) -> None:
        if urlsplit(self.server).scheme not in ("http", "https") or not urlsplit(self.server).hostname:
            raise SetupError(f"API server {self.server!r} is not an http or https URL")

    def headers(self) -> dict[str, str]:
        """Authorization header, empty for client certificates and anonymous access."""
        token = self.token if self.token_file is None else self.token_file.read_text(encoding="utf-8").strip()
        return {"Authorization": f"Bearer {token}"} if token else {}


def in_cluster(environ: Mapping[str, str] = os.environ, folder: Path = SERVICE_ACCOUNT) -> Access:
    """Access of the pod's service account; SetupError outside a pod."""
    host, port = environ.get("KUBERNETES_SERVICE_HOST"), environ.get("KUBERNETES_SERVICE_PORT")
    if not host or not port:
        raise SetupError("not in a pod (KUBERNETES_SERVICE_HOST is not set): give --kubeconfig")
    try:
        tls = ssl.create_default_context(cafile=folder / "ca.crt")
    except OSError as error:
        raise SetupError(f"service account CA {folder / 'ca.crt'}: {error}") from error
    address = f"[{host}]" if ":" in host else host
    return Access(server=f"https://{address}:{port}", token_file=folder / "token", tls=tls)


def from_kubeconfig(path: Path) -> Access:
    """Access of the file's current context: token, token file or client certificate; no exec or auth provider."""
    try:
        config = yaml.safe_load(path.read_text(encoding="utf-8"))
        context = _entry(config, "contexts", config["current-context"])["context"]
        cluster = _entry(config, "clusters", context["cluster"])["cluster"]
        user = _entry(config, "users", context["user"]).get("user") or {}
        server = cluster["server"]
    except (OSError, yaml.YAMLError) as error:
        raise SetupError(f"kubeconfig {path}: {error}") from error
    except (KeyError, TypeError) as error:
        raise SetupError(f"kubeconfig {path}: field {error} is missing") from error
    for field_name in ("exec", "auth-provider", "username"):
        if field_name in user:
            raise SetupError(f"kubeconfig {path}: users[].user.{field_name} is not supported by the kubelet plugin")
    token_file = user.get("tokenFile")
    return Access(
        server=server,
        token=user.get("token"),
        token_file=path.parent / token_file if token_file else None,
        tls=_tls(cluster, user, path),
    )


def _entry(config: Mapping[str, Any], kind: str, name: str) -> Mapping[str, Any]:
    for entry in config[kind]:
        if entry["name"] == name:
            found: Mapping[str, Any] = entry
            return found
    raise KeyError(f"{kind}[name={name}]")


def _tls(cluster: Mapping[str, Any], user: Mapping[str, Any], path: Path) -> ssl.SSLContext | None:
    if urlsplit(cluster["server"]).scheme == "http":
        return None
    try:
        authority = _content(cluster, "certificate-authority", path)
        tls = ssl.create_default_context(cadata=authority.decode() if authority else None)
        if cluster.get("insecure-skip-tls-verify"):
            tls.check_hostname = False
            tls.verify_mode = ssl.CERT_NONE
        certificate, key = _content(user, "client-certificate", path), _content(user, "client-key", path)
        if certificate and key:
            _load_pair(tls, certificate, key)
    except (OSError, binascii.Error) as error:
        raise SetupError(f"kubeconfig {path}: certificate or key: {error}") from error
    return tls


def _content(section: Mapping[str, Any], name: str, path: Path) -> bytes | None:
    """``NAME-data`` (base64) wins over ``NAME`` (a file beside the kubeconfig), as in kubectl."""
    if data := section.get(f"{name}-data"):
        return base64.b64decode(data)
    if file := section.get(name):
        return (path.parent / str(file)).read_bytes()
    return None


def _load_pair(tls: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    # The ssl module takes certificate and key as a file only; the temporary one is private and gone after.
    with tempfile.NamedTemporaryFile() as both:
        both.write(certificate + b"\n" + key)
        both.flush()
        tls.load_cert_chain(both.name)
