"""Both servers of a ``World`` as the auditor reaches them: HTTP on loopback, and commands behind a prefix."""

from __future__ import annotations

import json
import shlex
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from tests.auditor.world import World

PAGE = 2
"""Objects of a page, however many were asked for: what is here has several pages then."""


class Servers:
    """``refuse`` makes the API server answer with a code; ``asked`` lists its requests."""

    def __init__(self, world: World, folder: Path, url: str) -> None:
        self.world, self.folder = world, folder
        self.refuse: tuple[str, int] | None = None
        self.asked: list[str] = []
        self.kubeconfig = folder / "kubeconfig"
        self.kubeconfig.write_text(json.dumps(_kubeconfig(url)))
        self.refresh()

    def refresh(self) -> None:
        """Let Slurm's commands say what the world has become."""
        (self.folder / "squeue").write_bytes(self.world.squeue())
        (self.folder / "scontrol").write_bytes(self.world.scontrol())

    @property
    def slurm_exec(self) -> str:
        """Return the prefix of Slurm's commands."""
        return shlex.join(self.prefix)

    @property
    def prefix(self) -> list[str]:
        return ["sh", "-c", f'cat "{self.folder}/$0"']

    def answer(self, path: str) -> tuple[int, object]:
        """Return what the API server says."""
        self.asked.append(path)
        url = urlsplit(path)
        if self.refuse and self.refuse[0] in path:
            return self.refuse[1], {"kind": "Status", "message": f"no {self.refuse[0]} for you"}
        if url.path.endswith("/namespaces/kube-system"):
            return 200, self.world.objects["namespaces"]["kube-system"]
        objects = list(self.world.objects[url.path.rpartition("/")[2]].values())
        start = int(parse_qs(url.query).get("continue", ["0"])[0])
        rest = {"continue": str(start + PAGE)} if start + PAGE < len(objects) else {}
        return 200, {"items": objects[start : start + PAGE], "metadata": rest}


@contextmanager
def served(world: World, folder: Path) -> Iterator[Servers]:
    """Serve the world until the block ends."""
    servers: Servers

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            code, value = servers.answer(self.path)
            body = json.dumps(value).encode()
            self.send_response(code)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def date_time_string(self, timestamp: int | None = None) -> str:
            return super().date_time_string(timestamp or world.kube_now)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    servers = Servers(world, folder, f"http://127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield servers
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _kubeconfig(url: str) -> object:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "clusters": [{"name": "test", "cluster": {"server": url}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        "users": [{"name": "test", "user": {"token": "secret"}}],
    }
