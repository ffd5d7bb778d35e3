"""The command ``gangbridge audit``. Exit status: 0 clean, 1 violations, 2 a server could not be read."""

from __future__ import annotations

import json
import shlex
import sys
import time
from typing import Annotated

import typer
from rich.console import Console

from auditor.audit import PAUSE_S, audit, read_servers
from auditor.errors import Unreadable
from auditor.report import Report, as_json, error_as_json, print_report
from operators.options import Kubeconfig, SlurmExec
from operators.plan.command import Output
from operators.plan.report import WIDE

CLEAN, VIOLATIONS, UNREADABLE = 0, 1, 2


def audit_command(
    watch: Annotated[float, typer.Option(min=0, help="Audit again every so many seconds, until interrupted.")] = 0,
    pause: Annotated[
        float, typer.Option(min=0, help="Seconds until the second reading, which has to confirm what is wrong.")
    ] = PAUSE_S,
    output: Annotated[Output, typer.Option("--output", "-o", help="table or json.")] = Output.TABLE,
    kubeconfig: Kubeconfig = None,
    slurm_exec: SlurmExec = "",
) -> None:
    """Check the invariants I1-I8 from fresh lists of both servers. Nothing is written anywhere."""
    prefix, code = shlex.split(slurm_exec), CLEAN
    try:
        while True:
            found = _audit(kubeconfig, prefix, pause)
            code = _code(found)
            _print(found, output)
            if not watch:
                break
            time.sleep(watch)
    except KeyboardInterrupt:
        pass
    raise typer.Exit(code)


def _audit(kubeconfig: str | None, prefix: list[str], pause_s: float) -> Report | Unreadable:
    try:
        return audit(lambda: read_servers(kubeconfig, prefix), pause_s=pause_s)
    except Unreadable as error:
        return error


def _code(found: Report | Unreadable) -> int:
    if isinstance(found, Unreadable):
        return UNREADABLE
    return CLEAN if found.is_clean else VIOLATIONS


def _print(found: Report | Unreadable, output: Output) -> None:
    if output is Output.JSON:
        value = error_as_json(found) if isinstance(found, Unreadable) else as_json(found)
        typer.echo(json.dumps(value, indent=2))
    if isinstance(found, Unreadable):
        typer.echo(f"gangbridge audit: {found}", err=True)
    elif output is Output.TABLE:
        is_terminal = sys.stdout.isatty()
        print_report(found, Console(width=None if is_terminal else WIDE, soft_wrap=not is_terminal))
