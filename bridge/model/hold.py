"""The hold: the Slurm job without a process that owns a gang's resources."""

from __future__ import annotations

import json
from dataclasses import dataclass

from bridge.model.gres import GresRequest

MARKER_VERSION = 1
_LONGEST = 4096
"""Characters of the longest text that is read: users write comments too."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class GangKey:
    """Idempotency key of everything done outside for one try of a gang."""

    uid: str
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Marker:
    """What a hold says of itself in ``admin_comment``.

    ``cluster`` is the Kubernetes cluster (uid of its namespace ``kube-system``): one slurmctld may serve several.
    """

    key: GangKey
    namespace: str
    name: str
    cluster: str = ""

    def dumps(self) -> str:
        """Return the JSON text; ``loads`` reads it back."""
        value: dict[str, object] = {"gangbridge": MARKER_VERSION, "uid": self.key.uid, "attempt": self.key.attempt}
        value |= {"gang": f"{self.namespace}/{self.name}", "cluster": self.cluster}
        return json.dumps(value, separators=(",", ":"))

    @staticmethod
    def loads(text: str) -> Marker | None:
        """Return the marker in ``text``, or None when it is somebody else's comment."""
        if not text.startswith('{"gangbridge":') or len(text) > _LONGEST:
            return None
        try:
            value = json.loads(text)
            namespace, _, name = value["gang"].partition("/")
            key, cluster = GangKey(uid=str(value["uid"]), attempt=int(value["attempt"])), str(value.get("cluster", ""))
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
            return None
        if value["gangbridge"] != MARKER_VERSION:
            return None
        return Marker(key=key, namespace=namespace, name=name, cluster=cluster)


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldRequest:
    """One allocation of exact shape on exactly ``nodes``.

    Every node gives ``gres_per_node`` and runs ``tasks_per_node`` tasks (one per pod) of ``cpus_per_task`` CPUs.
    ``memory_mib_per_node`` 0 leaves it to the partition's default. ``time_limit_min`` is in minutes.
    ``external`` asks for an external job (sbatch(1) ``--external``), which alone may use ``State=EXTERNAL`` nodes.
    """

    marker: Marker
    name: str
    partition: str
    account: str
    qos: str
    user: str
    nodes: tuple[str, ...]
    gres_per_node: tuple[GresRequest, ...]
    tasks_per_node: int
    cpus_per_task: int
    memory_mib_per_node: int
    time_limit_min: int
    external: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ExitStatus:
    """How a gang ended, as sacct shows it: ``code:signal``."""

    code: int = 0
    signal: int = 0

    @property
    def wait_status(self) -> int:
        """Return the wait(2) encoding that ``slurm_complete_job`` takes."""
        return ((self.code & 0xFF) << 8) | (self.signal & 0x7F)
