"""What the reader of the demo sees: prose, commands, and what the commands print."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable

from rich.console import Console

console = Console(highlight=False, soft_wrap=True)


def title(text: str) -> None:
    """Begin a step."""
    console.print()
    console.rule(f"[bold]{text}", align="left")


def say(text: str) -> None:
    """Print prose, wrapped to the terminal."""
    console.print()
    console.print(" ".join(text.split()), soft_wrap=False)


def show(command: str) -> str:
    """Print a shell command, run it, print and return what it prints. CalledProcessError if it fails."""
    console.print()
    console.print(f"[bold green]$[/] [bold]{_literal(command)}[/]")
    done = subprocess.run(["bash", "-c", command], text=True, capture_output=True, check=False)
    console.print((done.stdout + done.stderr).rstrip(), markup=False, emoji=False)
    done.check_returncode()
    return done.stdout


def quiet(command: str) -> str:
    """Run a shell command that is of no interest and return its output."""
    return subprocess.run(["bash", "-c", command], text=True, capture_output=True, check=True).stdout.strip()


def wait(what: str, done: Callable[[], bool], timeout_s: float = 30) -> None:
    """Wait until ``done``, with a line that says for what and how long. TimeoutError names it."""
    started = time.monotonic()
    with console.status(f"waiting until {what}"):
        while not done():
            if time.monotonic() - started > timeout_s:
                raise TimeoutError(f"not within {timeout_s:g} s: {what}")
            time.sleep(0.1)
    console.print(f"\n[dim]… {what}: {time.monotonic() - started:.1f} s[/]")


def _literal(text: str) -> str:
    return text.replace("[", r"\[")
