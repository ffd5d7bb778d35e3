"""The two container images of the lab, made by hand from the machine's static busybox: no registry, no engine."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path

from e2e.lab.layout import Layout
from e2e.lab.progress import say

BUSYBOX = Path("/bin/busybox")
APP = "localhost/lab/busybox:1"
PAUSE = "localhost/lab/pause:1"
_APPLETS = """
    sh ash awk basename cat chmod chown cp cut date dd df dirname echo env expr false find grep head hostname id kill
    ln ls mkdir mv nc nproc nslookup od ping printf ps pwd readlink rm rmdir sed seq sleep sort stat stty sync tail
    tee test timeout touch tr true uname uniq wc wget which xargs
"""
# the sandbox process: ends at once on SIGTERM
PAUSE_SCRIPT = b"#!/bin/sh\ntrap 'exit 0' TERM INT\nwhile :; do sleep 1000000 & wait $!; done\n"
FOLDERS = {"bin": 0o755, "dev": 0o755, "etc": 0o755, "proc": 0o755, "sys": 0o755, "tmp": 0o1777}


def build(lab: Layout) -> None:
    """Write one archive per image; the same busybox gives the same bytes."""
    lab.images.mkdir(parents=True, exist_ok=True)
    shell = BUSYBOX.read_bytes()
    if b"/lib64/ld-linux" in shell[:4096]:
        raise ValueError(f"{BUSYBOX} is not static; the package busybox-static has the right one")
    base = {"bin/busybox": shell, "etc/passwd": b"root:x:0:0:root:/:/bin/sh\n", "etc/group": b"root:x:0:\n"}
    app = layer(base, _APPLETS.split())
    pause = layer({**base, "bin/pause": PAUSE_SCRIPT}, ["sh", "sleep"])
    _write(lab.images / "busybox.tar", _archive(APP, app, {"Env": ["PATH=/bin"], "Cmd": ["sh"]}))
    _write(lab.images / "pause.tar", _archive(PAUSE, pause, {"Env": ["PATH=/bin"], "Entrypoint": ["/bin/pause"]}))


def _write(path: Path, data: bytes) -> None:
    if path.exists() and path.read_bytes() == data:
        say(f"image {path.name}: present")
        return
    partial = path.with_suffix(".partial")
    partial.write_bytes(data)
    partial.rename(path)
    say(f"image {path.name}: {len(data) // 1024} KiB")


def _add(archive: tarfile.TarFile, name: str, data: bytes = b"", *, kind: bytes = tarfile.REGTYPE, mode: int = 0o644,
         link: str = "") -> None:  # fmt: skip
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode, entry.linkname, entry.size = kind, mode, link, len(data)
    archive.addfile(entry, io.BytesIO(data))


def layer(files: dict[str, bytes], applets: list[str]) -> bytes:
    """A file system as an uncompressed tar; every applet is a link to busybox."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, mode in FOLDERS.items():
            _add(archive, name, kind=tarfile.DIRTYPE, mode=mode)
        for name, data in files.items():
            _add(archive, name, data, mode=0o755 if name.startswith("bin/") else 0o644)
        for applet in applets:
            _add(archive, f"bin/{applet}", kind=tarfile.SYMTYPE, mode=0o777, link="busybox")
    return buffer.getvalue()


def _archive(tag: str, content: bytes, settings: dict[str, list[str]]) -> bytes:
    """The archive format of `docker save`, which containerd imports."""
    digest = hashlib.sha256(content).hexdigest()
    image = {
        "architecture": "amd64",
        "os": "linux",
        "config": settings,
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
    }
    config = json.dumps(image).encode()
    config_name = hashlib.sha256(config).hexdigest() + ".json"
    layer_name = f"{digest}/layer.tar"
    manifest = json.dumps([{"Config": config_name, "RepoTags": [tag], "Layers": [layer_name]}]).encode()
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, data in ((config_name, config), (layer_name, content), ("manifest.json", manifest)):
            _add(archive, name, data)
    return buffer.getvalue()
