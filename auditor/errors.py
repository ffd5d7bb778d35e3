"""A server that could not be read."""

from __future__ import annotations


class Unreadable(Exception):
    """``server`` (Slurm or Kubernetes) gave no answer to judge by; ``why`` is a sentence for people."""

    def __init__(self, server: str, why: str) -> None:
        super().__init__(f"{server} could not be read: {why}")
        self.server = server
        self.why = why
