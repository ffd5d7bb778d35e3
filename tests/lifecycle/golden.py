"""One snapshot with something for every part of the plan to do."""

from __future__ import annotations

from bridge.model.gang import GangStatus
from bridge.model.snapshot import Snapshot
from tests.builders import claim, gang, hold, job, kube_node, mirror, node, pod, pool, queue, snapshot


def golden() -> Snapshot:
    machines = [node(f"n{number}") for number in range(1, 9)]
    waiting = [gang(name, replicas=2, gres="gpu:h100:4") for name in ("w1", "w2")]
    running = gang("running", replicas=2, gres="gpu:h100:2", status=GangStatus(attempt=2))
    gone = gang("gone")
    users = [job(30 + number, on={f"n{number}": [0, 1]}) for number in (6, 7)]
    return snapshot(
        machines,
        jobs=[hold(running, 10, on={"n1": [0, 1], "n2": [0, 1]}), hold(gone, 11, on={"n3": [0]}), *users],
        queues={"gpu": queue(), "b": queue(name="b")},
        gangs=(*waiting, running),
        mirrors=(mirror(users[0]),),
        pods=(pod(gone, 0), pod(gone, 1)),
        claims=(claim(running, 0), claim(running, 1, attempt=1, on=("n1", [0]))),
        nodes=tuple(kube_node(each.name, tainted=False, domains=(f"s{each.name[1]}", "r")) for each in machines),
        pools=tuple(pool(each.name) for each in machines[:-1]),
    )
