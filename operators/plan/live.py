"""The fleet as it is this moment, from one list of each kind and one poll of slurmctld. Nothing is written."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping
from typing import Any

from bridge import wellknown
from bridge.errors import SpecError
from bridge.lifecycle.fleetview import join
from bridge.model.fleet import QueueSpec
from bridge.model.gang import Gang
from bridge.model.slurm import SlurmView
from bridge.model.snapshot import Snapshot
from bridge.slurm.port import SlurmPort
from bridge.topology.fleet import fleet_topology
from operators import reading
from operators.kube.client import KubeClient
from operators.kube.resources import FLEETS, GANGQUEUES, NAMESPACES, NODES, RESOURCESLICES
from operators.plan.answer import Question

Object = Mapping[str, Any]


async def live_question(gang: Gang, client: KubeClient, port: SlurmPort) -> Question:
    """Return the question about ``gang`` on the live fleet. Raises KubeError, SlurmError; SpecError without a fleet."""
    (fleets, _), (queues, _), (namespaces, _), (nodes, _), (slices, _), slurm = await asyncio.gather(
        client.list(FLEETS),
        client.list(GANGQUEUES),
        client.list(NAMESPACES),
        client.list(NODES, label_selector=wellknown.SLURM_NODE),
        client.list(RESOURCESLICES),
        _ask(port),
    )
    known, problems = _queues(queues)
    found = sorted(fleets, key=lambda obj: str(obj["metadata"]["name"]))
    fleet = reading.read_fleet(found[0]) if found else None
    managed = tuple(node for obj in nodes if (node := reading.read_node(obj)))
    view_of_slurm, topology = slurm
    snapshot = Snapshot(
        now=int(time.time()),
        fleet=fleet,
        nodes=managed,
        pools=reading.read_pools(slices),
        topology=fleet_topology(fleet, managed, topology) if fleet else None,
        slurm=view_of_slurm,
    )
    view = join(snapshot)
    if view is None:
        raise SpecError("Fleet", "there is none in this cluster")
    return Question(
        gang=gang,
        view=view,
        queues=known,
        namespaces={obj["metadata"]["name"]: obj["metadata"].get("labels") or {} for obj in namespaces},
        model=view.fleet.links,
        problems=problems,
    )


async def _ask(port: SlurmPort) -> tuple[SlurmView, str]:
    return await port.view(), await port.topology()


def _queues(objects: Iterable[Object]) -> tuple[dict[str, QueueSpec], tuple[str, ...]]:
    """Return the queues by name, and what is wrong with those that the operator ignores."""
    queues: dict[str, QueueSpec] = {}
    problems: list[str] = []
    for obj in objects:
        try:
            queue = reading.read_queue(obj)
        except SpecError as error:
            problems.append(f"GangQueue {obj['metadata']['name']} is ignored: {error}")
        else:
            queues[queue.name] = queue
    return queues, tuple(problems)
