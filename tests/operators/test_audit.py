"""The auditor inside the operator: what it finds is on the Fleet, in events and in metrics."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest
from prometheus_client import CollectorRegistry

from auditor.errors import Unreadable
from auditor.evidence import Evidence
from operators.apply import Applier
from operators.audit import Auditing
from operators.loop import Loop
from operators.status import fleet_status
from tests.auditor.world import HOLD, World
from tests.builders import NOW
from tests.kube.structural import problems, schema_of, unknown_fields
from tests.operators import objects
from tests.operators.stand import Unopposed, stand


class Bench:
    """An auditor of a world that tests break; ``why`` makes a server unreadable."""

    def __init__(self) -> None:
        self.world = World()
        self.why = ""
        self.registry = CollectorRegistry()
        self.auditing = Auditing(self.read, 30, self.registry, pause_s=0)

    def read(self) -> Evidence:
        if self.why:
            raise Unreadable("Slurm", self.why)
        return self.world.evidence()

    def metric(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(name, labels)

    def status(self) -> dict:
        return fleet_status(None, [], None, "", audited=self.auditing.last, previous=[], now=NOW)

    def clean(self) -> dict:
        return next(each for each in self.status()["conditions"] if each["type"] == "Clean")


@pytest.fixture
def bench() -> Bench:
    return Bench()


async def test_before_the_first_audit_the_fleet_says_nothing_of_violations(bench):
    assert bench.auditing.last is None
    status = bench.status()
    assert "violations" not in status
    assert [each["type"] for each in status["conditions"]] == ["SlurmReachable"]


async def test_a_clean_audit_is_a_condition_and_a_zero(bench):
    await bench.auditing.audit()
    assert (bench.status()["violations"], bench.status()["violationDetails"]) == (0, [])
    assert (bench.clean()["status"], bench.clean()["reason"]) == ("True", "NoViolations")
    assert bench.metric("gangbridge_violations", invariant="I2") == 0
    assert bench.metric("gangbridge_audit_seconds") == bench.auditing.last.report.seconds


async def test_violations_are_counted_by_invariant_and_spelled_out(bench):
    bench.world.jobs.pop(HOLD)
    await bench.auditing.audit()
    status = bench.status()
    assert status["violations"] == 4
    assert status["violationDetails"][0].startswith("I2 claim research/llm-1-0-gpu has ext0 index 0-1, which no hold")
    assert (bench.clean()["status"], bench.clean()["reason"]) == ("False", "Violations")
    assert bench.clean()["message"] == "4 violations: I2 2, I5 2"
    assert bench.metric("gangbridge_violations", invariant="I2") == 2
    assert bench.metric("gangbridge_violations", invariant="I1") == 0


async def test_the_fleet_lists_ten_violations_and_counts_all(bench):
    for number in range(12):
        twin = bench.world.copied(bench.world.claim(0), f"theirs-{number}")
        twin["metadata"]["labels"], twin["status"] = {}, {}
    await bench.auditing.audit()
    status = bench.status()
    assert (status["violations"], len(status["violationDetails"])) == (12, 10)
    schema = schema_of("fleets")
    raw = objects.fleet() | {"status": {key: value for key, value in status.items() if value is not None}}
    assert list(problems(raw, schema)) == []
    assert list(unknown_fields(raw, schema)) == []


async def test_an_audit_that_could_not_read_a_server_leaves_the_numbers_and_says_why(bench):
    bench.world.jobs.pop(HOLD)
    await bench.auditing.audit()
    age = bench.metric("gangbridge_audit_age_seconds")
    bench.why = "squeue: no answer"
    await bench.auditing.audit()
    assert bench.status()["violations"] == 4
    assert (bench.clean()["status"], bench.clean()["reason"]) == ("Unknown", "NotRead")
    assert bench.clean()["message"] == "Slurm could not be read: squeue: no answer"
    assert bench.metric("gangbridge_audit_age_seconds") > age
    bench.why = ""
    await bench.auditing.audit()
    assert bench.clean()["status"] == "False"


async def test_a_violation_is_fresh_once_and_again_after_it_was_gone(bench):
    bench.world.nodes["gpu0"]["extra"] = ""
    await bench.auditing.audit()
    assert [each.subject for each in bench.auditing.fresh()] == ["node gpu0, hold 100"]
    await bench.auditing.audit()
    assert bench.auditing.fresh() == []
    bench.world.nodes["gpu0"]["extra"] = f"gangbridge:{HOLD}"
    await bench.auditing.audit()
    assert bench.auditing.fresh() == []
    bench.world.nodes["gpu0"]["extra"] = ""
    await bench.auditing.audit()
    assert len(bench.auditing.fresh()) == 1


async def test_the_loop_publishes_the_last_audit_with_one_warning_event_for_each_violation(bench):
    bench.world.nodes["gpu0"]["extra"] = ""
    await bench.auditing.audit()
    async with stand() as here:
        for _ in range(2):
            # A loop that has just begun publishes at once.
            applier = Applier(here.client, here.slurm, here.observer)
            here.loop = Loop(here.client, here.observer, here.poller, applier, Unopposed(), bench.auditing)
            await here.cycle()
        fleet = here.api.objects["fleets", "", "main"]
        events = [each for each in here.api.of("events") if each["involvedObject"]["kind"] == "Fleet"]
    assert fleet["status"]["violations"] == 1
    assert fleet["status"]["violationDetails"] == ["I5 pods of hold 100 may run on gpu0, whose Extra does not guard it"]
    (event,) = events
    assert (event["type"], event["reason"]) == ("Warning", "InvariantBroken")
    assert event["message"] == fleet["status"]["violationDetails"][0]
    assert event["involvedObject"]["uid"] == fleet["metadata"]["uid"]
    assert event["metadata"]["namespace"] == "default"


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """Opened at the end, whatever the test did."""
    gate = threading.Event()
    yield gate
    gate.set()


async def test_the_operator_ends_although_an_audit_still_waits_for_a_server(bench, gate):
    asked = threading.Event()

    def silent() -> Evidence:
        asked.set()
        gate.wait()
        return bench.world.evidence()

    auditing = Auditing(silent, 30, CollectorRegistry(), pause_s=0)
    task = asyncio.create_task(auditing.run())
    assert await asyncio.to_thread(asked.wait, 30)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert all(thread.daemon for thread in threading.enumerate() if thread.name == "audit")
    assert auditing.last is None


async def test_no_audit_is_made_when_it_is_switched_off(bench):
    auditing = Auditing(bench.read, 0, CollectorRegistry())
    task = asyncio.create_task(auditing.run())
    await asyncio.sleep(0.05)
    task.cancel()
    assert auditing.last is None
