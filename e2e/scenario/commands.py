"""The commands of a user: kubectl, and Slurm's. Everything that a scenario knows or does goes through here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

Object = dict[str, Any]

STATE = Path(os.environ.get("GANGBRIDGE_STATE", "/var/tmp/gangbridge-lab"))
NAMESPACE = "research"
MIRRORS = "gangbridge-mirror"


class CommandFailed(Exception):
    """A command ended with another status than 0; the text is what it said."""


def run(*argv: str, stdin: str | None = None, env: dict[str, str] | None = None, timeout_s: float = 60) -> str:
    """Run a command and return its output."""
    done = subprocess.run(
        argv,
        input=stdin,
        text=True,
        capture_output=True,
        check=False,
        timeout=timeout_s,
        env={**os.environ, **(env or {})},
    )
    if done.returncode:
        raise CommandFailed(f"{' '.join(argv)[:300]}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def kubectl(*args: str, stdin: str | None = None, user: str = "admin") -> str:
    """Run kubectl as one of the lab's identities; its plugins are found beside this Python."""
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    config = STATE / "kubeconfig" / f"{user}.kubeconfig"
    return run("kubectl", *args, stdin=stdin, env={"KUBECONFIG": str(config), "PATH": path})


def listed(kind: str, *args: str, namespace: str | None = NAMESPACE) -> list[Object]:
    """Return the objects of a kind; ``namespace`` None for all namespaces."""
    where = ("-A",) if namespace is None else ("-n", namespace)
    items: list[Object] = json.loads(kubectl("get", kind, *where, *args, "-o", "json"))["items"]
    return items


def found(kind: str, name: str, *, namespace: str | None = NAMESPACE) -> Object | None:
    """Return one object, or None when there is none."""
    where = () if namespace is None else ("-n", namespace)
    text = kubectl("get", kind, name, *where, "--ignore-not-found", "-o", "json")
    return json.loads(text) if text.strip() else None


def apply(*manifests: Object, user: str = "admin") -> None:
    """``kubectl apply`` the manifests; CommandFailed with the API server's words when one is refused."""
    kubectl("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests}), user=user)


def slurm(command: str, *args: str, user: str = "root", stdin: str | None = None, timeout_s: float = 60) -> str:
    """Run one of Slurm's commands as ``user``."""
    return run(command, *args, stdin=stdin, env={"LAB_USER": user}, timeout_s=timeout_s)


def conditions(obj: Object) -> dict[str, Object]:
    """Return the conditions of an object by type."""
    return {item["type"]: item for item in obj.get("status", {}).get("conditions", ())}
