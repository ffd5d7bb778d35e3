"""Build the Kubernetes side from its Go modules (versions: build/*/go.mod). Only what is missing is built."""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from e2e.lab import versions
from e2e.lab.command import LabError, run
from e2e.lab.layout import Layout
from e2e.lab.progress import say, step

MODULES = Path(__file__).parent / "build"
_V = f"v{versions.KUBERNETES}"
_MAJOR, _MINOR, _ = versions.KUBERNETES.split(".")
# without its version a server calls itself v0.0.0 and clients refuse to speak to it
KUBE_LDFLAGS = (
    f"-s -w -X k8s.io/component-base/version.gitVersion={_V} -X k8s.io/component-base/version.gitMajor={_MAJOR} "
    f"-X k8s.io/component-base/version.gitMinor={_MINOR} -X k8s.io/client-go/pkg/version.gitVersion={_V}"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """`package` of the module in build/`module` becomes the binary `name`."""

    name: str
    package: str
    module: str = "kube"
    ldflags: str = "-s -w"
    tags: str = ""
    cgo: bool = True


def _kube(name: str) -> Program:
    return Program(name=name, package=f"k8s.io/kubernetes/cmd/{name}", ldflags=KUBE_LDFLAGS)


def _containerd(name: str) -> Program:
    return Program(
        name=name, package=f"github.com/containerd/containerd/v2/cmd/{name}", module="containerd", cgo=False,
        tags="no_btrfs no_devmapper no_zfs no_aufs osusergo netgo",
        ldflags=f"-s -w -X github.com/containerd/containerd/v2/version.Version=v{versions.CONTAINERD}",
    )  # fmt: skip


PROGRAMS = (
    _kube("kube-apiserver"), _kube("kube-scheduler"), _kube("kube-controller-manager"), _kube("kubelet"),
    _kube("kubectl"),
    Program(name="kwok", package="sigs.k8s.io/kwok/cmd/kwok"),
    Program(name="etcd", package="go.etcd.io/etcd/server/v3"),
    _containerd("containerd"), _containerd("containerd-shim-runc-v2"), _containerd("ctr"),
)  # fmt: skip
ASSETS = ("etcd", "kube-apiserver", "kubectl")  # what a KUBEBUILDER_ASSETS folder holds


def build(lab: Layout) -> None:
    _take_assets(lab)
    missing = [program for program in PROGRAMS if not (lab.kube_bin / program.name).exists()]
    if not missing:
        say(f"Kubernetes {versions.KUBERNETES}, etcd, kwok, containerd: present")
        return
    if shutil.which("go") is None:
        raise LabError("no `go` on PATH; the lab builds Kubernetes from its modules and needs Go 1.26 or newer")
    partial = lab.kube_bin.parent / "partial"
    partial.mkdir(parents=True, exist_ok=True)
    lab.kube_bin.mkdir(exist_ok=True)
    log = lab.cache / "log" / "go-build.log"
    for program in missing:
        with step(f"go build {program.name}"):
            _compile(program, partial / program.name, log)
        # only a whole binary ever has its final name
        (partial / program.name).rename(lab.kube_bin / program.name)


def _compile(program: Program, output: Path, log: Path) -> None:
    env = {**os.environ, "GOWORK": "off", "GOFLAGS": "-mod=readonly"}
    if not program.cgo:
        env["CGO_ENABLED"] = "0"
    tags = ["-tags", program.tags] if program.tags else []
    run(
        ["go", "build", "-trimpath", *tags, "-ldflags", program.ldflags, "-o", output, program.package],
        env=env, cwd=MODULES / program.module, timeout=2400, log=log,
    )  # fmt: skip


def _take_assets(lab: Layout) -> None:
    """Use the binaries of KUBEBUILDER_ASSETS if they are of the lab's version."""
    folder = os.environ.get("KUBEBUILDER_ASSETS")
    if not folder or not (server := Path(folder) / "kube-apiserver").exists():
        return
    found = run([server, "--version"], timeout=20).split()[-1]
    if not re.fullmatch(re.escape(_V) + r"(\+.*)?", found):
        say(f"KUBEBUILDER_ASSETS holds Kubernetes {found}, the lab wants {_V}: not used")
        return
    lab.kube_bin.mkdir(parents=True, exist_ok=True)
    for name in ASSETS:
        source, target = Path(folder) / name, lab.kube_bin / name
        if source.exists() and not target.exists():
            target.symlink_to(source.resolve())
            say(f"{name}: from KUBEBUILDER_ASSETS")
