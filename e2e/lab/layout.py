"""Where everything of the lab lives: the clone, the cache (heavy, shared, reusable) and the state (light, one lab)."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from e2e.lab import versions


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """All paths of one lab. The cache survives `reset`; the state folder may be deleted whenever the lab is down."""

    clone: Path
    cache: Path
    state: Path

    @property
    def kube_bin(self) -> Path:
        return self.cache / f"kube-{versions.KUBERNETES}" / "bin"

    @property
    def slurm_cache(self) -> Path:
        """Holds the template of the Slurm root (`root`) and the pyslurm wheels (`wheels`)."""
        return self.cache / f"slurm-{versions.SLURM}-{versions.DEBIAN_SUITE}-r{versions.SLURM_ROOT_RECIPE}"

    @property
    def slurm_template(self) -> Path:
        return self.slurm_cache / "root"

    @property
    def images(self) -> Path:
        return self.cache / "images"

    @property
    def root(self) -> Path:
        """The Slurm root in use: an overlay of the template and `slurm/upper`."""
        return self.state / "root"

    @property
    def logs(self) -> Path:
        return self.state / "logs"

    @property
    def run(self) -> Path:
        """One record per started daemon."""
        return self.state / "run"

    @property
    def bin(self) -> Path:
        return self.state / "bin"

    @property
    def scratch(self) -> Path:
        """Seen as /lab inside the Slurm root; writable from both sides by everybody."""
        return self.state / "scratch"

    @property
    def pki(self) -> Path:
        return self.state / "pki"

    @property
    def kubeconfigs(self) -> Path:
        return self.state / "kubeconfig"

    def kubeconfig(self, identity: str) -> Path:
        return self.kubeconfigs / f"{identity}.kubeconfig"

    def node(self, kube_name: str) -> Path:
        """Everything of one node with a real kubelet: `kubelet`, `containerd`, `cdi`."""
        return self.state / "nodes" / kube_name


def layout() -> Layout:
    """The layout of this clone; GANGBRIDGE_CACHE and GANGBRIDGE_LAB move the two folders outside it."""
    cache = os.environ.get("GANGBRIDGE_CACHE") or Path.home() / ".cache" / "gangbridge"
    state = os.environ.get("GANGBRIDGE_LAB") or "/var/tmp/gangbridge-lab"
    return Layout(clone=Path(__file__).resolve().parents[2], cache=Path(cache).resolve(), state=Path(state).resolve())
