"""The ``gangbridge`` command."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from operators import logs
from operators.main import run
from operators.options import Kubeconfig, SlurmAdapter, SlurmExec, WorkerPython
from operators.plan.command import plan
from operators.settings import Adapter, Settings

app = typer.Typer(
    no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, help="One GPU fleet, two front doors."
)


@app.callback()
def main() -> None:
    """One GPU fleet, two front doors: Slurm and Kubernetes share nodes with exact devices."""


@app.command()
def operator(
    kubeconfig: Kubeconfig = None,
    adapter: SlurmAdapter = Adapter.PYSLURM,
    slurm_exec: SlurmExec = "",
    worker_python: WorkerPython = "python3",
    poll_s: Annotated[float, typer.Option(envvar="GANGBRIDGE_POLL_S", help="Seconds between polls of slurmctld.")] = 1,
    probe_port: Annotated[int, typer.Option(help="Port of /healthz, /readyz and /metrics; 0 picks one.")] = 8080,
    log_level: Annotated[str, typer.Option(help="DEBUG, INFO, WARNING or ERROR.")] = "INFO",
) -> None:
    """Run the operator until it is told to stop."""
    logs.configure(level=log_level)
    settings = Settings(
        kubeconfig=kubeconfig,
        adapter=adapter,
        slurm_exec=slurm_exec,
        worker_python=worker_python,
        poll_s=poll_s,
        probe_port=probe_port,
    )
    asyncio.run(run(settings))


app.command("plan")(plan)
