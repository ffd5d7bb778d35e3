"""KWOK plays the kubelets of every node that is not real; it touches only nodes with its label."""

from __future__ import annotations

from pathlib import Path

from e2e.lab import control_plane, supervise
from e2e.lab.fleet import KUBELET_LABEL, Kubelet, LabNode
from e2e.lab.kube_api import KubeApi
from e2e.lab.layout import Layout
from e2e.lab.supervise import Daemon

PORT = 17500
STAGES = Path(__file__).parent / "kwok"


def _installed(lab: Layout) -> tuple[Path, ...]:
    """Copy the stages to where they are for every clone: KWOK started anew plays no pod that was there before."""
    folder = lab.state / "kwok"
    folder.mkdir(parents=True, exist_ok=True)
    copies = tuple(folder / path.name for path in sorted(STAGES.glob("*.yaml")))
    for copy in copies:
        copy.write_text((STAGES / copy.name).read_text())
    return copies


def up(lab: Layout) -> None:
    stages = _installed(lab)
    supervise.ensure(
        lab,
        Daemon(
            name="kwok",
            argv=(
                str(lab.kube_bin / "kwok"), f"--kubeconfig={lab.kubeconfig('kwok')}",
                *(f"--config={path}" for path in stages),
                "--manage-all-nodes=false",
                f"--manage-nodes-with-label-selector={KUBELET_LABEL}={Kubelet.KWOK}",
                # without leases its nodes are taken for dead after 40 s and their pods are evicted
                "--node-lease-duration-seconds=40",
                "--node-ip=127.0.0.1", "--cidr=10.64.0.0/12", f"--server-address=127.0.0.1:{PORT}",
            ),
            files=stages,
            ready=lambda: control_plane.healthy(PORT, tls=False),
            endpoint=f"http://127.0.0.1:{PORT}",
            port=PORT,
        ),
    )  # fmt: skip


def register(api: KubeApi, nodes: list[LabNode]) -> None:
    """Create the Node objects, or correct their labels; what a real kubelet would do for itself."""
    for node in nodes:
        labels = {**node.labels, "kubernetes.io/hostname": node.kube, "kubernetes.io/os": "linux",
                  "kubernetes.io/arch": "amd64"}  # fmt: skip
        manifest = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node.kube, "labels": labels}}
        api.apply(f"/api/v1/nodes/{node.kube}", manifest)


def forget(api: KubeApi, keep: set[str]) -> None:
    """Delete the Node objects of EXTERNAL nodes that are not in `keep`, and their slices, which nobody else removes."""
    listed = api.get(f"/api/v1/nodes?labelSelector={KUBELET_LABEL}%3D{Kubelet.KWOK}")
    for item in listed["items"]:
        name = item["metadata"]["name"]
        if name.startswith("k8s-ext-") and name not in keep:
            api.delete(f"/api/v1/nodes/{name}")
    for item in api.get("/apis/resource.k8s.io/v1/resourceslices")["items"]:
        pool = item["spec"]["pool"]["name"]
        if pool.startswith("k8s-ext-") and pool not in keep:
            api.delete(f"/apis/resource.k8s.io/v1/resourceslices/{item['metadata']['name']}")
