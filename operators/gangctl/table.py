"""Answers as kubectl prints its own: plain columns, never cut, the same in a pipe."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from bridge.model.hostlist import fold
from operators.gangctl.age import age
from operators.gangctl.ledger import Entry, Owner, World
from operators.gangctl.nodes import NodeRow
from operators.status import timestamp

NONE = "-"
_GAP = 3
_SHOWN = 3
"""Most gangs and jobs of a node that are named unless the output is wide."""

Columns = dict[str, Callable[[Entry], str]]


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return the columns left-aligned, three blanks apart; empty cells show a dash."""
    lines = [list(header), *([cell or NONE for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        (" " * _GAP).join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def who_table(entries: Sequence[Entry], *, now: int, wide: bool = False, by_owner: bool = False) -> str:
    """Return a line per device and holder, or with ``by_owner`` one per node and gang or job."""
    columns = _who_columns(now) | (_wide_columns() if wide else {}) | {"NOTE": lambda entry: entry.reason}
    if not by_owner:
        return table(list(columns), [[show(entry) for show in columns.values()] for entry in entries])
    groups: dict[tuple[str, ...], list[Entry]] = {}
    for entry in entries:
        groups.setdefault(_group(entry), []).append(entry)
    rows = [[_folded(name, map(show, group)) for name, show in columns.items()] for group in groups.values()]
    return table(list(columns), rows)


def nodes_table(rows: Sequence[NodeRow], levels: Sequence[str], *, wide: bool = False) -> str:
    """Return a line per node."""
    header = ["NODE", "SLURM", "STATE", "FREE", "PODS", "SBATCH", "OUT", "GPUS", *map(str.upper, levels)]
    return table([*header, "GANGS", "JOBS", "REASON"], [_node(row, levels, wide=wide) for row in rows])


def _node(row: NodeRow, levels: Sequence[str], *, wide: bool) -> list[str]:
    gpus = row.gpus
    free = "?" if gpus[World.UNKNOWN] else str(gpus[World.FREE])
    jobs = [f"{number}({name})" if wide else str(number) for number, name in sorted(row.jobs.items())]
    quarantined = f"{gpus[World.QUARANTINED]} quarantined" if gpus[World.QUARANTINED] else ""
    return [
        row.name,
        row.slurm_node if row.slurm_node != row.name else "",
        row.condition.state,
        free,
        str(gpus[World.PODS]),
        str(gpus[World.SBATCH]),
        str(gpus[World.OUT] + gpus[World.QUARANTINED]),
        str(row.total),
        *(row.domains[level] for level in levels),
        _some(row.gangs, wide=wide),
        _some(jobs, wide=wide),
        "; ".join(filter(None, (quarantined, row.condition.reason))),
    ]


def _some(names: Sequence[str], *, wide: bool) -> str:
    shown = names if wide else names[:_SHOWN]
    return ",".join([*shown, *([f"+{len(names) - len(shown)}"] if len(names) > len(shown) else [])])


def _who_columns(now: int) -> Columns:
    return {
        "NODE": lambda entry: entry.node,
        "INDEX": lambda entry: "" if entry.index is None else str(entry.index),
        "DEVICE": lambda entry: entry.device.device,
        "WORLD": lambda entry: str(entry.world),
        "OWNER": _of_owner(lambda owner: owner.label),
        "RANK": _of_owner(lambda owner: "" if owner.rank is None else str(owner.rank)),
        "JOB": _of_owner(lambda owner: str(owner.job_id or "")),
        "USER": _of_owner(lambda owner: owner.user),
        "SINCE": lambda entry: "" if entry.since is None else age(now - entry.since),
        "LEFT": lambda entry: "" if entry.until is None else age(entry.until - now),
    }


def _wide_columns() -> Columns:
    return {
        "FROM": lambda entry: timestamp(entry.since) or "",
        "UNTIL": lambda entry: timestamp(entry.until) or "",
        "SLURM": lambda entry: entry.slurm_node,
        "POOL": lambda entry: entry.device.pool,
        "DRIVER": lambda entry: entry.device.driver,
        "UUID": lambda entry: entry.uuid,
        "CLAIM": _of_owner(lambda owner: owner.claim),
        "POD": _of_owner(lambda owner: owner.pod),
        "ACCOUNT": _of_owner(lambda owner: owner.account),
        "PARTITION": _of_owner(lambda owner: owner.partition),
    }


def _of_owner(show: Callable[[Owner], str]) -> Callable[[Entry], str]:
    return lambda entry: "" if entry.owner is None else show(entry.owner)


def _group(entry: Entry) -> tuple[str, ...]:
    owner = entry.owner
    return entry.node, str(entry.world), *((owner.label, str(owner.job_id)) if owner else ("", "")), entry.reason


def _folded(column: str, cells: Iterable[str]) -> str:
    """Return one cell for many: ``0-2,5`` for numbers, ``gpu-[0-2]`` for names of devices."""
    different = list(dict.fromkeys(filter(None, cells)))
    if column in {"INDEX", "RANK", "DEVICE"} and different:
        return fold(different).removeprefix("[").removesuffix("]") if different[0].isdigit() else fold(different)
    return ",".join(different)
