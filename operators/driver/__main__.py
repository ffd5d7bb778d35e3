"""``python -m operators.driver``: the kubelet plugin of one node, until SIGTERM or SIGINT."""

from __future__ import annotations

import logging
import re
import signal
import sys
import threading
from functools import partial
from pathlib import Path
from typing import Annotated

import structlog
import typer

from operators.driver.api import ApiReader
from operators.driver.errors import SetupError
from operators.driver.journal import Journal
from operators.driver.kubeconfig import from_kubeconfig, in_cluster
from operators.driver.nodes import HostNodes
from operators.driver.plugin import Plugin
from operators.driver.slices import PoolReader
from operators.driver.sockets import Sockets

_CHECK_SECONDS = 2.0
_GRACE_SECONDS = 5.0

log = structlog.get_logger("operators.driver")


def driver(
    *,
    node: Annotated[str, typer.Option(envvar="NODE_NAME", help="Kubernetes name of this node, and of its pool.")],
    kubelet_dir: Annotated[Path, typer.Option(help="Root folder of the kubelet.")] = Path("/var/lib/kubelet"),
    cdi_dir: Annotated[Path, typer.Option(help="Folder of CDI specs; only one node's.")] = Path("/var/run/cdi"),
    kubeconfig: Annotated[Path | None, typer.Option(help="API access; without it the pod's service account.")] = None,
    device_root: Annotated[str, typer.Option(help="Path of a device node without its number.")] = "/dev/nvidia",
    device_number: Annotated[
        str | None,
        typer.Option(
            help="MAJOR:MINOR of every device, for fleets without GPUs; without it the host's nodes are read."
        ),
    ] = None,
    common_node: Annotated[
        list[str] | None, typer.Option(help="Device node that every container with a device gets too; repeatable.")
    ] = None,
) -> None:
    """Serve the kubelet of one node: prepare and unprepare the devices of claims through CDI."""
    _configure_log(node)
    try:
        access = from_kubeconfig(kubeconfig) if kubeconfig else in_cluster()
        api = ApiReader(access)
        plugin = Plugin(
            node=node,
            read_claim=api.claim,
            pool=PoolReader(node, partial(api.slices, node)),
            host=HostNodes(root=device_root, fixed=_number(device_number), common=tuple(common_node or ())),
            journal=Journal(cdi_dir),
        )
        sockets = Sockets(plugin, kubelet_dir.absolute())
        _serve(sockets)
    except (SetupError, OSError) as error:
        log.error("plugin_cannot_start", error=str(error))  # noqa: TRY400 - the text says it all
        raise typer.Exit(1) from error


def _serve(sockets: Sockets) -> None:
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    sockets.start()
    while not stopping.wait(_CHECK_SECONDS):
        if not sockets.present():
            log.warning("sockets_vanished")
            sockets.stop(_GRACE_SECONDS)
            sockets.start()
    sockets.stop(_GRACE_SECONDS)
    log.info("plugin_stopped")


def _number(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    match = re.fullmatch(r"(\d+):(\d+)", text)
    if match is None:
        raise SetupError(f"--device-number {text!r} is not MAJOR:MINOR, as in 195:0")
    return int(match[1]), int(match[2])


def _configure_log(node: str) -> None:
    structlog.configure(
        processors=[
            partial(_add_node, node),
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso"),
            structlog.dev.ConsoleRenderer() if sys.stderr.isatty() else structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )


def _add_node(
    node: str, _logger: object, _method: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    # Not a context variable, which would not reach gRPC's threads.
    return {**event, "node": node}


if __name__ == "__main__":
    typer.run(driver)
