"""Bad input is refused by kubectl apply, or parked with a condition that names field and number: never submitted."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from e2e.scenario import batch, gang
from e2e.scenario.commands import NAMESPACE, CommandFailed, Object, apply, found, kubectl, listed
from e2e.scenario.gang import Gang

pytestmark = pytest.mark.usefixtures("bridge", "nothing_submitted")

REFUSED = {
    "no pods": ({"pods": 0}, r"spec.roles\[0\].replicas.*greater than or equal to 1"),
    "a million pods": ({"pods": 10**6}, r"spec.roles\[0\].replicas.*less than or equal to 4096"),
    "33 GPUs in a pod": ({"gpus": 33}, r"spec.roles\[0\].gres.*the count must be 1 to 32"),
    "no GPUs in a pod": ({"gpus": 0}, r"spec.roles\[0\].gres.*the count must be 1 to 32"),
    "uneven pods per node": ({"pods": 3, "per_node": 2}, r"podsPerNode.*replicas must be a multiple of podsPerNode"),
    "a time that is none": ({"timeLimit": "soon"}, r"spec.timeLimit.*must be a Go duration"),
    "no time at all": ({"timeLimit": "0"}, r"spec.timeLimit.*must be longer than 0"),
    "a level that is no name": (
        {"topology": {"required": "Rack 1"}},
        r"spec.topology.required.*must be the name of a level",
    ),
    "a node of one's own choice": ({"pod_spec": {"nodeName": "k8s-gpu-0"}}, r"nodeName is set by gangbridge"),
    "restarts of single pods": ({"pod_spec": {"restartPolicy": "Always"}}, r"restartPolicy must be Never or absent"),
}

PARKED = {
    "an unknown queue": (
        {"queue": "nowhere"}, "UnknownQueue", "spec.queue: there is no GangQueue 'nowhere' (known: ext, gpu)",
    ),
    "another namespace": (
        {"namespace": "bio"}, "NamespaceNotAllowed", "spec.queue: GangQueue gpu does not admit namespace bio",
    ),
    "an unknown GRES type": (
        {"gres": "gpu:tpu9:1"}, "UnknownGres", "spec.roles[0].gres: partition gpu has no gpu:tpu9 (it has gpu:h100)",
    ),
    "9 GPUs in a pod": (
        {"gpus": 9}, "TooManyGpus", "spec.roles[0].gres: 9 GPUs per pod, but a node of partition gpu gives at most 8",
    ),
    "more GPUs than the queue allows": (
        {"pods": 65, "gpus": 8}, "TooManyGpus", "spec.roles[0]: 520 GPUs are more than the 512 of GangQueue gpu",
    ),
    "more time than the queue allows": (
        {"timeLimit": "3d"}, "TimeLimitTooLong",
        "spec.timeLimit: 3-00:00:00 is more than the 2-00:00:00 that GangQueue gpu allows",
    ),
    "an unknown level": (
        {"topology": {"required": "pod"}}, "UnknownLevel",
        "spec.topology.required: Fleet main has no level 'pod' (levels: spine, rack)",
    ),
    "a pod that the API server refuses": (
        {"pod_spec": {"priorityClassName": "platinum"}}, "PodRejected", "no PriorityClass with name platinum",
    ),
    "a container without an image": (
        {"pod_spec": {"containers": [{"name": "main"}]}}, "PodRejected", "spec.containers[0].image: Required value",
    ),
}  # fmt: skip


@pytest.fixture
def nothing_submitted() -> Iterator[None]:
    """Whatever the test does, Slurm must not have got a job of it."""
    before = _all_jobs()
    yield
    kubectl("delete", "gangjobs", "--all", "-n", "bio")
    assert _all_jobs() - before == set()


def test_kubectl_apply_refuses_what_can_be_seen_to_be_wrong_in_words_that_name_the_field() -> None:
    for what, (spec, words) in REFUSED.items():
        with pytest.raises(CommandFailed, match=f"(?s){words}"):
            gang.submit("bad", **spec)
        assert found("gangjob", "bad") is None, what


def test_what_cannot_run_is_parked_with_a_condition_that_names_field_and_number() -> None:
    gangs: dict[str, Gang] = {}
    for number, (what, (spec, _, _)) in enumerate(PARKED.items()):
        gangs[what] = _apply(f"parked-{number}", spec)
    problems = [_problem(gangs[what], reason, words) for what, (_, reason, words) in PARKED.items()]
    assert [problem for problem in problems if problem] == []
    assert listed("pods,resourceclaims", namespace=NAMESPACE) == []


def _apply(name: str, spec: Object) -> Gang:
    spec = dict(spec)
    gres = spec.pop("gres", None)
    obj = gang.manifest(name, **spec)
    if gres:
        obj["spec"]["roles"][0]["gres"] = gres
    apply(obj)
    return Gang(name, obj["metadata"]["namespace"])


def _problem(of: Gang, reason: str, words: str) -> str:
    try:
        message = of.parked(reason)
    except AssertionError as error:
        return str(error)
    phase = of.status()["phase"]
    return "" if words in message and phase == "Pending" else f"{phase}, {reason}: {message!r} lacks {words!r}"


def _all_jobs() -> set[int]:
    return {job["job_id"] for job in batch.jobs()}
