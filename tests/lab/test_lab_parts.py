"""Parts of the lab that can be wrong without any server noticing."""

import subprocess
import tarfile
from io import BytesIO
from pathlib import Path

import pytest

from e2e.lab import chroot, external, fleet, images, slurm, slurm_root, wrappers
from e2e.lab.layout import Layout

CONFIGS = Path(__file__).parents[2] / "slurm-configs"


@pytest.fixture
def lab(tmp_path: Path) -> Layout:
    return Layout(clone=tmp_path / "the clone", cache=tmp_path / "cache", state=tmp_path / "st'ate")


def test_no_name_is_used_in_two_worlds():
    nodes = [*fleet.gpu_nodes(), *fleet.external_nodes(200)]
    kube, slurm_names = {n.kube for n in nodes}, {n.slurm for n in nodes}
    assert len(kube) == len(slurm_names) == len(nodes)
    assert not kube & slurm_names


def test_external_topology_is_regular():
    nodes = fleet.external_nodes(130)
    racks = [n.rack for n in nodes]
    assert racks.count("ext-rack-0") == 16
    assert {n.spine for n in nodes if n.rack in {"ext-rack-0", "ext-rack-3"}} == {"ext-spine-0"}
    assert nodes[64].spine == "ext-spine-1"
    assert not {n.spine for n in nodes} & {n.spine for n in fleet.gpu_nodes()}


def test_ports_and_counts_agree_with_slurm_configs():
    site, gres = (CONFIGS / "lab/site.conf").read_text(), (CONFIGS / "gres.conf").read_text()
    last = slurm.SLURMD_PORT + len(fleet.gpu_nodes()) - 1
    assert f"Port=[{slurm.SLURMD_PORT}-{last}]" in site
    assert f"SlurmctldPort={slurm.CTLD_PORT}" in site
    assert f"Gres=gpu:{fleet.GPU_TYPE}:{fleet.GPUS_PER_NODE}" in site
    assert all(f"/dev/fakegpu[{half}]" in gres for half in ("0-3", "4-7"))
    assert external.GRES_CONF.count(f"count={fleet.GPUS_PER_NODE // 2},") == 2


@pytest.mark.parametrize("name", ["slurm-exec", "squeue", "kubectl"])
def test_wrappers_are_shell_even_below_odd_paths(lab, name):
    wrappers.write(lab)
    subprocess.run(["sh", "-n", lab.bin / name], check=True)


def test_environment_puts_the_wrappers_first_once(lab):
    script = wrappers.environment(lab) * 2 + 'echo "$PATH"; echo "$LAB_USER"; echo "$GANGBRIDGE_SLURM_EXEC"'
    run = subprocess.run(
        ["sh", "-c", script], check=True, text=True, capture_output=True, env={"PATH": "/usr/bin:/bin"}
    )
    path, user, door = run.stdout.splitlines()
    assert path == f"{lab.bin}:/usr/bin:/bin"
    assert user == "alice"
    assert door == str(lab.bin / "slurm-exec")


def test_slurm_exec_says_that_the_lab_is_down(lab):
    wrappers.write(lab)
    run = subprocess.run([lab.bin / "slurm-exec", "true"], check=False, text=True, capture_output=True)
    assert run.returncode == 69
    assert "the lab is not up" in run.stderr


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Types: deb\n# http://old.example/debian\nURIs: http://a.example/debian\n", "http://a.example/debian"),
        ("deb [signed-by=/x.gpg] http://b.example/debian/ bookworm main\n", "http://b.example/debian/"),
        (
            "deb http://c.example/debian-security x main\ndeb http://c.example/debian x main\n",
            "http://c.example/debian",
        ),
    ],
)
def test_mirror_is_read_from_apt_sources(text, expected):
    assert slurm_root.find_mirror(text) == expected


def test_no_mirror_is_an_error():
    with pytest.raises(slurm_root.LabError, match="no Debian mirror"):
        slurm_root.find_mirror("deb http://a.example/ubuntu noble main\n")


def test_image_layer_links_every_applet():
    layer = images.layer({"bin/busybox": b"x"}, ["sh", "ls"])
    with tarfile.open(fileobj=BytesIO(layer)) as archive:
        entries = {entry.name: entry for entry in archive}
    assert entries["bin/busybox"].mode == 0o755
    assert {name: entries[f"bin/{name}"].linkname for name in ("sh", "ls")} == {"sh": "busybox", "ls": "busybox"}
    assert entries["tmp"].mode == 0o1777
    assert images.layer({"bin/busybox": b"x"}, ["sh", "ls"]) == layer


@pytest.mark.parametrize(("shown", "unmounted"), [("another clone", True), ("the clone", False), (None, False)])
def test_the_root_shows_the_clone_that_the_lab_is_brought_up_from(lab, monkeypatch, shown, unmounted):
    """Workers of the Slurm root run this code."""
    lab.clone.mkdir()
    inside, done = lab.root / "opt/gangbridge", []
    if shown is not None:
        inside.parent.mkdir(parents=True)
        (lab.clone.parent / shown).mkdir(exist_ok=True)
        inside.symlink_to(lab.clone.parent / shown)
    monkeypatch.setattr(chroot.mounts, "unmount", lambda folder: done.append(("unmount", folder)))
    monkeypatch.setattr(chroot.mounts, "mount", lambda point, *options: done.append(("mount", point, options[-1])))
    chroot.show_clone(lab)
    assert done == [("unmount", inside)] * unmounted + [("mount", inside, str(lab.clone))]
