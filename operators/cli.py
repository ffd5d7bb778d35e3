"""The ``gangbridge`` command."""

from __future__ import annotations

import asyncio
from typing import Annotated

import structlog
import typer

from operators import logs
from operators.auditcommand import audit_command
from operators.leader import Deposed
from operators.main import run
from operators.options import Kubeconfig, SlurmAdapter, SlurmExec, WorkerPython
from operators.plan.command import plan
from operators.settings import Adapter, Settings

log = structlog.get_logger()

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
    lease_namespace: Annotated[
        str, typer.Option(envvar="GANGBRIDGE_LEASE_NAMESPACE", help="Where the Lease of the replicas is.")
    ] = "gangbridge-system",
    lease_duration_s: Annotated[
        int,
        typer.Option(envvar="GANGBRIDGE_LEASE_DURATION_S", help="Seconds of silence after which another one leads."),
    ] = 15,
    audit_s: Annotated[
        float, typer.Option(envvar="GANGBRIDGE_AUDIT_S", min=0, help="Seconds between audits; 0 for none.")
    ] = 30,
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
        lease_namespace=lease_namespace,
        lease_duration_s=lease_duration_s,
        audit_s=audit_s,
    )
    try:
        asyncio.run(run(settings))
    except Deposed as error:
        log.warning("leadership_lost", error=str(error))
        raise typer.Exit(1) from None


app.command("plan")(plan)
app.command("audit")(audit_command)
