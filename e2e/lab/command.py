"""Run a command to its end; a failure names the command and shows the tail of what it wrote."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path


class LabError(Exception):
    """The lab cannot go on; the message says what to look at."""


def tail(text: str, lines: int = 15) -> str:
    return "\n".join("    " + line for line in text.splitlines()[-lines:])


def run(
    argv: Sequence[str | Path],
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    stdin: str | None = None,
    timeout: float = 120,
    log: Path | None = None,
) -> str:
    """Return stdout (and stderr) of `argv`; LabError if it fails or takes more than `timeout` seconds.

    With `log` the output is appended to that file while the command runs and the result is empty.
    """
    words = [str(word) for word in argv]
    shown = " ".join(words[:6]) + (" …" if len(words) > 6 else "")
    if log is not None:
        log.parent.mkdir(parents=True, exist_ok=True)
    try:
        if log is None:
            done = subprocess.run(
                words, env=env, cwd=cwd, input=stdin, timeout=timeout, text=True, check=False,
                stdin=None if stdin is not None else subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            )  # fmt: skip
            output = done.stdout
        else:
            with log.open("a") as sink:
                done = subprocess.run(
                    words, env=env, cwd=cwd, timeout=timeout, text=True, check=False,
                    stdin=subprocess.DEVNULL, stdout=sink, stderr=subprocess.STDOUT,
                )  # fmt: skip
            output = ""
    except FileNotFoundError as error:
        raise LabError(f"command not found: {words[0]}") from error
    except subprocess.TimeoutExpired as error:
        raise LabError(f"`{shown}` did not end within {timeout:.0f} s") from error
    if done.returncode:
        seen = output if log is None else f"{tail(log.read_text(errors='replace'))}\n    (log: {log})"
        raise LabError(f"`{shown}` ended with status {done.returncode}:\n{tail(seen)}")
    return output
