from __future__ import annotations

from bridge.accounting.gres import parse_gres_request
from bridge.model.gres import Gres
from bridge.placement.request import NodeCapacity, Placed, Request, Shortage, Unplaceable
from bridge.queue.timeline import NEVER, Pin, Timeline
from tests.builders import NOW, gpus, job


def capacity(name: str, free: int, *, cpus: int = 64, memory: int = 1000) -> NodeCapacity:
    return NodeCapacity(name=name, gpus={"h100": free}, busy_gpus=8 - free, cpus=cpus, memory_mib=memory)


def timeline(free: dict[str, int], *, ends=(), completing=(), size: int = 8) -> Timeline:
    return Timeline(
        now=NOW,
        free={name: capacity(name, count) for name, count in free.items()},
        total={name: capacity(name, size) for name in free},
        completing=frozenset(completing),
        ends=tuple(ends),
    )


def request(pods: int, gres: str = "gpu:h100:8", **changes) -> Request:
    return Request(pods=pods, gres=parse_gres_request(gres), **changes)


def ends(job_id: int, at: int | None, **on):
    return job(job_id, on=on, end_time=at)


def test_a_gang_that_fits_is_free_now_and_not_blocked():
    pin = timeline({"n1": 8}).earliest(request(1))
    assert pin == Pin(placed=Placed(nodes=("n1",), pods_per_node=1), free_at=NOW)


def test_the_first_moment_at_which_a_gang_fits_is_found():
    jobs = [ends(1, NOW + 300, n1=range(8)), ends(2, NOW + 100, n2=range(8)), ends(3, NOW + 200, n3=range(8))]
    pin = timeline({"n1": 0, "n2": 0, "n3": 0}, ends=jobs).earliest(request(2))
    assert (pin.placed.nodes, pin.free_at) == (("n2", "n3"), NOW + 200)
    assert pin.blocked.shortage is Shortage.INSUFFICIENT_DEVICES
    assert "0 of 3 have them" in pin.blocked.message


def test_jobs_that_end_together_free_together():
    jobs = [ends(1, NOW + 100, n1=range(4)), ends(2, NOW + 100, n1=range(4, 8))]
    assert timeline({"n1": 0}, ends=jobs).earliest(request(1)).free_at == NOW + 100


def test_a_job_past_its_end_frees_its_nodes_now_at_the_earliest():
    assert timeline({"n1": 0}, ends=[ends(1, NOW - 500, n1=range(8))]).earliest(request(1)).free_at == NOW


def test_a_job_without_an_end_frees_its_nodes_last():
    jobs = [ends(1, None, n1=range(8)), ends(2, NOW + 9999, n2=range(8))]
    assert timeline({"n1": 0, "n2": 0}, ends=jobs).earliest(request(1)).placed.nodes == ("n2",)
    assert timeline({"n1": 0}, ends=jobs[:1]).earliest(request(1)).free_at == NEVER


def test_a_completing_node_takes_nobody_now_but_is_the_first_to_be_free():
    pin = timeline({"n1": 8}, completing=["n1"]).earliest(request(1))
    assert (pin.placed.nodes, pin.free_at) == (("n1",), NOW)
    assert pin.blocked is not None
    other = timeline({"n1": 8, "n2": 8}, completing=["n1"]).earliest(request(1))
    assert (other.placed.nodes, other.blocked) == (("n2",), None)


def test_a_request_that_never_fits_is_refused_with_what_there_would_be_at_last():
    answer = timeline({"n1": 0}, ends=[ends(1, NOW + 100, n1=range(8))]).earliest(request(3))
    assert isinstance(answer, Unplaceable)
    assert "need 3 nodes" in answer.message
    assert "1 of 1 have them" in answer.message


def test_a_reservation_takes_devices_cpus_and_memory_of_its_nodes_alone():
    asked = request(2, "gpu:h100:2", cpus_per_pod=4, memory_mib_per_pod=100)
    placed = Placed(nodes=("n1",), pods_per_node=2)
    left = timeline({"n1": 8, "n2": 8})
    left.reserve(placed, asked, ends(0, NOW + 60, n1=range(4)))
    assert left.board.nodes["n1"] == NodeCapacity(name="n1", gpus={"h100": 4}, busy_gpus=4, cpus=56, memory_mib=800)
    assert left.board.nodes["n2"] == capacity("n2", 8)


def test_a_reservation_gives_its_devices_back_when_it_ends():
    asked, placed = request(1), Placed(nodes=("n1",), pods_per_node=1)
    taken = timeline({"n1": 8})
    taken.reserve(placed, asked, ends(0, NOW + 60, n1=range(8)))
    assert taken.earliest(asked).free_at == NOW + 60


def test_a_reservation_of_what_is_not_free_yet_keeps_others_off_it():
    """A pin on a busy node starts when the job there ends; who comes later waits for both."""
    asked, placed = request(1), Placed(nodes=("n1",), pods_per_node=1)
    busy = timeline({"n1": 0}, ends=[ends(1, NOW + 100, n1=range(8))])
    busy.reserve(placed, asked, ends(0, NOW + 400, n1=range(8)))
    assert busy.earliest(asked).free_at == NOW + 400


def test_looking_ahead_leaves_the_present_as_it_is():
    line = timeline({"n1": 0, "n2": 3}, ends=[ends(1, NOW + 100, n1=range(8)), ends(2, NOW + 50, n2=range(5))])
    before = dict(line.board.nodes)
    line.earliest(request(2))
    line.earliest(request(9))
    assert line.board.nodes == before
    assert isinstance(line.fits_now(request(1)), Unplaceable)


def test_devices_without_an_index_do_not_come_back_as_more_than_there_are():
    counted = job(1, on={"n1": ()}, end_time=NOW + 10, gres={"n1": (Gres(name="gpu", type="h100", count=4),)})
    answer = timeline({"n1": 8}, ends=[counted]).earliest(request(1, "gpu:h100:9"))
    assert isinstance(answer, Unplaceable)


def test_a_job_on_a_node_outside_the_partition_changes_nothing():
    answer = timeline({"n1": 0}, ends=[job(1, on={"x1": range(8)}, gres={"x1": gpus(range(8))})]).earliest(request(1))
    assert isinstance(answer, Unplaceable)
