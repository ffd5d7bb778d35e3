"""The plugin's two unix sockets below kubelet's folder."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import structlog

from bridge.wellknown import DRIVER
from operators.driver.errors import SetupError
from operators.driver.plugin import Plugin
from operators.driver.proto import dra_pb2_grpc, pluginregistration_pb2_grpc
from operators.driver.service import DraService, RegistrationService

_MAX_SOCKET_PATH = 107
"""sun_path of unix(7) is 108 bytes with its final zero."""

log = structlog.get_logger(__name__)


class Sockets:
    """Serves ``plugin`` to the kubelet whose root folder is ``kubelet`` (``/var/lib/kubelet``).

    One instance per node at a time: a new one takes the sockets' names over.
    """

    def __init__(self, plugin: Plugin, kubelet: Path) -> None:
        self._plugin = plugin
        self.dra = _checked(kubelet / "plugins" / DRIVER / "dra.sock")
        self.registration = _checked(kubelet / "plugins_registry" / f"{DRIVER}-reg.sock")
        self._servers: tuple[grpc.Server, ...] = ()

    def start(self) -> None:
        """Listens; kubelet learns of the plugin by the registration socket, which therefore comes last."""
        dra = _server(self.dra)
        dra_pb2_grpc.add_DRAPluginServicer_to_server(DraService(self._plugin), dra)
        dra.start()
        registration = _server(self.registration)
        pluginregistration_pb2_grpc.add_RegistrationServicer_to_server(RegistrationService(str(self.dra)), registration)
        registration.start()
        self._servers = (registration, dra)
        log.info("plugin_listening", dra=str(self.dra), registration=str(self.registration))

    def present(self) -> bool:
        """False after somebody removed a socket file, as a reset of the kubelet does."""
        return self.dra.is_socket() and self.registration.is_socket()

    def stop(self, grace: float) -> None:
        """Unregisters first, then lets running calls end within ``grace`` seconds."""
        self.registration.unlink(missing_ok=True)
        for server in self._servers:
            server.stop(grace).wait()
        self.dra.unlink(missing_ok=True)
        self._servers = ()


def _checked(path: Path) -> Path:
    length = len(str(path).encode())
    if length > _MAX_SOCKET_PATH:
        raise SetupError(f"socket path {path} has {length} bytes, a unix socket allows {_MAX_SOCKET_PATH}")
    return path


def _server(path: Path) -> grpc.Server:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
    except OSError as error:
        raise SetupError(f"socket {path}: {error.strerror}") from error
    server = grpc.server(ThreadPoolExecutor(max_workers=8, thread_name_prefix=path.stem))
    try:
        server.add_insecure_port(f"unix:{path}")
    except RuntimeError as error:
        raise SetupError(f"socket {path}: {error}") from error
    return server
