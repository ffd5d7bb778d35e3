"""A real etcd and kube-apiserver on loopback, one identity per part, when the machine has the binaries."""

from __future__ import annotations

import json
import os
import shutil
import socket
import ssl
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

from operators.kube.connection import Connection

OPERATOR = "system:serviceaccount:gangbridge-system:gangbridge"
DRIVER = "system:serviceaccount:gangbridge-system:gangbridge-driver"
_USERS = {
    "admin": ("admin", "system:masters"),
    "operator": (OPERATOR, "system:serviceaccounts"),
    "driver": (DRIVER, "system:serviceaccounts"),
    "alice": ("alice", ""),
    "bob": ("bob", ""),
    "carol": ("carol", ""),
    "scheduler": ("system:kube-scheduler", ""),
    "kcm": ("system:kube-controller-manager", ""),
    "claim-controller": ("system:serviceaccount:kube-system:resource-claim-controller", "system:serviceaccounts"),
    "namespace-controller": ("system:serviceaccount:kube-system:namespace-controller", "system:serviceaccounts"),
}


def binaries() -> Path | None:
    """Return the folder with the control plane's programs, or None."""
    cache = Path(os.environ.get("GANGBRIDGE_CACHE") or Path.home() / ".cache" / "gangbridge")
    folders = [Path(os.environ["KUBEBUILDER_ASSETS"])] if os.environ.get("KUBEBUILDER_ASSETS") else []
    folders += sorted(cache.glob("kube-*/bin"), reverse=True)
    needed = ("etcd", "kube-apiserver", "kube-scheduler", "kube-controller-manager")
    return next((folder for folder in folders if all(_has(folder, program) for program in needed)), None)


class RealApi:
    """An API server, at first without anybody around it; ``stop`` ends it by process id."""

    def __init__(self, folder: Path, state: Path) -> None:
        self.folder, self.state = folder, state
        self.processes: list[subprocess.Popen[bytes]] = []
        self.tls = ssl.create_default_context()
        self.tls.check_hostname, self.tls.verify_mode = False, ssl.CERT_NONE
        self.server = ""

    def connection(self, user: str = "admin") -> Connection:
        """Return the way in as one of the identities."""

        async def authorization() -> str:
            return f"Bearer {user}-token"

        return Connection(server=self.server, tls=self.tls, authorization=authorization)

    def kubectl(self, *args: str, user: str = "admin", stdin: str = "") -> subprocess.CompletedProcess[str]:
        """Run kubectl as one of the identities, without any configuration of the machine's own."""
        program = self.folder / "kubectl"
        command = [str(program) if program.exists() else "kubectl", f"--server={self.server}", f"--token={user}-token"]
        command += ["--insecure-skip-tls-verify", "--kubeconfig=/dev/null", *args]
        return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=60, check=False)

    def start(self) -> None:
        """Start both and wait until the API server is ready."""
        etcd, peer, secure = _free_port(), _free_port(), _free_port()
        self.server = f"https://127.0.0.1:{secure}"
        tokens = self.state / "tokens.csv"
        tokens.write_text("".join(f'{who}-token,{name},{who},"{groups}"\n' for who, (name, groups) in _USERS.items()))
        key = self.state / "sa.key"
        subprocess.run(["openssl", "genrsa", "-out", str(key), "2048"], check=True, capture_output=True)
        client, self_url = f"http://127.0.0.1:{etcd}", f"http://127.0.0.1:{peer}"
        flags = ["--data-dir", str(self.state / "etcd"), "--unsafe-no-fsync", "--listen-client-urls", client]
        flags += ["--advertise-client-urls", client, "--listen-peer-urls", self_url]
        flags += ["--initial-advertise-peer-urls", self_url, "--initial-cluster", f"default={self_url}"]
        self._spawn("etcd", *flags)
        flags = ["--etcd-servers", client, "--bind-address", "127.0.0.1", "--advertise-address", "127.0.0.1"]
        flags += [
            "--secure-port",
            str(secure),
            "--cert-dir",
            str(self.state / "cert"),
            "--token-auth-file",
            str(tokens),
        ]
        flags += ["--authorization-mode", "RBAC", "--service-account-issuer", "https://kubernetes.default.svc"]
        flags += ["--service-account-key-file", str(key), "--service-account-signing-key-file", str(key)]
        flags += ["--service-cluster-ip-range", "10.96.0.0/16", "--endpoint-reconciler-type", "none"]
        flags += ["--disable-admission-plugins", "ServiceAccount", "--watch-cache=true"]
        self._spawn("kube-apiserver", *flags)
        self._wait()

    def start_components(self) -> None:
        """Start kube-scheduler and the controllers that deal with claims."""
        for user, program in (("scheduler", "kube-scheduler"), ("kcm", "kube-controller-manager")):
            config = self.state / f"{user}.kubeconfig"
            config.write_text(json.dumps(self._kubeconfig(user)))
            flags = ["--kubeconfig", "--authentication-kubeconfig", "--authorization-kubeconfig"]
            flags = [f"{flag}={config}" for flag in flags]
            flags += ["--leader-elect=false", "--bind-address=127.0.0.1", f"--secure-port={_free_port()}"]
            if user == "kcm":
                flags += ["--use-service-account-credentials", "--controllers=resourceclaim-controller"]
                flags += [f"--service-account-private-key-file={self.state / 'sa.key'}"]
            self._spawn(program, *flags)

    def _kubeconfig(self, user: str) -> dict[str, Any]:
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "x",
            "clusters": [{"name": "c", "cluster": {"server": self.server, "insecure-skip-tls-verify": True}}],
            "users": [{"name": "u", "user": {"token": f"{user}-token"}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        }

    def stop(self) -> None:
        """End all of them, the API server before etcd."""
        for process in reversed(self.processes):
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(10)

    def _spawn(self, program: str, *flags: str) -> None:
        with (self.state / f"{program}.log").open("wb") as out:
            command = [str(self.folder / program), *flags]
            self.processes.append(subprocess.Popen(command, stdout=out, stderr=out, start_new_session=True))

    def _wait(self) -> None:
        deadline = time.monotonic() + 90
        request = Request(f"{self.server}/readyz", headers={"Authorization": "Bearer admin-token"})  # noqa: S310
        while time.monotonic() < deadline:
            if any(process.poll() is not None for process in self.processes):
                break
            with suppress(URLError, OSError), urlopen(request, context=self.tls, timeout=5) as answer:  # noqa: S310
                if answer.status == 200:
                    return
            time.sleep(0.2)
        self.stop()
        raise AssertionError(f"no API server: {(self.state / 'kube-apiserver.log').read_text()[-2000:]}")


def _has(folder: Path, program: str) -> bool:
    return shutil.which(program, path=str(folder)) is not None


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
