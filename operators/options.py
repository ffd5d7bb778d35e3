"""Options that several commands have: how both servers are reached."""

from __future__ import annotations

from typing import Annotated

import typer

from operators.settings import Adapter

Kubeconfig = Annotated[str | None, typer.Option(envvar="KUBECONFIG", help="Default: the service account.")]
SlurmAdapter = Annotated[Adapter, typer.Option(envvar="GANGBRIDGE_SLURM_ADAPTER", help="How to talk to slurmctld.")]
SlurmExec = Annotated[
    str, typer.Option(envvar="GANGBRIDGE_SLURM_EXEC", help="Command put before whatever needs Slurm's files.")
]
WorkerPython = Annotated[
    str, typer.Option(envvar="GANGBRIDGE_WORKER_PYTHON", help="The Python that has pyslurm and libslurm.")
]
