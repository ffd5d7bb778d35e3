"""A tiny API server: objects by path over plain HTTP, which can stall, fail and go away."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

RESOURCES = "/apis/resource.k8s.io/v1"
DRIVER = "gpu.gangbridge.dev"


class FakeApi:
    def __init__(self):
        self.claims = {}
        self.slices = []
        self.requests = []
        self.status = None
        self.knows_pool_selector = True
        self.hold = threading.Event()
        self.hold.set()
        self.held = threading.Event()
        self._server = None

    def start(self):
        api = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                api.requests.append((self.path, self.headers.get("Authorization")))
                if not api.hold.is_set():
                    api.held.set()
                    api.hold.wait(10)
                status, answer = api.answer(urlsplit(self.path))
                body = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()

    def stop(self):
        if self._server is not None:
            self.hold.set()
            self._server.shutdown()
            self._thread.join()
            self._server.server_close()
            self._server = None

    @property
    def url(self):
        return f"http://127.0.0.1:{self._server.server_port}"

    def kubeconfig(self, folder: Path, **user):
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "here",
            "contexts": [{"name": "here", "context": {"cluster": "lab", "user": "plugin"}}],
            "clusters": [{"name": "lab", "cluster": {"server": self.url}}],
            "users": [{"name": "plugin", "user": user or {"token": "secret"}}],
        }
        path = folder / "kubeconfig"
        path.write_text(json.dumps(config))  # YAML is a superset of JSON
        return path

    def answer(self, url):
        if self.status is not None:
            return self.status, {"kind": "Status", "message": "as the test wishes"}
        if url.path == f"{RESOURCES}/resourceslices":
            return self._select(parse_qs(url.query)["fieldSelector"][0])
        claim = self.claims.get(url.path)
        if claim is None:
            return 404, {"kind": "Status", "message": f"{url.path} not found"}
        return 200, claim

    def _select(self, selector):
        wanted = dict(term.split("=") for term in selector.split(","))
        if "spec.pool.name" in wanted and not self.knows_pool_selector:
            return 400, {"kind": "Status", "message": "field label not supported: spec.pool.name"}
        pool = wanted.get("spec.pool.name")
        items = [item for item in self.slices if item["spec"]["driver"] == wanted["spec.driver"]]
        return 200, {"items": [item for item in items if pool in (None, item["spec"]["pool"]["name"])]}

    def put_claim(self, claim):
        meta = claim["metadata"]
        self.claims[f"{RESOURCES}/namespaces/{meta['namespace']}/resourceclaims/{meta['name']}"] = claim


def result(device, *, pool="k8s-gpu-0", driver=DRIVER, request="gpus", **more):
    return {"request": request, "driver": driver, "pool": pool, "device": device, **more}


POD = {"resource": "pods", "name": "llm-0", "uid": "pod-uid"}


def claim(name, *results, uid=None, reserved=(POD,), allocated=True):
    status = {"reservedFor": list(reserved)}
    if allocated:
        status["allocation"] = {"devices": {"results": list(results)}}
    return {"metadata": {"namespace": "research", "name": name, "uid": uid or f"uid-{name}"}, "status": status}


def device(name, index, minor=None, *, domain=""):
    attributes = {f"{domain}index": {"int": index}}
    if minor is not None:
        attributes[f"{domain}minor"] = {"int": minor}
    return {"name": name, "attributes": attributes}


def pool_slice(*devices, pool="k8s-gpu-0", driver=DRIVER, generation=1, count=1):
    pool_field = {"name": pool, "generation": generation, "resourceSliceCount": count}
    return {"spec": {"driver": driver, "pool": pool_field, "devices": list(devices)}}
