"""`up`, `down`, `reset` and `external` over all parts, one at a time per lab."""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from e2e.lab import (
    artefacts,
    binding,
    control_plane,
    dns,
    driver,
    external,
    fleet,
    host,
    kubelet,
    kwok,
    mounts,
    slurm,
    supervise,
    tenants,
    wrappers,
)
from e2e.lab.command import LabError
from e2e.lab.kube_api import KubeApi
from e2e.lab.layout import Layout
from e2e.lab.progress import say

LONGEST_STATE = 50  # characters; sockets below it must stay under the kernel's 107


@contextmanager
def exclusive(lab: Layout) -> Iterator[None]:
    """Only one command changes the lab at a time; a second one waits."""
    host.require_root()
    if len(str(lab.state)) > LONGEST_STATE:
        raise LabError(
            f"GANGBRIDGE_LAB={lab.state} is longer than {LONGEST_STATE} characters; socket paths would not fit"
        )
    lab.state.mkdir(parents=True, exist_ok=True)
    with (lab.state / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another lab command is running, waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def up(lab: Layout, *, fresh: bool = False) -> None:
    artefacts.build(lab)
    if fresh:
        wipe(lab)
    host.save_sysctls(lab)
    wrappers.write(lab)
    with ThreadPoolExecutor(2) as pool:
        jobs = [pool.submit(slurm.up, lab), pool.submit(_kubernetes, lab)]
        for job in jobs:
            job.result()
    binding.build(lab)
    driver.up(lab)
    # They survive in slurmctld's state; a new lab has none.
    set_external(lab, len(external.present(lab)) or external.FIRST)
    say(f"the lab is up; logs: {lab.logs}; shell: . <(python3 -m e2e.lab env)")


def _kubernetes(lab: Layout) -> None:
    control_plane.up(lab)
    api = KubeApi(lab)
    tenants.apply(api)
    dns.up(lab)
    kwok.up(lab)
    kwok.register(api, [node for node in fleet.gpu_nodes() if node.kubelet is fleet.Kubelet.KWOK])
    real = fleet.real_nodes()
    with ThreadPoolExecutor(len(real)) as pool:
        list(pool.map(lambda node: kubelet.up(lab, node), real))
    for node in real:
        kubelet.finish(api, node)
    say("Kubernetes: all nodes ready")


def set_external(lab: Layout, count: int) -> None:
    """Have exactly `count` EXTERNAL nodes, in Slurm and in Kubernetes."""
    external.converge(lab, count)
    api, nodes = KubeApi(lab), fleet.external_nodes(count)
    kwok.forget(api, {node.kube for node in nodes})
    kwok.register(api, nodes)
    say(f"EXTERNAL nodes in Kubernetes: {count}")


def down(lab: Layout) -> None:
    """Stop everything by its identity, in order; unmount; remove cgroups; restore the machine's settings."""
    driver.down(lab)
    for node in fleet.real_nodes():
        kubelet.down(lab, node)
    supervise.stop(lab, "kwok")
    dns.down(lab)
    control_plane.down(lab)
    slurm.down(lab)
    for left in supervise.records(lab):  # a daemon of another version of the lab
        supervise.stop(lab, left.name)
    mounts.unmount(lab.state)
    for node in fleet.real_nodes():
        kubelet.clean(node)
    host.restore_sysctls(lab)
    say("the lab is down")


def wipe(lab: Layout) -> None:
    """Down, then forget what Kubernetes and Slurm know. Tokens, certificates, logs and scratch stay."""
    down(lab)
    if busy := mounts.below(lab.state):
        raise LabError(f"still mounted below {lab.state}, nothing is deleted: {' '.join(map(str, busy))}")
    control_plane.wipe(lab)
    for folder in (lab.state / "slurm", lab.state / "nodes"):
        shutil.rmtree(folder, ignore_errors=True)
    say("state of Kubernetes and Slurm deleted")


def purge(lab: Layout) -> None:
    wipe(lab)
    shutil.rmtree(lab.state)
