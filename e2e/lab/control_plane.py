"""etcd, kube-apiserver, kube-scheduler and kube-controller-manager on loopback."""

from __future__ import annotations

import http.client
import shutil
import ssl
import time

from e2e.lab import identities, kube_api, pki, supervise
from e2e.lab.command import LabError
from e2e.lab.layout import Layout
from e2e.lab.supervise import Daemon

ETCD_PORT, ETCD_PEER_PORT = 23790, 23800
SCHEDULER_PORT, KCM_PORT = 11259, 11257
STOP_ORDER = ("kube-scheduler", "kube-controller-manager", "kube-apiserver", "etcd")
# both throttle themselves to 50 and 20 requests per second, and that is what one would measure
CLIENT_RATE = ("--kube-api-qps=2000", "--kube-api-burst=4000")


def up(lab: Layout) -> None:
    pki.write(lab)
    identities.write(lab)
    supervise.ensure(lab, _etcd(lab))
    supervise.ensure(lab, _apiserver(lab))
    supervise.ensure(lab, _scheduler(lab))
    supervise.ensure(lab, _controller_manager(lab))
    _wait_for_service_accounts(lab)


def down(lab: Layout) -> None:
    for name in STOP_ORDER:
        # with watches of clients that are still there the API server would take a minute; its data is in etcd
        supervise.stop(lab, name, grace=3)


def daemons(lab: Layout) -> list[Daemon]:
    """Every daemon of the control plane, in the order in which they are started."""
    return [_etcd(lab), _apiserver(lab), _scheduler(lab), _controller_manager(lab)]


def wipe(lab: Layout) -> None:
    """Forget all objects. Certificates and tokens stay, so that kubeconfigs in use stay right."""
    shutil.rmtree(lab.state / "etcd", ignore_errors=True)


def healthy(port: int, path: str = "/healthz", *, tls: bool = True) -> bool:
    """`path` on loopback answers 200. The component's own certificate is self-signed and not checked."""
    try:
        if tls:
            context = ssl.create_default_context()
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
            link: http.client.HTTPConnection = http.client.HTTPSConnection(
                "127.0.0.1", port, timeout=2, context=context
            )
        else:
            link = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
        link.request("GET", path)
        return link.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False


def _etcd(lab: Layout) -> Daemon:
    client, peer = f"http://127.0.0.1:{ETCD_PORT}", f"http://127.0.0.1:{ETCD_PEER_PORT}"
    return Daemon(
        name="etcd",
        argv=(
            str(lab.kube_bin / "etcd"), f"--data-dir={lab.state / 'etcd'}",
            "--unsafe-no-fsync",  # nothing here has to survive a power failure
            f"--listen-client-urls={client}", f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}", f"--initial-cluster=default={peer}",
            "--log-level=warn",
        ),
        ready=lambda: healthy(ETCD_PORT, "/health", tls=False),
        endpoint=client,
        port=ETCD_PORT,
    )  # fmt: skip


def _apiserver(lab: Layout) -> Daemon:
    keys = lab.pki
    return Daemon(
        name="kube-apiserver",
        argv=(
            str(lab.kube_bin / "kube-apiserver"), f"--etcd-servers=http://127.0.0.1:{ETCD_PORT}",
            "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", f"--secure-port={kube_api.PORT}",
            f"--tls-cert-file={keys / 'apiserver.crt'}", f"--tls-private-key-file={keys / 'apiserver.key'}",
            f"--token-auth-file={keys / 'tokens.csv'}", "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={keys / 'service-account.pub'}",
            f"--service-account-signing-key-file={keys / 'service-account.key'}",
            "--service-cluster-ip-range=10.96.0.0/16", "--endpoint-reconciler-type=none",
            f"--kubelet-client-certificate={keys / 'kubelet-client.crt'}",
            f"--kubelet-client-key={keys / 'kubelet-client.key'}", "--kubelet-preferred-address-types=InternalIP",
            "--allow-privileged", "--profiling=false",
        ),
        files=(keys / "tokens.csv", keys / "apiserver.crt"),
        ready=lambda: kube_api.ready(lab),
        endpoint=identities.SERVER,
        port=kube_api.PORT,
        grace=3,
    )  # fmt: skip


def _credentials(lab: Layout, identity: str) -> tuple[str, ...]:
    config = lab.kubeconfig(identity)
    flags = ("--kubeconfig", "--authentication-kubeconfig", "--authorization-kubeconfig")
    return tuple(f"{flag}={config}" for flag in flags)


def _scheduler(lab: Layout) -> Daemon:
    return Daemon(
        name="kube-scheduler",
        argv=(
            str(lab.kube_bin / "kube-scheduler"), *_credentials(lab, "scheduler"), *CLIENT_RATE,
            "--bind-address=127.0.0.1", f"--secure-port={SCHEDULER_PORT}", "--leader-elect=false",
        ),
        ready=lambda: healthy(SCHEDULER_PORT),
        endpoint=f"https://127.0.0.1:{SCHEDULER_PORT}",
        port=SCHEDULER_PORT,
    )  # fmt: skip


def _controller_manager(lab: Layout) -> Daemon:
    return Daemon(
        name="kube-controller-manager",
        argv=(
            str(lab.kube_bin / "kube-controller-manager"), *_credentials(lab, "kcm"), *CLIENT_RATE,
            "--bind-address=127.0.0.1", f"--secure-port={KCM_PORT}", "--leader-elect=false",
            f"--service-account-private-key-file={lab.pki / 'service-account.key'}",
            f"--root-ca-file={lab.pki / 'ca.crt'}", "--use-service-account-credentials",
            "--controllers=*,-node-ipam-controller",
        ),
        ready=lambda: healthy(KCM_PORT),
        endpoint=f"https://127.0.0.1:{KCM_PORT}",
        port=KCM_PORT,
    )  # fmt: skip


def _wait_for_service_accounts(lab: Layout) -> None:
    """Pods are refused until the controller manager has made the default service account."""
    api, deadline = kube_api.KubeApi(lab), time.monotonic() + 30
    while api.get("/api/v1/namespaces/default/serviceaccounts/default") is None:
        if time.monotonic() > deadline:
            raise LabError("kube-controller-manager made no default service account within 30 s")
        time.sleep(0.1)
