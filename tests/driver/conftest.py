"""A plugin served over its real unix sockets, a kubelet's two stubs, and the API server behind it."""

from __future__ import annotations

import json
import shutil
import tempfile
from functools import partial
from pathlib import Path

import grpc
import pytest

from operators.driver.api import ApiReader
from operators.driver.journal import Journal
from operators.driver.kubeconfig import from_kubeconfig
from operators.driver.nodes import HostNodes
from operators.driver.plugin import Plugin
from operators.driver.proto import dra_pb2, dra_pb2_grpc, pluginregistration_pb2_grpc
from operators.driver.slices import PoolReader
from operators.driver.sockets import Sockets
from tests.driver.api_server import FakeApi, device, pool_slice


class Kubelet:
    """What kubelet does: claims by name in, answers by uid out."""

    def __init__(self, folder: Path):
        self.folder = folder / "kubelet"
        self.cdi = folder / "cdi"
        self._channels = []

    @property
    def dra_socket(self):
        return self.folder / "plugins" / "gpu.gangbridge.dev" / "dra.sock"

    @property
    def registration_socket(self):
        return self.folder / "plugins_registry" / "gpu.gangbridge.dev-reg.sock"

    def registration(self):
        return pluginregistration_pb2_grpc.RegistrationStub(self._channel(self.registration_socket))

    def dra(self):
        return dra_pb2_grpc.DRAPluginStub(self._channel(self.dra_socket))

    def prepare(self, *names, timeout=10, **uids):
        request = dra_pb2.NodePrepareResourcesRequest(claims=self._claims(names, uids))
        return self.dra().NodePrepareResources(request, timeout=timeout).claims

    def unprepare(self, *names, timeout=10, **uids):
        request = dra_pb2.NodeUnprepareResourcesRequest(claims=self._claims(names, uids))
        return self.dra().NodeUnprepareResources(request, timeout=timeout).claims

    def prepared(self, name):
        """Devices of one claim; fails on an error."""
        answer = self.prepare(name)[f"uid-{name}"]
        assert answer.error == ""
        return list(answer.devices)

    def refusal(self, name):
        answer = self.prepare(name)[f"uid-{name}"]
        assert not answer.devices
        return answer.error

    def spec(self, name):
        return json.loads(self.spec_path(name).read_text())

    def spec_path(self, name):
        return self.cdi / f"gangbridge.dev-gpu-uid-{name}.json"

    def specs(self):
        return sorted(path.name for path in self.cdi.glob("*.json"))

    def close(self):
        for channel in self._channels:
            channel.close()

    def _claims(self, names, uids):
        pairs = [(name, f"uid-{name}") for name in names] + list(uids.items())
        return [dra_pb2.Claim(namespace="research", name=name, uid=uid) for name, uid in pairs]

    def _channel(self, path):
        # A pool of its own for each channel: a dead connection of an earlier plugin must not be used again.
        options = [("grpc.use_local_subchannel_pool", 1), ("grpc.enable_http_proxy", 0)]
        channel = grpc.insecure_channel(f"unix:{path}", options=options)
        self._channels.append(channel)
        return channel


@pytest.fixture
def api():
    server = FakeApi()
    server.slices = [pool_slice(*(device(f"gpu-{index}", index) for index in range(8)))]
    server.start()
    yield server
    server.stop()


@pytest.fixture
def kubelet():
    # Not tmp_path: a unix socket's path may have 107 bytes only.
    folder = Path(tempfile.mkdtemp(prefix="gb"))
    stubs = Kubelet(folder)
    yield stubs
    stubs.close()
    shutil.rmtree(folder)


@pytest.fixture
def build(api, kubelet, tmp_path):
    """Makes a plugin; ``host`` replaces the fake device numbers."""

    def plugin(host=None, **wiring):
        reader = ApiReader(from_kubeconfig(api.kubeconfig(tmp_path)), timeout=5)
        parts = {
            "node": "k8s-gpu-0",
            "read_claim": reader.claim,
            "pool": PoolReader("k8s-gpu-0", partial(reader.slices, "k8s-gpu-0")),
            "host": host or HostNodes(root="/dev/fakegpu", fixed=(1, 3)),
            "journal": Journal(kubelet.cdi),
        }
        return Plugin(**{**parts, **wiring})

    return plugin


@pytest.fixture
def serve(build, kubelet):
    """Starts a plugin's sockets; a second call is a restart."""
    running = []

    def start(**wiring):
        while running:
            running.pop().stop(0)
        sockets = Sockets(build(**wiring), kubelet.folder)
        sockets.start()
        running.append(sockets)
        return sockets

    yield start
    for sockets in running:
        sockets.stop(0)


@pytest.fixture
def plugin(serve):
    return serve()
