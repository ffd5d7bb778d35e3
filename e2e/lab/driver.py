"""The project's own DRA kubelet plugin beside each real kubelet, as soon as there is one to start."""

from __future__ import annotations

from e2e.lab import containerd, fleet, kubelet, supervise
from e2e.lab.command import LabError
from e2e.lab.fleet import LabNode
from e2e.lab.layout import Layout
from e2e.lab.progress import say
from e2e.lab.supervise import Daemon

# /dev/null under another name: harmless to read and write
DEVICE_NUMBER = "1:3"
DEVICE_ROOT = "/dev/fakegpu"


def up(lab: Layout) -> bool:
    """Start the plugins. False, with a line that says why, if that is not possible; the rest of the lab goes on."""
    python, module = lab.clone / ".venv/bin/python", lab.clone / "operators/driver"
    if not python.exists() or not (module / "__main__.py").exists():
        missing = "the virtual environment" if not python.exists() else "operators/driver"
        say(f"kubelet plugin: not started, {missing} is missing (later: python3 -m e2e.lab driver)")
        return False
    try:
        for node in fleet.real_nodes():
            supervise.ensure(lab, _daemon(lab, node))
    except LabError as error:
        say(f"kubelet plugin: {error}")
        return False
    return True


def down(lab: Layout) -> None:
    for node in fleet.real_nodes():
        supervise.stop(lab, name(node), grace=5)


def name(node: LabNode) -> str:
    return f"driver-{node.kube}"


def _daemon(lab: Layout, node: LabNode) -> Daemon:
    root = kubelet.root(lab, node)
    return Daemon(
        name=name(node),
        argv=(
            str(lab.clone / ".venv/bin/python"), "-m", "operators.driver", "--node", node.kube,
            "--kubelet-dir", str(root), "--cdi-dir", str(containerd.cdi_folder(lab, node)),
            "--kubeconfig", str(lab.kubeconfig("gangbridge-driver")),
            "--device-root", DEVICE_ROOT, "--device-number", DEVICE_NUMBER,
        ),
        cwd=lab.clone,
        env={"PYTHONUNBUFFERED": "1"},
        ready=lambda: any(map(supervise.answering, (root / "plugins_registry").glob("*.sock"))),
        endpoint=f"unix:{root}/plugins_registry",
        patience=20,
    )  # fmt: skip
