from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge import wellknown
from bridge.lifecycle.actions import Decision
from bridge.lifecycle.brake import Brake
from bridge.lifecycle.fleetview import join
from bridge.model.gang import Condition, ConditionType, GangStatus, HoldStatus, Outcome, Phase, Result
from bridge.model.gres import Gres
from bridge.model.hostlist import fold
from bridge.model.slurm import JobState, SlurmInfo
from bridge.model.topology import Topology
from operators import reading
from operators.status import fleet_status, gang_status, mirror_status, timestamp
from tests.builders import LEVELS, NOW, gang, gpus, hold, job, kube_node, node, snapshot
from tests.kube.fakepatch import merge
from tests.kube.structural import problems, schema_of, unknown_fields

times = st.none() | st.integers(0, 4_000_000_000)
words = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=40)
conditions = st.lists(
    st.builds(
        Condition,
        type=st.sampled_from(ConditionType),
        status=st.booleans(),
        reason=words,
        message=words,
        since=st.integers(1, 4_000_000_000),
    ),
    unique_by=lambda condition: condition.type,
)
statuses = st.builds(
    GangStatus,
    attempt=st.integers(1, 99),
    restarts=st.integers(0, 99),
    phase=st.sampled_from(Phase),
    reason=words,
    message=words,
    conditions=conditions.map(
        lambda found: tuple(sorted(found, key=lambda each: list(ConditionType).index(each.type)))
    ),
    outcome=st.none()
    | st.builds(
        Outcome,
        attempt=st.integers(1, 99),
        result=st.sampled_from(Result),
        exit_code=st.integers(0, 255),
        message=words,
    ),
    hold=st.none()
    | st.builds(
        HoldStatus,
        job_id=st.integers(1, 2**31),
        state=st.sampled_from(JobState).map(str),
        nodes=st.lists(st.from_regex(r"[a-z]{1,3}[0-9]{1,3}", fullmatch=True), max_size=4).map(fold),
        user=words,
        account=words,
        partition=words,
        end_time=times,
    ),
    placement=words,
    ready_pods=st.integers(0, 99),
    pods=words,
    gpus=st.integers(0, 999),
    exit_code=st.none() | st.integers(0, 255),
    start_time=times,
    completion_time=times,
    estimated_start_time=times,
    observed_generation=st.integers(0, 99),
)


@given(statuses)
def test_a_gangs_status_is_read_back_as_it_was_written(status):
    written = json.loads(json.dumps(gang_status(gang(), status)))
    stored = {key: value for key, value in written.items() if value is not None}
    raw = {"metadata": {"name": "a", "namespace": "b", "uid": "c"}, "spec": {}, "status": stored}
    assert reading.read_gang(raw).status == status


def test_a_status_says_none_where_something_no_longer_holds():
    """A merge patch would leave what is not named."""
    empty = gang_status(gang(), GangStatus())
    assert {key for key, value in empty.items() if value is None} == {
        "outcome",
        "hold",
        "placement",
        "exitCode",
        "startTime",
        "completionTime",
        "estimatedStartTime",
    }


def full_status() -> GangStatus:
    status = GangStatus(
        attempt=2,
        phase=Phase.COMPLETING,
        reason="PodFailed",
        message="m" * 1024,
        outcome=Outcome(attempt=2, result=Result.POD_FAILED, exit_code=3, message="x" * 5000),
        hold=HoldStatus(
            job_id=7, state="RUNNING", nodes="n[1-2]", user="alice", account="physics", partition="gpu", end_time=NOW
        ),
        placement="1 rack, 2 nodes",
        pods="2/2",
        exit_code=3,
        start_time=NOW,
        completion_time=NOW,
        estimated_start_time=NOW,
    )
    for type_ in ConditionType:
        status = status.with_condition(Condition(type=type_, status=True, reason="Because", message="m", since=NOW))
    return status


def test_a_full_status_follows_the_published_schema():
    schema = schema_of("gangjobs")
    written = {key: value for key, value in gang_status(gang(), full_status()).items() if value is not None}
    raw = {
        "apiVersion": "gangbridge.dev/v1alpha1",
        "kind": "GangJob",
        "metadata": {"name": "a"},
        "spec": {"queue": "gpu", "origin": "Slurm"},
        "status": json.loads(json.dumps(written)),
    }
    assert list(problems(raw, schema)) == []
    assert list(unknown_fields(raw, schema)) == []
    raw["status"]["attempt"] = 0
    assert list(problems(raw, schema)) != []


@pytest.mark.parametrize(
    ("seen", "phase", "reason"),
    [
        (job(7, JobState.PENDING, reason="Priority"), "Queued", "Priority"),
        (job(7, JobState.RUNNING, on={"n1": [0]}, reason="None"), "Running", "RUNNING"),
        (job(7, JobState.SUSPENDED, on={"n1": [0]}), "Running", "SUSPENDED"),
        (job(7, JobState.COMPLETED, on={"n1": ()}, completing=True), "Completing", "COMPLETED"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_mirrors_status_says_what_squeue_says(seen, phase, reason):
    status = mirror_status(seen)
    assert (status["phase"], status["reason"]) == (phase, reason)
    assert status["hold"]["jobId"] == 7
    assert (status["hold"]["user"], status["hold"]["account"]) == ("bob", "bio")


def test_a_mirror_counts_gpus_and_nodes_and_knows_a_start_from_an_estimate():
    running = mirror_status(job(7, on={"n1": [0, 1], "n2": [0]}, restart_count=2))
    assert (running["gpus"], running["placement"], running["attempt"]) == (3, {"summary": "2 nodes"}, 3)
    assert running["startTime"] == timestamp(NOW - 40)
    assert running["estimatedStartTime"] is None
    waiting = mirror_status(job(7, JobState.PENDING, start_time=NOW + 60, required_nodes=("n1",)))
    assert (waiting["startTime"], waiting["estimatedStartTime"]) == (None, timestamp(NOW + 60))
    assert (waiting["placement"], waiting["hold"]["nodes"]) == (None, "n1")


def test_a_time_is_utc():
    assert timestamp(0) == "1970-01-01T00:00:00Z"
    assert timestamp(None) is None


INFO = SlurmInfo(version="26.05.5", cluster="lab", adapter="pyslurm")


def dashboard(seen, *, owners=(), info=INFO, error="", previous=(), brake=None):
    decisions = [Decision(gang=each) for each in owners]
    return fleet_status(join(seen), decisions, info, error, brake=brake, previous=previous, now=NOW)


def test_the_dashboard_counts_every_gpu_once():
    owner = gang()
    forged = job(30, on={"n2": [6]}, marker=hold(owner).marker, is_sealed=False, user="mallory")
    machines = [node("n1"), node("n2"), node("n3", states=("DOWN",)), node("n4", states=("IDLE", "DRAIN"))]
    jobs = [hold(owner, 10, on={"n1": range(4)}), job(20, on={"n1": [5], "n4": [0, 1]}), forged]
    status = dashboard(snapshot(machines, jobs=jobs))
    assert status["gpus"] == {"total": 32, "free": 3 + 7, "pods": 4, "sbatch": 4, "outOfService": 8 + 6}
    assert status["nodes"] == "2/4"
    assert (status["slurmVersion"], status["slurmCluster"]) == ("26.05.5", "lab")
    assert status["lastSyncTime"] == timestamp(NOW)


def test_a_node_that_kubernetes_lost_is_out_of_service():
    machines = [node("n1"), node("n2")]
    status = dashboard(snapshot(machines, nodes=(kube_node("n1"), kube_node("n2", ready=False))))
    assert (status["nodes"], status["gpus"]["outOfService"]) == ("1/2", 8)


def test_nodes_out_of_service_are_listed_by_reason_with_the_admins_words():
    machines = [
        node("n1"),
        *(node(f"n{number}", states=("IDLE", "DRAIN"), reason="bad fan") for number in (2, 3, 4)),
        node("n5", states=("DOWN",)),
        node("n6", gres=()),
    ]
    kube = (*(kube_node(each.name) for each in machines), kube_node("a", slurm_node="n77"))
    assert dashboard(snapshot(machines, nodes=kube))["closed"] == [
        {"reason": "down", "message": "", "nodes": "n5"},
        {"reason": "drained", "message": "bad fan", "nodes": "n[2-4]"},
        {"reason": "unknown to Slurm", "message": "", "nodes": "n77"},
        {"reason": "without device map", "message": NO_INDEX, "nodes": "n6"},
    ]


NO_INDEX = "Slurm tracks no GPU index here (gres.conf without File=)"


def test_nodes_that_are_back_leave_the_list():
    """A merge patch keeps what it does not name."""
    assert dashboard(snapshot([node("n1")]))["closed"] == []


def test_ten_thousand_nodes_with_a_word_on_each_stay_a_few_lines():
    machines = [node(f"n{number}", count=1, states=("DRAIN",), reason=f"ticket {number}") for number in range(10_000)]
    (entry,) = dashboard(snapshot(machines))["closed"]
    assert entry == {"reason": "drained", "message": "", "nodes": "n[0-9999]"}


def test_devices_that_slurm_only_counts_are_not_on_the_dashboard():
    counted = node("n1", gres=(Gres(name="gpu", type="h100", count=8),))
    assert dashboard(snapshot([counted]))["gpus"]["total"] == 0


def test_gangs_are_counted_by_the_phase_that_they_are_about_to_have():
    first, second = gang("first"), gang("second")
    decided = Decision(gang=second, status=replace(second.status, phase=Phase.RUNNING))
    status = fleet_status(None, [Decision(gang=first), decided], None, "down", previous=[], now=NOW)
    assert status["gangs"]["summary"] == "1 pending, 1 running"
    phases = status["gangs"]["phases"]
    assert {name: count for name, count in phases.items() if count} == {"Pending": 1, "Running": 1}
    assert set(phases) == set(Phase), "a merge patch removes only what it names"


def test_while_slurmctld_is_silent_the_numbers_stay_and_a_condition_says_why():
    status = dashboard(snapshot([node("n1")], silent=True), info=None, error="connect failure")
    assert set(status) == {"conditions", "gangs"}
    (condition,) = status["conditions"]
    assert (condition["status"], condition["message"]) == ("False", "connect failure")
    assert condition["lastTransitionTime"] == timestamp(NOW)


def test_a_condition_keeps_its_time_until_its_status_changes_and_stays_when_nothing_new_is_known():
    before = [
        {"type": "SlurmReachable", "status": "False", "message": "x", "lastTransitionTime": timestamp(NOW - 5)},
        {"type": "TopologyConsistent", "status": "True", "message": "y", "lastTransitionTime": timestamp(NOW - 9)},
    ]
    silent = dashboard(snapshot([node("n1")], silent=True), info=None, error="still", previous=before)["conditions"]
    assert [item["lastTransitionTime"] for item in silent] == [timestamp(NOW - 5), timestamp(NOW - 9)]
    assert [item["message"] for item in silent] == ["still", "y"]
    back = dashboard(snapshot([node("n1")]), previous=before)["conditions"]
    assert [item["lastTransitionTime"] for item in back] == [timestamp(NOW), timestamp(NOW - 9), timestamp(NOW)]


def test_a_brake_says_what_is_lost_and_how_to_release_it():
    on = Brake(kind="gangs", lost=5, total=10, example="research/llm")
    (off,) = [item for item in dashboard(snapshot([node("n1")]))["conditions"] if item["type"] == "Brake"]
    (braked,) = [item for item in dashboard(snapshot([node("n1")]), brake=on)["conditions"] if item["type"] == "Brake"]
    assert (off["status"], braked["status"], braked["reason"]) == ("False", "True", "TooMuchLost")
    assert braked["message"].startswith("5 of 10 gangs look lost at once, research/llm for one")
    assert wellknown.RELEASE_BRAKE in braked["message"]


def test_what_is_wrong_with_the_topology_is_a_condition():
    lost = snapshot([node("n1")], topology=Topology(levels=LEVELS, problems=("no source has a domain for n1",)))
    (condition,) = [item for item in dashboard(lost)["conditions"] if item["type"] == "TopologyConsistent"]
    assert (condition["status"], condition["message"]) == ("False", "no source has a domain for n1")


def test_a_dashboard_follows_the_published_schema():
    machines = [node("n1", gres=gpus(range(2))), node("n2", states=("DOWN",), reason="x" * 5000)]
    status = dashboard(snapshot(machines), owners=[gang()])
    raw = {"apiVersion": "gangbridge.dev/v1alpha1", "kind": "Fleet", "metadata": {"name": "a"}, "spec": {}}
    spec_problems = list(problems(raw, schema_of("fleets")))
    shown = raw | {"status": merge({}, json.loads(json.dumps(status)))}
    assert list(problems(shown, schema_of("fleets"))) == spec_problems
    assert list(unknown_fields(shown, schema_of("fleets"))) == []
