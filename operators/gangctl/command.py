"""The kubectl plugin ``kubectl gang``. Exit status: 0 answered, 1 unknown name or no answer, 2 wrong usage."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Sequence
from enum import StrEnum
from typing import Annotated, Any, NoReturn, TypeVar

import typer

from bridge import wellknown
from bridge.errors import BridgeError
from bridge.model.fence import MAX_REASON, Fence
from operators.gangctl.facts import Node
from operators.gangctl.fencing import Effect, effect_of
from operators.gangctl.fetch import Fetcher
from operators.gangctl.jsonform import nodes_json, who_json
from operators.gangctl.ledger import Entry, Ledger
from operators.gangctl.nodes import node_rows
from operators.gangctl.table import nodes_table, who_table
from operators.gangctl.targets import UnknownTarget, find, find_node
from operators.kube.client import KubeClient
from operators.kube.connection import context_namespace
from operators.kube.resources import NODES, SELFSUBJECTREVIEWS

T = TypeVar("T")


class Output(StrEnum):
    """How the answer is printed."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"


OutputForm = Annotated[Output, typer.Option("--output", "-o", help="table, wide or json.")]
KubeContext = Annotated[str | None, typer.Option("--context", help="Context of the kubeconfig.")]
KubeConfig = Annotated[str | None, typer.Option("--kubeconfig", envvar="KUBECONFIG", help="As for kubectl.")]
Namespace = Annotated[
    str | None, typer.Option("--namespace", "-n", help="Yours, read where not all namespaces may be.")
]
NodeName = Annotated[str, typer.Argument(metavar="NODE", help="Kubernetes or Slurm name.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for the node's name.")]

app = typer.Typer(
    name="kubectl gang",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Who holds which GPU, in Slurm and in Kubernetes.",
)


@app.command()
def who(
    targets: Annotated[
        list[str],
        typer.Argument(
            metavar="TARGET...",
            help="NODE (Kubernetes or Slurm name), NODE/DEVICE, POOL/DEVICE, NODE:INDEX, a uuid or a PCI bus id.",
        ),
    ],
    by_owner: Annotated[bool, typer.Option("--by-owner", help="One line per gang or job on a node.")] = False,
    output: OutputForm = Output.TABLE,
    namespace: Namespace = None,
    context: KubeContext = None,
    kubeconfig: KubeConfig = None,
) -> None:
    """Say who holds a node's devices, or one device: gang or job, user, since when, until when."""
    ledger, notes = _run(_ledger, kubeconfig, context, namespace)
    entries: dict[Entry, None] = {}
    unknown: list[UnknownTarget] = []
    for target in targets:
        try:
            found = find(ledger, target)
        except UnknownTarget as error:
            unknown.append(error)
        else:
            entries |= dict.fromkeys(found.entries)
            notes += [found.note] if found.note else []
    if output is Output.JSON:
        _print_json(who_json(list(entries), notes))
    elif entries:
        wide = output is Output.WIDE
        _print(who_table(list(entries), now=int(time.time()), wide=wide, by_owner=by_owner), notes)
    else:
        _print("", notes)
    _finish(unknown)


@app.command()
def nodes(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NODE]...", help="Kubernetes or Slurm names; all managed nodes.")
    ] = None,
    output: OutputForm = Output.TABLE,
    namespace: Namespace = None,
    context: KubeContext = None,
    kubeconfig: KubeConfig = None,
) -> None:
    """List the nodes: whether they take work, whose their GPUs are, which gangs and jobs are there."""
    ledger, notes = _run(_ledger, kubeconfig, context, namespace)
    known: dict[str, None] = {}
    unknown: list[UnknownTarget] = []
    for name in names or ():
        try:
            known[find_node(ledger.facts, name).name] = None
        except UnknownTarget as error:
            unknown.append(error)
    rows = node_rows(ledger, list(known)) if known or not names else []
    if output is Output.JSON:
        _print_json(nodes_json(rows, notes))
    elif rows:
        _print(nodes_table(rows, list(ledger.facts.levels), wide=output is Output.WIDE), notes)
    else:
        _print("", [*notes, *([] if unknown else [f"no node has the label {wellknown.SLURM_NODE}"])])
    _finish(unknown)


@app.command()
def fence(
    name: NodeName,
    reason: Annotated[str, typer.Option(help="How you know that nothing runs there any more.")],
    yes: Yes = False,
    context: KubeContext = None,
    kubeconfig: KubeConfig = None,
) -> None:
    """Vouch that a node is powered off or its containers are gone: what is quarantined there becomes free."""
    reason = reason.strip()
    if not 0 < len(reason) <= MAX_REASON:
        raise typer.BadParameter(f"must be 1 to {MAX_REASON} characters", param_hint="--reason")
    ledger, node = _read_node(name, kubeconfig, context)
    if not node.slurm_node:
        _fail(f"{node.name} is not managed: it has no label {wellknown.SLURM_NODE}")
    typer.echo("\n".join(_warning(effect_of(ledger, node))))
    if not yes and typer.prompt(f"Type {node.name} to fence it") != node.name:
        _fail("that is not its name; nothing was written")
    _run(_write_fence, kubeconfig, context, None, node, reason)
    typer.echo(f"node/{node.name} fenced")


@app.command()
def unfence(name: NodeName, context: KubeContext = None, kubeconfig: KubeConfig = None) -> None:
    """Take the word back: the node is to be trusted again, as far as its own state allows."""
    _, node = _read_node(name, kubeconfig, context)
    was_fenced = _run(_remove_fence, kubeconfig, context, None, node)
    typer.echo(f"node/{node.name} {'unfenced' if was_fenced else 'was not fenced'}")


def main() -> None:
    """Run as ``kubectl-gang``, which kubectl finds on the PATH."""
    app(prog_name="kubectl gang")


def _run(
    ask: Callable[..., Awaitable[T]], kubeconfig: str | None, context: str | None, namespace: str | None, *args: object
) -> T:
    """Return what ``ask`` answers; any error that has a name of ours ends the command."""

    async def connected() -> T:
        async with await KubeClient.connect(kubeconfig, context) as client:
            return await ask(client, namespace or context_namespace(kubeconfig, context), *args)

    try:
        return asyncio.run(connected())
    except BridgeError as error:
        _fail(str(error))


async def _ledger(client: KubeClient, namespace: str) -> tuple[Ledger, list[str]]:
    return await Fetcher(client, namespace).ledger()


async def _write_fence(client: KubeClient, _: str, node: Node, reason: str) -> None:
    review = await client.create(SELFSUBJECTREVIEWS, {"metadata": {}})
    by = ((review.get("status") or {}).get("userInfo") or {}).get("username", "")
    await _annotate(client, node, Fence(by=by, at=int(time.time()), reason=reason).dumps())


async def _remove_fence(client: KubeClient, _: str, node: Node) -> bool:
    stored = await client.get(NODES, node.name)
    if wellknown.FENCED not in (stored["metadata"].get("annotations") or {}):
        return False
    await _annotate(client, node, None)
    return True


async def _annotate(client: KubeClient, node: Node, text: str | None) -> None:
    """Write the annotation on this very Node object: a new node of the same name is another machine."""
    await client.patch(NODES, node.name, {"metadata": {"uid": node.uid, "annotations": {wellknown.FENCED: text}}})


def _read_node(name: str, kubeconfig: str | None, context: str | None) -> tuple[Ledger, Node]:
    """Return the ledger and the node in it; the notes come before what they may explain."""
    ledger, notes = _run(_ledger, kubeconfig, context, None)
    _print("", notes)
    try:
        return ledger, find_node(ledger.facts, name)
    except UnknownTarget as error:
        _fail(str(error))


def _warning(effect: Effect) -> list[str]:
    """Return what a person has to know before he vouches."""
    node = effect.node
    lines = [f"A fence on {node.name} (Slurm {node.slurm_node}) says: nothing of Kubernetes runs there any more."]
    if node.fence:
        lines.append(f"It is fenced already: {node.fence.reason}")
    if node.ready:
        lines.append(f"warning: {node.name} is Ready, so its kubelet answers; a fence is for nodes that do not")
    for what, shares in (("quarantined, will be freed", effect.freed), ("counts as running there", effect.alive)):
        lines += [f"{what}:" + ("" if shares else " nothing"), *(f"  {share.describe()}" for share in shares)]
    return lines


def _print(text: str, notes: Sequence[str]) -> None:
    for note in dict.fromkeys(notes):
        typer.echo(f"note: {note}", err=True)
    if text:
        typer.echo(text)


def _print_json(value: dict[str, Any]) -> None:
    typer.echo(json.dumps(value, indent=2))


def _finish(unknown: Sequence[UnknownTarget]) -> None:
    for error in unknown:
        typer.echo(f"error: {error}", err=True)
    if unknown:
        raise typer.Exit(1)


def _fail(message: str) -> NoReturn:
    typer.echo(f"error: {message}", err=True)
    raise typer.Exit(1)
