"""The lab's certificate authority and what it signs: the API server, as a server and as a client of kubelets."""

from __future__ import annotations

from pathlib import Path

from e2e.lab.command import run
from e2e.lab.layout import Layout

DAYS = "3650"
SERVER_NAMES = "IP:127.0.0.1,IP:10.96.0.1,DNS:localhost,DNS:kubernetes.default.svc"


def write(lab: Layout) -> None:
    """Make what is missing. `done` is written last, so that a torn set is made again."""
    folder = lab.pki
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    done = folder / "done"
    if done.exists():
        return
    # Python's strict verification asks for keyUsage in the authority and for key identifiers everywhere
    run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", folder / "ca.key", "-out",
         folder / "ca.crt", "-days", DAYS, "-subj", "/CN=gangbridge-lab",
         "-addext", "keyUsage=critical,keyCertSign,cRLSign"]
    )  # fmt: skip
    _sign(folder, "apiserver", "/CN=kube-apiserver", f"extendedKeyUsage=serverAuth\nsubjectAltName={SERVER_NAMES}")
    _sign(folder, "kubelet-client", "/O=system:masters/CN=kube-apiserver-kubelet-client", "extendedKeyUsage=clientAuth")
    run(["openssl", "genrsa", "-out", folder / "service-account.key", "2048"])
    run(
        ["openssl", "rsa", "-in", folder / "service-account.key", "-pubout", "-out", folder / "service-account.pub"]
    )  # fmt: skip
    done.touch()


def _sign(folder: Path, name: str, subject: str, extensions: str) -> None:
    request, extra = folder / f"{name}.csr", folder / f"{name}.ext"
    extra.write_text(
        f"basicConstraints=CA:FALSE\nkeyUsage=digitalSignature,keyEncipherment\n"
        f"subjectKeyIdentifier=hash\nauthorityKeyIdentifier=keyid\n{extensions}\n"
    )
    run(
        ["openssl", "req", "-newkey", "rsa:2048", "-nodes", "-keyout", folder / f"{name}.key", "-out", request,
         "-subj", subject]
    )  # fmt: skip
    run(
        ["openssl", "x509", "-req", "-in", request, "-CA", folder / "ca.crt", "-CAkey", folder / "ca.key",
         "-CAcreateserial", "-days", DAYS, "-extfile", extra, "-out", folder / f"{name}.crt"]
    )  # fmt: skip
