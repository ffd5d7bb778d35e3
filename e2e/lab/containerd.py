"""One containerd per real node: its own root, state, socket, CDI folder and pod network."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

from e2e.lab import images, supervise
from e2e.lab.command import LabError, run
from e2e.lab.fleet import LabNode
from e2e.lab.layout import Layout
from e2e.lab.supervise import Daemon

CNI_PLUGINS = "/usr/lib/cni"
RUNC = "/usr/sbin/runc"

CONFIG = """\
version = 3
root = "{home}/root"
state = "{home}/state"
disabled_plugins = [
  "io.containerd.nri.v1.nri", "io.containerd.snapshotter.v1.erofs", "io.containerd.snapshotter.v1.blockfile",
  "io.containerd.tracing.processor.v1.otlp", "io.containerd.internal.v1.tracing",
]
[grpc]
  address = "{home}/containerd.sock"
[ttrpc]
  address = "{home}/containerd.sock.ttrpc"
[plugins.'io.containerd.internal.v1.opt']
  path = "{home}/opt"
[plugins.'io.containerd.cri.v1.images']
  snapshotter = "overlayfs"
  [plugins.'io.containerd.cri.v1.images'.pinned_images]
    sandbox = "{pause}"
[plugins.'io.containerd.cri.v1.runtime']
  # a machine that is itself a container may not lower oom_score_adj
  restrict_oom_score_adj = true
  disable_hugetlb_controller = true
  tolerate_missing_hugetlb_controller = true
  # network namespaces are mounts too: below the state folder `down` finds them after any crash
  netns_mounts_under_state_dir = true
  cdi_spec_dirs = ["{cdi}"]
  [plugins.'io.containerd.cri.v1.runtime'.cni]
    bin_dirs = ["{cni_plugins}"]
    conf_dir = "{home}/cni"
  [plugins.'io.containerd.cri.v1.runtime'.containerd]
    default_runtime_name = "runc"
    [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
        SystemdCgroup = false
        BinaryName = "{runc}"
[plugins.'io.containerd.grpc.v1.cri']
  stream_server_address = "127.0.0.1"
  stream_server_port = "0"
"""


def home(lab: Layout, node: LabNode) -> Path:
    return lab.node(node.kube) / "containerd"


def socket(lab: Layout, node: LabNode) -> Path:
    return home(lab, node) / "containerd.sock"


def cdi_folder(lab: Layout, node: LabNode) -> Path:
    return lab.node(node.kube) / "cdi"


def up(lab: Layout, node: LabNode) -> None:
    folder = home(lab, node)
    for path in (folder / "cni", cdi_folder(lab, node)):
        path.mkdir(parents=True, exist_ok=True)
    config = folder / "config.toml"
    config.write_text(
        CONFIG.format(home=folder, cdi=cdi_folder(lab, node), pause=images.PAUSE, cni_plugins=CNI_PLUGINS, runc=RUNC)
    )
    (folder / "cni/10-lab.conflist").write_text(json.dumps(_network(folder, node), indent=1))
    supervise.ensure(
        lab,
        Daemon(
            name=f"containerd-{node.kube}",
            argv=(str(lab.kube_bin / "containerd"), "-c", str(config)),
            env={"PATH": f"{lab.kube_bin}:/usr/sbin:/usr/bin:/sbin:/bin"},  # it looks for its shim there
            files=(config,),
            ready=lambda: _answers(lab, node),
            endpoint=f"unix:{socket(lab, node)}",
        ),
    )
    have = _ctr(lab, node, "images", "ls", "-q").split()
    for tag, archive in ((images.APP, "busybox.tar"), (images.PAUSE, "pause.tar")):
        if tag not in have:
            _ctr(lab, node, "images", "import", str(lab.images / archive))


def _network(folder: Path, node: LabNode) -> dict[str, object]:
    """A pair of interfaces per pod and a route on the host: pods of both nodes reach each other through it."""
    subnet = f"10.88.{node.index}.0/24"
    ipam = {
        "type": "host-local",
        "dataDir": str(folder / "ipam"),
        "ranges": [[{"subnet": subnet}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    return {"cniVersion": "1.0.0", "name": f"lab-{node.index}", "plugins": [{"type": "ptp", "ipam": ipam}]}


def _ctr(lab: Layout, node: LabNode, *argv: str) -> str:
    return run([lab.kube_bin / "ctr", "-a", socket(lab, node), "-n", "k8s.io", *argv], timeout=30)


def _answers(lab: Layout, node: LabNode) -> bool:
    try:
        _ctr(lab, node, "version")
    except LabError:
        return False
    return True


def down(lab: Layout, node: LabNode) -> None:
    """End all containers of the node, then containerd, then what a crash may have left behind."""
    if supervise.find(lab, f"containerd-{node.kube}") is not None and _answers(lab, node):
        for task in _ctr(lab, node, "tasks", "ls", "-q").split():
            try:
                _ctr(lab, node, "tasks", "rm", "-f", task)
            except LabError:  # ended by itself meanwhile
                continue
    deadline = time.monotonic() + 2
    while _shims(lab, node) and time.monotonic() < deadline:  # a shim ends by itself with its last container
        time.sleep(0.05)
    supervise.stop(lab, f"containerd-{node.kube}")
    for shim in _shims(lab, node):
        for pid in [*_children(shim), shim]:
            _kill(pid)


def _shims(lab: Layout, node: LabNode) -> list[int]:
    """Shims outlive a killed containerd; each names the socket of its containerd in its command line."""
    address, found = str(socket(lab, node)).encode(), []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if words[0].endswith(b"containerd-shim-runc-v2") and address in words:
            found.append(int(entry.name))
    return found


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _children(pid: int) -> list[int]:
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except OSError:
        return []
    return [int(word) for word in text.split()]
