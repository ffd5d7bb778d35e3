from __future__ import annotations

import pytest

from bridge import wellknown
from bridge.errors import SpecError
from bridge.model.fence import Fence
from bridge.model.fleet import BrakeSpec, DeviceMapping, LabelSource, Mode
from bridge.model.gang import GangSpec, GangStatus, Role
from bridge.model.gres import GresRequest
from bridge.model.kube import ClaimView, Device, KubeNode, MirrorView, PodPhase, PodView, PoolDevice
from operators import reading
from tests.builders import LEVELS, VENDOR
from tests.operators.objects import (
    CREATED,
    CREATED_S,
    device,
    fleet,
    gangjob,
    gangqueue,
    meta,
    node,
    pod,
    resource_slice,
    terminated,
)


def test_a_gangjob_is_read_with_everything_it_says():
    limits = {"resources": {"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "500m"}}}
    containers = [{"name": "a", **limits}, {"name": "b", "resources": {"requests": {"cpu": 1, "memory": "512Mi"}}}]
    raw = gangjob(
        replicas=4,
        gres="gpu:h100:2",
        role={"podsPerNode": 2, "template": {"spec": {"containers": containers}}},
        metadata={"generation": 3, "finalizers": [wellknown.FINALIZER], "deletionTimestamp": CREATED},
        timeLimit="1h30m",
        topology={"required": "spine", "preferred": "rack"},
        failurePolicy={"maxRestarts": 2},
    )
    gang = reading.read_gang(raw)
    assert gang.spec == GangSpec(
        queue="gpu",
        role=Role(
            name="worker",
            replicas=4,
            pods_per_node=2,
            gres=GresRequest(name="gpu", type="h100", count=2),
            milli_cpu=1500,
            memory_mib=1536,
        ),
        time_limit_min=90,
        required_level="spine",
        preferred_level="rack",
        max_restarts=2,
    )
    assert (gang.namespace, gang.name, gang.uid, gang.generation) == ("research", "llm", "uid-llm", 3)
    assert (gang.created, gang.deleting, gang.has_finalizer) == (CREATED_S, True, True)


def test_a_gangjob_that_says_little_has_defaults():
    gang = reading.read_gang(gangjob())
    assert gang.status == GangStatus()
    assert (gang.spec.time_limit_min, gang.spec.required_level, gang.spec.max_restarts) == (None, None, 0)
    assert (gang.deleting, gang.has_finalizer, gang.generation) == (False, False, 1)


@pytest.mark.parametrize(
    ("raw", "path", "words"),
    [
        pytest.param(gangjob(gres="gpu:h100:0"), "spec.roles[0].gres", "0", id="gres of none"),
        pytest.param(gangjob(gres="gpu:h100:2,gpu:a100:1"), "spec.roles[0].gres", "several", id="two gres"),
        pytest.param(gangjob(timeLimit="soon"), "spec.timeLimit", "'soon'", id="time limit"),
        pytest.param(gangjob(timeLimit="400d"), "spec.timeLimit", "576000", id="time limit too long"),
        pytest.param(gangjob(roles=[]), "spec.roles", "0 roles", id="no role"),
        pytest.param(gangjob(roles=[{}, {}]), "spec.roles", "2 roles", id="two roles"),
        pytest.param(
            gangjob(
                role={"template": {"spec": {"containers": [{"resources": {"requests": {"memory": "1e999999999"}}}]}}}
            ),
            "spec.roles[0].template.spec.containers",
            "quantity",
            id="memory of no machine",
        ),
        pytest.param(
            gangjob(role={"template": {"spec": {"containers": [{"resources": {"requests": {"cpu": None}}}]}}}),
            "spec.roles[0].template.spec.containers",
            "quantity",
            id="cpu of nothing",
        ),
    ],
)
def test_what_a_user_wrote_wrong_is_a_value_that_names_the_field(raw, path, words):
    spec = reading.read_gang(raw).spec
    assert isinstance(spec, SpecError)
    assert spec.path == path
    assert words in str(spec)


@pytest.mark.parametrize("labels", [{wellknown.JOB_ID: "x"}, {wellknown.JOB_ID: "9" * 30}, {}, None])
def test_a_mirror_with_any_labels_is_read(labels):
    raw = gangjob(metadata={"labels": labels, "annotations": {wellknown.SUBMIT_TIME: "soon"}}, origin="Slurm")
    assert reading.is_mirror(raw)
    assert reading.read_mirror(raw).job_id == 0
    assert reading.read_mirror(raw).submit_time == 0


def test_a_mirror_is_read_with_its_incarnation():
    notes = {wellknown.SUBMIT_TIME: "17", wellknown.DIGEST: "abc"}
    raw = gangjob("slurm-7", metadata={"labels": {wellknown.JOB_ID: "7"}, "annotations": notes}, origin="Slurm")
    assert reading.read_mirror(raw) == MirrorView(
        namespace="research", name="slurm-7", uid="uid-slurm-7", job_id=7, submit_time=17, digest="abc"
    )
    assert not reading.is_mirror(gangjob())


def test_a_fleet_is_read_with_its_levels_labels_and_devices():
    spec = reading.read_fleet(fleet())
    assert (spec.name, spec.mode, spec.levels) == ("main", Mode.SHARE, LEVELS)
    assert spec.sources == (LabelSource(labels={level: f"topology/{level}" for level in LEVELS}),)
    assert spec.devices == (DeviceMapping(gres="gpu:h100", driver=wellknown.DRIVER, device_class=wellknown.DRIVER),)


def test_a_fleet_that_says_nothing_only_observes():
    spec = reading.read_fleet({"metadata": meta("main"), "spec": {}})
    assert spec.brake == BrakeSpec(max_lost_percent=30, min_lost=3, released_until=0)
    assert (spec.mode, spec.levels, spec.devices) == (Mode.OBSERVE, (), ())


def test_a_queue_is_read_with_its_limits_and_selector():
    match = {"matchLabels": {"team": "ai"}, "matchExpressions": [{"key": "old", "operator": "DoesNotExist"}]}
    raw = gangqueue(
        namespaces={"selector": match},
        defaults={"timeLimit": "30"},
        limits={"maxTimeLimit": "2d", "maxGpusPerGang": 64},
    )
    queue = reading.read_queue(raw)
    assert (queue.default_time_limit_min, queue.max_time_limit_min, queue.max_gpus_per_gang) == (30, 2880, 64)
    assert (queue.partition, queue.account, queue.qos, queue.user) == ("gpu", "physics", ("normal",), "alice")
    assert queue.admits("anywhere", {"team": "ai"})
    assert not queue.admits("anywhere", {"team": "ai", "old": "yes"})


def test_a_queue_without_namespaces_admits_nobody():
    assert not reading.read_queue(gangqueue(namespaces={})).admits("research", {})


def test_a_queue_with_a_bad_time_names_the_field():
    with pytest.raises(SpecError, match=r"spec\.limits\.maxTimeLimit"):
        reading.read_queue(gangqueue(limits={"maxTimeLimit": "long"}))


def test_a_pod_of_nobody_is_not_read():
    raw = pod()
    del raw["metadata"]["labels"][wellknown.GANG_UID]
    assert reading.read_pod(raw) is None


def test_a_gated_pod_is_read_with_the_node_that_it_is_pinned_to():
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    spec = {"schedulingGates": [{"name": wellknown.GATE}], "affinity": {"nodeAffinity": required}}
    view = reading.read_pod(pod(spec=spec, phase="Pending", labels={wellknown.RANK: "3", wellknown.ATTEMPT: "2"}))
    assert view == PodView(
        namespace="research",
        name="p",
        uid="uid-p",
        gang_uid="uid-llm",
        attempt=2,
        rank=3,
        node="n1",
        phase=PodPhase.PENDING,
        gated=True,
    )


def test_another_gate_than_ours_is_not_ours():
    assert not reading.read_pod(pod(spec={"schedulingGates": [{"name": "other/gate"}]})).gated


def test_a_failed_pod_tells_the_code_of_the_container_that_failed_first_and_when():
    containers = [
        terminated(0),
        terminated(9, at="2026-01-02T03:04:25Z"),
        terminated(3, at="2026-01-02T03:04:15Z", message="boom"),
        {"state": {"running": {}}},
    ]
    view = reading.read_pod(pod(phase="Failed", containerStatuses=containers))
    assert (view.exit_code, view.finished_at, view.message) == (3, CREATED_S + 10, "boom")


def test_a_pod_without_status_is_pending():
    raw = pod()
    del raw["status"]
    view = reading.read_pod(raw)
    assert (view.phase, view.exit_code, view.finished_at, view.node) == (PodPhase.PENDING, None, 0, "")


@pytest.mark.parametrize("text", ["", "-1", "one", "1.5", "9" * 40, "²"])
def test_labels_that_are_no_numbers_are_no_reason_to_fall_over(text):
    labels = {wellknown.RANK: text, wellknown.ATTEMPT: text, wellknown.GANG_UID: "u", wellknown.JOB_ID: text}
    assert reading.read_pod(pod(labels=labels)).attempt == 0
    raw = {"metadata": meta("c", wellknown.MIRROR_NAMESPACE, labels=labels)}
    view = reading.read_claim(raw)
    assert (view.attempt, view.rank, view.job_id) == (0, 0, 0)


def test_a_claim_is_read_with_its_devices_and_consumers():
    results = [
        {"request": "gpu", "driver": "d", "pool": "n1", "device": "gpu-0"},
        {"request": "gpu", "driver": "d", "pool": "n1", "device": "gpu-1", "adminAccess": True},
    ]
    labels = {wellknown.GANG_UID: "u", wellknown.ATTEMPT: "2", wellknown.RANK: "1"}
    raw = {
        "metadata": meta("c", "research", labels=labels, deletionTimestamp=CREATED),
        "status": {"allocation": {"devices": {"results": results}}, "reservedFor": [{"uid": "a"}, {"uid": "b"}]},
    }
    assert reading.read_claim(raw) == ClaimView(
        namespace="research",
        name="c",
        uid="uid-c",
        devices=(Device(driver="d", pool="n1", device="gpu-0"),),
        reserved_for=("a", "b"),
        deleting=True,
        gang_uid="u",
        attempt=2,
        rank=1,
    )


@pytest.mark.parametrize(
    "status", [None, {}, {"allocation": None}, {"allocation": {}}, {"allocation": {"devices": {}}}]
)
def test_a_claim_without_an_allocation_holds_nothing(status):
    raw = {"metadata": meta("c", "research"), "status": status}
    assert not reading.read_claim(raw).is_allocated


def test_a_claim_is_a_mirrors_only_in_the_namespace_of_mirrors():
    labels = {wellknown.JOB_ID: "7"}
    assert reading.read_claim({"metadata": meta("c", "research", labels=labels)}).job_id == 0
    assert reading.read_claim({"metadata": meta("c", wellknown.MIRROR_NAMESPACE, labels=labels)}).job_id == 7


def test_a_node_is_managed_by_its_label_alone():
    raw = node("n1")
    raw["spec"] = {"unschedulable": True, "taints": [{"key": wellknown.TAINT, "effect": "NoSchedule"}]}
    view = reading.read_node(raw)
    labels = raw["metadata"]["labels"]
    assert view == KubeNode(name="n1", slurm_node="n1", ready=True, unschedulable=True, tainted=True, labels=labels)
    del labels[wellknown.SLURM_NODE]
    assert reading.read_node(raw) is None


@pytest.mark.parametrize("status", [{}, None, {"conditions": []}])
def test_a_node_that_says_nothing_of_itself_is_not_ready(status):
    assert not reading.read_node(node("n1") | {"status": status}).ready
    assert not reading.read_node(node("n1", ready=False)).ready


def test_a_pool_is_read_with_its_devices_by_index():
    parts = [
        resource_slice(
            "a", count=2, devices=(device("gpu-10", index=10), device("gpu-2", index=2, type="h100", socket=1))
        ),
        resource_slice("b", count=2, devices=(device("nic"),)),
    ]
    (pool,) = reading.read_pools(parts)
    assert (pool.name, pool.node, pool.generation) == ("n1", "n1", 1)
    assert pool.devices == (
        PoolDevice(name="gpu-2", index=2, type="h100", socket=1),
        PoolDevice(name="gpu-10", index=10),
        PoolDevice(name="nic"),
    )


def test_devices_without_an_index_do_not_spoil_their_pool():
    (pool,) = reading.read_pools([resource_slice("a", devices=(device("b"), device("a"), device("c", index=0)))])
    assert [each.name for each in pool.devices] == ["c", "a", "b"]


@pytest.mark.parametrize(
    "parts",
    [
        pytest.param([resource_slice("a", count=2)], id="one of two"),
        pytest.param([resource_slice("a", count=2), resource_slice("b", count=1)], id="counts differ"),
        pytest.param(
            [resource_slice("a", count=2), resource_slice("b", count=2), resource_slice("c", count=2, generation=2)],
            id="half published",
        ),
    ],
)
def test_an_incomplete_pool_is_unknown(parts):
    assert reading.read_pools(parts) == ()


def test_of_two_generations_the_newest_counts():
    old = resource_slice("a", devices=(device("gone", index=0),))
    new = resource_slice("b", generation=2, devices=(device("here", index=0),))
    (pool,) = reading.read_pools([new, old])
    assert (pool.generation, [each.name for each in pool.devices]) == (2, ["here"])


def test_a_pool_may_name_its_node_by_selector_or_by_name():
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n7"]}]}
    selected = resource_slice("a", pool="x", nodeSelector={"nodeSelectorTerms": [term]})
    everywhere = resource_slice("b", pool="y", allNodes=True)
    named = resource_slice("c", pool="z", nodeName="n9", driver=VENDOR)
    pools = reading.read_pools([selected, everywhere, named])
    assert [(pool.node, pool.driver) for pool in pools] == [
        ("n7", wellknown.DRIVER),
        ("", wellknown.DRIVER),
        ("n9", VENDOR),
    ]


def test_a_time_is_seconds_since_the_epoch():
    assert reading.seconds(CREATED) == CREATED_S
    assert reading.seconds(None) is None
    assert reading.seconds("2026-01-02T03:04:05.999999Z") == CREATED_S


@pytest.mark.parametrize(
    ("word", "until"), [(CREATED, CREATED_S + 600), ("soon", 0), ("", 0)], ids=["a time", "no time", "empty"]
)
def test_an_admins_word_releases_the_brake_for_ten_minutes(word, until):
    annotations = {wellknown.RELEASE_BRAKE: word}
    seen = reading.read_fleet({"metadata": meta("main", annotations=annotations), "spec": {"brake": {"minLost": 7}}})
    assert seen.brake == BrakeSpec(min_lost=7, released_until=until)


@pytest.mark.parametrize(
    ("annotations", "taints", "fence"),
    [
        pytest.param({}, [], None, id="no"),
        pytest.param({wellknown.FENCED: "psu dead"}, [], Fence(reason="psu dead"), id="by hand"),
        pytest.param({}, [{"key": wellknown.TAINT, "effect": "NoSchedule"}], None, id="another taint"),
        pytest.param(
            {wellknown.FENCED: ""},
            [{"key": wellknown.OUT_OF_SERVICE, "effect": "NoExecute", "timeAdded": CREATED}],
            Fence(at=CREATED_S, reason="taint node.kubernetes.io/out-of-service"),
            id="taint",
        ),
    ],
)
def test_a_node_is_fenced_by_the_annotation_or_by_kubernetes_own_taint(annotations, taints, fence):
    raw = node("n1")
    raw["metadata"]["annotations"], raw["spec"]["taints"] = annotations, taints
    assert reading.read_fence(raw) == reading.read_node(raw).fenced == fence
    assert reading.read_fence(node("n1")) is None
