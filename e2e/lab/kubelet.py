"""Real kubelets: several on one machine, each with its own name, root, cgroup and containerd."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from e2e.lab import cgroups, containerd, control_plane, dns, supervise
from e2e.lab.command import LabError
from e2e.lab.fleet import LabNode
from e2e.lab.kube_api import KubeApi
from e2e.lab.layout import Layout
from e2e.lab.supervise import Daemon

FIRST_PORT = 17250  # two per node: API, health
UNINITIALIZED = "node.cloudprovider.kubernetes.io/uninitialized"


def root(lab: Layout, node: LabNode) -> Path:
    """The kubelet's root folder, the one with `plugins` and `plugins_registry`."""
    return lab.node(node.kube) / "kubelet"


def up(lab: Layout, node: LabNode) -> None:
    containerd.up(lab, node)
    cgroups.make(_cgroup(node))
    port = FIRST_PORT + 2 * node.index
    folder = root(lab, node)
    folder.mkdir(parents=True, exist_ok=True)
    config = lab.node(node.kube) / "kubelet.json"
    config.write_text(json.dumps(_config(lab, node, port), indent=1))
    supervise.ensure(
        lab,
        Daemon(
            name=f"kubelet-{node.kube}",
            argv=(
                str(lab.kube_bin / "kubelet"), f"--config={config}", f"--kubeconfig={lab.kubeconfig(node.kube)}",
                f"--hostname-override={node.kube}", f"--root-dir={folder}", f"--cert-dir={folder / 'pki'}",
                # leaves the addresses of the Node to us: loopback is refused by --node-ip
                "--cloud-provider=external",
                "--node-labels=" + ",".join(f"{key}={value}" for key, value in node.labels.items()),
            ),
            files=(config,),
            ready=lambda: control_plane.healthy(port + 1, tls=False),
            endpoint=f"https://127.0.0.1:{port}",
            port=port,
        ),
    )  # fmt: skip


def down(lab: Layout, node: LabNode) -> None:
    supervise.stop(lab, f"kubelet-{node.kube}")
    containerd.down(lab, node)


def clean(node: LabNode) -> None:
    """After `down` and after the node's mounts are gone."""
    cgroups.remove(_cgroup(node))


def finish(api: KubeApi, node: LabNode) -> None:
    """What a cloud controller would do, the labels of the lab, and wait until the node is ready."""
    path, deadline = f"/api/v1/nodes/{node.kube}", time.monotonic() + 60
    while not (seen := api.get(path)):
        _check(deadline, f"{node.kube} did not register")
        time.sleep(0.1)
    if not any(a["type"] == "InternalIP" for a in seen["status"].get("addresses", ())):
        addresses = [{"type": "InternalIP", "address": "127.0.0.1"}, {"type": "Hostname", "address": node.kube}]
        api.merge(path + "/status", {"status": {"addresses": addresses}})
    taints = seen["spec"].get("taints", [])
    if any(t["key"] == UNINITIALIZED for t in taints):
        api.merge(path, {"spec": {"taints": [t for t in taints if t["key"] != UNINITIALIZED]}})
    api.apply(path, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node.kube, "labels": node.labels}})
    while not is_ready(api.get(path)):
        _check(deadline, f"{node.kube} is registered but not Ready")
        time.sleep(0.1)


def is_ready(node: Any) -> bool:
    conditions = node["status"].get("conditions", ())
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def _check(deadline: float, text: str) -> None:
    if time.monotonic() > deadline:
        raise LabError(f"{text} within 60 s")


def _cgroup(node: LabNode) -> str:
    return f"gangbridge-lab-{node.kube}"


def _config(lab: Layout, node: LabNode, port: int) -> dict[str, Any]:
    home = lab.node(node.kube)
    never = dict.fromkeys(
        ("memory.available", "nodefs.available", "nodefs.inodesFree", "imagefs.available", "imagefs.inodesFree"), "0%"
    )
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": "127.0.0.1",
        "port": port,
        "readOnlyPort": 0,
        "healthzBindAddress": "127.0.0.1",
        "healthzPort": port + 1,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(lab.pki / "ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "failCgroupV1": False,
        "failSwapOn": False,
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{_cgroup(node)}",
        "cgroupsPerQOS": True,
        "enforceNodeAllocatable": [],
        "makeIPTablesUtilChains": False,
        "oomScoreAdj": 0,
        "containerRuntimeEndpoint": f"unix://{containerd.socket(lab, node)}",
        "podLogsDir": str(home / "pod-logs"),
        "volumePluginDir": str(home / "volume-plugins"),
        # a full disk of the machine is not the business of a test
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "evictionHard": never,
        "nodeStatusUpdateFrequency": "5s",
        "syncFrequency": "10s",
        "shutdownGracePeriod": "0s",
        "resolvConf": "",
        "clusterDNS": [dns.ADDRESS],
        "clusterDomain": dns.DOMAIN,
        "kubeAPIQPS": 500,
        "kubeAPIBurst": 1000,
        "registryPullQPS": 0,
        "maxPods": 110,
    }
