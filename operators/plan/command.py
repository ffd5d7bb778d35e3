"""The command ``gangbridge plan``. Exit status: 0 it would start now, 1 it would not, 2 bad input or no answer."""

from __future__ import annotations

import asyncio
import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console

from bridge.errors import BridgeError, ParseError
from bridge.lifecycle.admission import Refusal
from bridge.model.gang import Gang
from bridge.model.quantity import parse_mib
from bridge.model.topology import Topology
from operators.options import Kubeconfig, SlurmAdapter, SlurmExec, WorkerPython
from operators.plan.answer import Answer, Question, answer
from operators.plan.busyfile import Busy, parse_busy
from operators.plan.gangfile import read_gang_file
from operators.plan.located import BadInput, read_text
from operators.plan.offline import NodeShape, offline_question
from operators.plan.picture import draw
from operators.plan.report import WIDE, as_json, print_answer
from operators.plan.topologyfile import read_topology
from operators.settings import Adapter, Settings

PLACED, NOT_PLACED, BAD_INPUT = 0, 1, 2


class Output(StrEnum):
    """How the answer is printed."""

    TABLE = "table"
    JSON = "json"


def plan(
    file: Annotated[Path, typer.Option("--file", "-f", help="GangJob manifest; - reads standard input.")],
    topology: Annotated[
        Path | None,
        typer.Option(help="Plan offline: Slurm's topology.conf or topology.yaml. Otherwise the live fleet."),
    ] = None,
    topology_name: Annotated[
        str, typer.Option(help="Which topology of a topology.yaml; the default one without it.")
    ] = "",
    levels: Annotated[
        str, typer.Option(help="Offline: names of its levels, coarse to fine, as in spine,rack; its own without it.")
    ] = "",
    busy: Annotated[
        Path | None, typer.Option(help="Offline: what is in use. A line: NODE, then a count, indices or drained.")
    ] = None,
    gpus_per_node: Annotated[int, typer.Option(min=1, max=1024, help="Offline: GPUs of every node.")] = 8,
    gpu_type: Annotated[str, typer.Option(help="Offline: their GRES type; the gang's without it.")] = "",
    cpus: Annotated[int | None, typer.Option(min=1, help="Offline: CPUs of every node; enough without it.")] = None,
    memory: Annotated[str, typer.Option(help="Offline: memory of every node, as in 2Ti; enough without it.")] = "",
    namespace: Annotated[str, typer.Option("--namespace", "-n", help="Where the manifest names none.")] = "default",
    svg: Annotated[Path | None, typer.Option(help="Draw the placement over the racks into this file.")] = None,
    output: Annotated[Output, typer.Option("--output", "-o", help="table or json.")] = Output.TABLE,
    kubeconfig: Kubeconfig = None,
    adapter: SlurmAdapter = Adapter.PYSLURM,
    slurm_exec: SlurmExec = "",
    worker_python: WorkerPython = "python3",
) -> None:
    """Show where a gang would run, with ranks and quality, or why it would not. Nothing is written anywhere."""
    try:
        gang = read_gang_file(file, namespace)
        if topology is None:
            if busy is not None:
                raise BadInput(str(busy), None, "--busy needs --topology: the live fleet knows what is in use")
            settings = Settings(
                kubeconfig=kubeconfig, adapter=adapter, slurm_exec=slurm_exec, worker_python=worker_python
            )
            question = asyncio.run(_live(gang, settings))
        else:
            shape = _shape(gpus_per_node, gpu_type, cpus, memory)
            tree = read_topology(
                topology, topology_name, [level.strip() for level in levels.split(",") if level.strip()]
            )
            question = _offline(gang, tree, busy, shape)
        found = answer(question)
        if svg is not None:
            _write(svg, draw(found))
    except BridgeError as error:
        _fail(str(error))
    if found.reason == Refusal.UNKNOWN_LEVEL and topology is not None and not levels:
        typer.echo("hint: --levels spine,rack names the levels of the topology as the fleet does", err=True)
    _print(found, output)
    raise typer.Exit(PLACED if found.starts_now else NOT_PLACED)


def _offline(gang: Gang, tree: Topology, busy: Path | None, shape: NodeShape) -> Question:
    used = Busy()
    if busy is not None:
        used = parse_busy(str(busy), read_text(busy), nodes=tree.domains, gpus_per_node=shape.gpus)
    return offline_question(gang, tree, used, shape)


async def _live(gang: Gang, settings: Settings) -> Question:
    # What the live fleet needs is heavy, and nothing for a laptop with two files.
    from operators.kube.client import KubeClient  # noqa: PLC0415
    from operators.main import build_port  # noqa: PLC0415
    from operators.plan.live import live_question  # noqa: PLC0415

    port = build_port(settings)
    try:
        async with await KubeClient.connect(settings.kubeconfig, concurrency=settings.concurrency) as client:
            return await live_question(gang, client, port)
    finally:
        await port.close()


def _shape(gpus: int, type_: str, cpus: int | None, memory: str) -> NodeShape:
    enough = NodeShape()
    try:
        memory_mib = parse_mib(memory) if memory else enough.memory_mib
    except ParseError as error:
        raise BadInput("--memory", None, str(error)) from error
    return NodeShape(gpus=gpus, gpu_type=type_, cpus=cpus or enough.cpus, memory_mib=memory_mib)


def _print(found: Answer, output: Output) -> None:
    if output is Output.JSON:
        typer.echo(json.dumps(as_json(found), indent=2))
        return
    is_terminal = sys.stdout.isatty()
    print_answer(found, Console(width=None if is_terminal else WIDE, soft_wrap=not is_terminal))


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text)
    except OSError as error:
        raise BadInput(str(path), None, str(error.strerror or error)) from error


def _fail(message: str) -> NoReturn:
    typer.echo(f"gangbridge plan: {message}", err=True)
    raise typer.Exit(BAD_INPUT)
