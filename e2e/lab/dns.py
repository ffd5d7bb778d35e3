"""Names of services for pods on the real nodes: just enough DNS that the ranks of a gang find each other.

Answers A queries for `SERVICE.NAMESPACE.svc.cluster.local` and `HOSTNAME.SERVICE.NAMESPACE.svc.cluster.local` from the
EndpointSlices of the moment; everything else does not exist. (Kubernetes DNS specification 1.1, headless services.)
"""

from __future__ import annotations

import socket
import socketserver
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from e2e.lab import layout, supervise
from e2e.lab.command import LabError, run
from e2e.lab.kube_api import KubeApi
from e2e.lab.layout import Layout
from e2e.lab.supervise import Daemon

ADDRESS = "10.96.0.10"  # on the loopback interface; pods reach it through their default route
DOMAIN = "cluster.local"
TTL = 1  # seconds; endpoints of a gang appear while its pods already ask

A, IN = 1, 1
NO_ERROR, SERVER_FAILURE, NO_NAME = 0, 2, 3
RESPONSE, AUTHORITATIVE, RECURSION_DESIRED = 0x8000, 0x0400, 0x0100
NAME_OF_QUESTION = 0xC00C  # pointer to offset 12

Lookup = Callable[[list[str]], list[str] | None]


def answer(query: bytes, lookup: Lookup) -> bytes:
    """The reply to one DNS message. ValueError or struct.error if it is not a query with one question."""
    identity, flags, questions = struct.unpack_from("!HHH", query)
    if questions != 1 or flags & RESPONSE:
        raise ValueError(f"{questions} questions, flags {flags:#x}")
    labels, end = _name(query, 12)
    kind, _ = struct.unpack_from("!HH", query, end)
    try:
        found = lookup([label.lower() for label in labels])
        code = NO_NAME if found is None else NO_ERROR
    except (OSError, LabError):  # the API server is away: a resolver asks again
        found, code = None, SERVER_FAILURE
    addresses = found if found and kind == A else []
    reply_flags = RESPONSE | AUTHORITATIVE | (flags & RECURSION_DESIRED) | code
    reply = struct.pack("!HHHHHH", identity, reply_flags, 1, len(addresses), 0, 0) + query[12 : end + 4]
    for address in addresses:
        reply += struct.pack("!HHHIH4B", NAME_OF_QUESTION, A, IN, TTL, 4, *map(int, address.split(".")))
    return reply


def _name(message: bytes, offset: int) -> tuple[list[str], int]:
    """The labels of a name without pointers, and the offset behind it."""
    labels = []
    while (length := message[offset]) != 0:
        if length > 63:
            raise ValueError(f"label of {length} bytes")
        labels.append(message[offset + 1 : offset + 1 + length].decode("ascii"))
        offset += 1 + length
    return labels, offset + 1


def addresses(labels: list[str], slices: Callable[[str, str], list[Any]]) -> list[str] | None:
    """IPv4 addresses behind a name; None: no such name. `slices(namespace, service)` lists EndpointSlices."""
    suffix = ["svc", *DOMAIN.split(".")]
    if labels[-len(suffix) :] != suffix or not 2 <= len(labels) - len(suffix) <= 3:
        return None
    *hosts, service, namespace = labels[: -len(suffix)]
    endpoints = [
        endpoint
        for found in slices(namespace, service)
        if found["addressType"] == "IPv4"
        for endpoint in found.get("endpoints") or ()
        if endpoint.get("conditions", {}).get("ready", True) and (not hosts or endpoint.get("hostname") == hosts[0])
    ]
    return [endpoint["addresses"][0] for endpoint in endpoints] or None


class _Handler(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        query, reply_to = self.request
        try:
            reply = answer(query, _lookup)
        except (ValueError, IndexError, struct.error):  # not DNS
            return
        reply_to.sendto(reply, self.client_address)


def _lookup(labels: list[str]) -> list[str] | None:
    api = KubeApi(layout.layout(), "dns")

    def slices(namespace: str, service: str) -> list[Any]:
        path = f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"
        return list(api.get(f"{path}?labelSelector=kubernetes.io/service-name%3D{service}")["items"])

    return addresses(labels, slices)


class _Server(socketserver.ThreadingUDPServer):
    allow_reuse_address = True
    daemon_threads = True


def up(lab: Layout) -> None:
    if ADDRESS not in run(["busybox", "ip", "addr", "show", "lo"]):
        run(["busybox", "ip", "addr", "add", f"{ADDRESS}/32", "dev", "lo"])
    supervise.ensure(
        lab,
        Daemon(
            name="dns",
            argv=(sys.executable, "-m", "e2e.lab.dns"),
            cwd=lab.clone,
            env={"GANGBRIDGE_LAB": str(lab.state), "GANGBRIDGE_CACHE": str(lab.cache), "PYTHONUNBUFFERED": "1"},
            files=(Path(__file__),),
            ready=_answers,
            endpoint=f"udp:{ADDRESS}:53",
        ),
    )


def _answers() -> bool:
    question = struct.pack("!HHHHHH", 1, 0, 1, 0, 0, 0) + b"\5local\0" + struct.pack("!HH", A, IN)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.settimeout(0.2)
        try:
            probe.sendto(question, (ADDRESS, 53))
            return probe.recv(512)[:2] == question[:2]
        except OSError:
            return False


def down(lab: Layout) -> None:
    supervise.stop(lab, "dns", grace=3)
    if ADDRESS in run(["busybox", "ip", "addr", "show", "lo"]):
        run(["busybox", "ip", "addr", "del", f"{ADDRESS}/32", "dev", "lo"])


if __name__ == "__main__":
    with _Server((ADDRESS, 53), _Handler) as server:
        server.serve_forever()
