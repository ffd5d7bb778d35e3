"""An answer as JSON, and as text with a table for the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from bridge.errors import SpecError
from bridge.placement.fragmentation import Fragmentation
from bridge.placement.request import NodeCapacity
from bridge.queue.timeline import NEVER
from bridge.topology.paths import names_of
from operators.plan.answer import Answer, Result

WIDE = 400
"""Columns for output that is no terminal: nothing is cut."""


def as_json(answer: Answer) -> dict[str, Any]:
    """Return the answer as plain values."""
    gang, spec = answer.gang, answer.gang.spec
    found: dict[str, Any] = {"gang": f"{gang.namespace}/{gang.name}", "result": str(answer.result)}
    if not isinstance(spec, SpecError):
        found |= {"pods": spec.role.replicas, "gpus": spec.gpus}
    if answer.reason:
        found |= {"reason": answer.reason, "message": answer.message}
    if answer.result is Result.LATER:
        found["starts"] = when(answer)
    if answer.quality:
        quality = answer.quality
        found["quality"] = {
            "domains": dict(quality.domains),
            "optimum": dict(quality.optimum),
            "boundaries": dict(quality.boundaries),
            "stepTimeRatio": round(quality.step_time, 4),
            "summary": quality.describe(),
        }
    if answer.placed:
        found |= {
            "podsPerNode": answer.placed.pods_per_node,
            "nodes": [_node(answer, number) for number in _numbers(answer)],
        }
    shapes = {"before": _shape(answer.before_shape)}
    if answer.starts_now:
        shapes["after"] = _shape(answer.after_shape)
    return found | {"fragmentation": shapes, "problems": list(answer.problems)}


def print_answer(answer: Answer, console: Console) -> None:
    """Print the answer for people."""
    for problem in answer.problems:
        console.print(f"[yellow]note:[/] {escape(problem)}", highlight=False)
    console.print(headline(answer), style="bold" if answer.starts_now else "bold red", markup=False, highlight=False)
    if answer.message and answer.result is not Result.REFUSED:
        console.print(answer.message, markup=False, highlight=False)
    if answer.placed:
        if answer.quality:
            console.print(answer.quality.describe(), markup=False, highlight=False)
        console.print(_table(answer))
    console.print(f"free before: {answer.before_shape.describe()}", style="dim", markup=False, highlight=False)
    if answer.starts_now:
        console.print(f"free after:  {answer.after_shape.describe()}", style="dim", markup=False, highlight=False)


def headline(answer: Answer) -> str:
    """Return ``research/llm (8 pods, 64 GPUs) would start now on 8 nodes``, or that it would not."""
    gang, spec = answer.gang, answer.gang.spec
    name = f"{gang.namespace}/{gang.name}"
    if not isinstance(spec, SpecError):
        name += f" ({_count(spec.role.replicas, 'pod')}, {_count(spec.gpus, 'GPU')})"
    match answer.result:
        case Result.PLACED:
            return f"{name} would start now on {_count(len(answer.placed.nodes) if answer.placed else 0, 'node')}"
        case Result.LATER:
            return f"{name} would wait ({answer.reason}) and start {when(answer)}"
        case Result.UNPLACEABLE:
            return f"{name} does not fit ({answer.reason})"
        case Result.REFUSED:
            return f"{name} would be refused ({answer.reason}): {answer.message}"


def when(answer: Answer) -> str:
    """Return when the gang would start, UTC: ``at 2026-11-30T20:00:00Z``."""
    if answer.free_at is None or answer.free_at >= NEVER:
        return "at a time that nobody knows"
    return "at " + datetime.fromtimestamp(answer.free_at, tz=UTC).isoformat().replace("+00:00", "Z")


def span(ranks: range) -> str:
    """Return ``0-7``, or ``3`` for a single rank."""
    return str(ranks[0]) if len(ranks) == 1 else f"{ranks[0]}-{ranks[-1]}"


def _table(answer: Answer) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    # The same as for squeue and kubectl: text to the left, numbers to the right.
    table.add_column("RANKS", justify="right", no_wrap=True)
    table.add_column("NODE", no_wrap=True)
    for level in answer.levels:
        table.add_column(level.upper(), no_wrap=True)
    table.add_column("FREE" if answer.starts_now else "FREE NOW", justify="right", no_wrap=True)
    if answer.starts_now:
        table.add_column("AFTER", justify="right", no_wrap=True)
    for number in _numbers(answer):
        ranks, node = answer.ranks(number), answer.nodes[answer.placed.nodes[number]] if answer.placed else None
        if node is None:
            continue
        cells = [span(ranks), node.name, *(name or "-" for name in names_of(node.domains))]
        cells.append(f"{_free(answer, node)} of {_free(answer, node) + node.busy_gpus}")
        if answer.starts_now:
            cells.append(str(_free(answer, answer.after[node.name])))
        table.add_row(*map(escape, cells))
    return table


def _node(answer: Answer, number: int) -> dict[str, Any]:
    name = answer.placed.nodes[number] if answer.placed else ""
    node = answer.nodes[name]
    found: dict[str, Any] = {
        "node": name,
        "ranks": list(answer.ranks(number)),
        "domains": dict(zip(answer.levels, node.domains, strict=False)),
        "freeBefore": _free(answer, node),
    }
    return found | ({"freeAfter": _free(answer, answer.after[name])} if answer.starts_now else {})


def _shape(shape: Fragmentation) -> dict[str, Any]:
    return {
        "nodes": shape.nodes,
        "wholeNodes": shape.whole_nodes,
        "partialNodes": shape.partial_nodes,
        "partialRatio": round(shape.partial_ratio, 4),
        "wholeDomains": dict(shape.whole_domains),
        "largest": dict(shape.largest),
        "locality": round(shape.locality, 4),
        "segmentsLost": {str(size): lost for size, lost in shape.segments_lost.items()},
    }


def _free(answer: Answer, node: NodeCapacity) -> int:
    return node.free_gpus(answer.gpu_type)


def _numbers(answer: Answer) -> Sequence[int]:
    return range(len(answer.placed.nodes)) if answer.placed else ()


def _count(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
