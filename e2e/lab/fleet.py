"""The nodes of the lab and their three names: Kubernetes (`k8s-gpu-0`), Slurm (`gpu0`) and the machine's own."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

GPUS_PER_NODE = 8
GPU_TYPE = "h100"
EXTERNAL_RACK = 16  # nodes
EXTERNAL_SPINE = 4  # racks

SLURM_NODE_LABEL = "gangbridge.dev/slurm-node"
PLANE_LABEL = "gangbridge.dev/plane"
KUBELET_LABEL = "lab.gangbridge.dev/kubelet"  # lab only: which KWOK may manage
SPINE_LABEL = "topology.gangbridge.dev/spine"
RACK_LABEL = "topology.gangbridge.dev/rack"


class Kubelet(StrEnum):
    REAL = "real"
    KWOK = "kwok"


@dataclass(frozen=True, slots=True, kw_only=True)
class LabNode:
    """One node: its name in both worlds and its place in the topology."""

    kube: str
    slurm: str
    spine: str
    rack: str
    kubelet: Kubelet
    index: int

    @property
    def labels(self) -> dict[str, str]:
        return {
            SLURM_NODE_LABEL: self.slurm,
            PLANE_LABEL: "lab",
            KUBELET_LABEL: str(self.kubelet),
            SPINE_LABEL: self.spine,
            RACK_LABEL: self.rack,
        }


def gpu_nodes() -> list[LabNode]:
    """The four nodes with a slurmd: two racks under one spine, real kubelets in the first rack."""
    return [
        LabNode(
            kube=f"k8s-gpu-{i}", slurm=f"gpu{i}", spine="spine-0", rack=f"rack-{i // 2}",
            kubelet=Kubelet.REAL if i < 2 else Kubelet.KWOK, index=i,
        )
        for i in range(4)
    ]  # fmt: skip


def real_nodes() -> list[LabNode]:
    return [node for node in gpu_nodes() if node.kubelet is Kubelet.REAL]


def external_nodes(count: int) -> list[LabNode]:
    """`count` nodes for scale: State=EXTERNAL in Slurm, KWOK in Kubernetes; 16 to a rack, 4 racks to a spine."""
    return [
        LabNode(
            kube=f"k8s-ext-{i}", slurm=f"ext{i}", spine=f"ext-spine-{i // (EXTERNAL_RACK * EXTERNAL_SPINE)}",
            rack=f"ext-rack-{i // EXTERNAL_RACK}", kubelet=Kubelet.KWOK, index=i,
        )
        for i in range(count)
    ]  # fmt: skip
