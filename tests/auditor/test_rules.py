"""Every rule: one thing is broken in a sound world, and exactly what follows is found."""

from __future__ import annotations

import json

import pytest

from auditor.evidence import Place
from auditor.rules import judge
from bridge import wellknown
from tests.auditor.world import CREATED, HOLD, JOB, LONG_AGO, NOW, World, job_record, marker, number, slice_of

LATER = "2027-01-15T07:59:55Z"
"""Five seconds before the servers' clocks."""


def found(world: World) -> list[str]:
    return [f"{violation.invariant} {violation.subject}" for violation in judge(world.evidence())]


# -- sound -------------------------------------------------------------------------------------------------------------


def completing(world: World) -> None:
    """Slurm ended the hold; its epilog waits on the node with slurmd, the other node is fenced."""
    world.jobs[HOLD] |= {"job_state": ["CANCELLED", "COMPLETING"], "nodes": "gpu0", "gres_detail": []}
    world.nodes["ext0"] |= {"state": ["MIXED", "EXTERNAL", "DRAIN"], "reason": "gangbridge: pods are not proven gone"}


def fenced_before_its_epilog_ends(world: World) -> None:
    """The node is drained: the guard is needed no longer."""
    world.nodes["gpu0"] |= {"state": ["MIXED", "DRAIN"], "reason": "gangbridge: pods are not proven gone", "extra": ""}


def quarantined(world: World) -> None:
    """Hold and pod are gone without evidence, and a drain keeps the node."""
    world.jobs.pop(HOLD)
    world.objects["pods"].pop("llm-1-1")
    for name in world.nodes:
        world.nodes[name] |= {"state": ["IDLE", "DRAIN"], "reason": "gangbridge: pods are not proven gone"}


def drained_by_an_admin(world: World) -> None:
    world.jobs.pop(HOLD)
    for name in world.nodes:
        world.nodes[name] |= {"state": ["IDLE", "DRAIN"], "reason": "broken fan"}


def starting(world: World) -> None:
    """Pods wait at their gates; one claim is allocated already."""
    world.claim(0)["status"] = {}
    for rank in (0, 1):
        world.pod(rank)["spec"] = {"schedulingGates": [{"name": wellknown.GATE}]}
        world.pod(rank)["status"] = {"phase": "Pending"}


def ending(world: World) -> None:
    """One member has ended and given its devices back, the other one still runs."""
    world.pod(0)["status"] = {"phase": "Succeeded", "containerStatuses": [{"state": {"terminated": {"exitCode": 0}}}]}
    world.objects["resourceclaims"].pop("llm-1-0-gpu")


def never_bound(world: World) -> None:
    """A gang that is deleted before kube-scheduler bound one of its pods."""
    world.pod(0)["metadata"]["deletionTimestamp"] = LATER
    world.pod(0)["spec"].pop("nodeName")
    world.pod(0)["status"] = {"phase": "Pending"}
    world.objects["resourceclaims"].pop("llm-1-0-gpu")


def fenced_by_an_admin(world: World) -> None:
    """The node was lost and an admin vouches for it: its claim is free although the pod never reported."""
    world.objects["nodes"]["k8s-gpu0"]["metadata"]["annotations"] = {wellknown.FENCED: "powered off"}
    world.objects["resourceclaims"].pop("llm-1-1-gpu")


def out_of_service(world: World) -> None:
    fenced_by_an_admin(world)
    world.objects["nodes"]["k8s-gpu0"]["metadata"]["annotations"] = {}
    world.objects["nodes"]["k8s-gpu0"]["spec"]["taints"] = [{"key": wellknown.OUT_OF_SERVICE, "effect": "NoExecute"}]


def young_job(world: World) -> None:
    world.jobs[201] = job_record(201, "gpu0", ["gpu:h100:1(IDX:6)"], start_time=number(NOW - 5))


def just_ended(world: World) -> None:
    world.jobs[JOB] |= {"job_state": ["COMPLETED"], "gres_detail": [], "end_time": number(NOW - 5)}


def completing_job(world: World) -> None:
    world.jobs[JOB] |= {"job_state": ["COMPLETED", "COMPLETING"], "gres_detail": [], "end_time": number(NOW - 60)}


def unmanaged_node(world: World) -> None:
    world.jobs[201] = job_record(201, "cpu7", ["gpu:h100:1(IDX:6)"])


def other_cluster(world: World) -> None:
    """One slurmctld may serve two clusters: the hold of the other one is somebody's job here."""
    world.jobs[JOB]["admin_comment"] = marker(uid="uid-of-theirs", cluster="other")


def unsealed_for_a_moment(world: World) -> None:
    world.jobs[HOLD] |= {"admin_comment": "", "comment": marker(), "submit_time": number(NOW - 10)}


def doubled_for_a_moment(world: World) -> None:
    pending = {"job_state": ["PENDING"], "submit_time": number(NOW - 10)}
    world.jobs[101] = job_record(101, "", [], admin_comment=marker(), **pending)


def heterogeneous(world: World) -> None:
    """Two components of one submission."""
    world.jobs[HOLD] |= {"nodes": "ext0", "gres_detail": ["gpu:h100:2(IDX:0-1)"], "het_job_id": number(HOLD)}
    second = {"admin_comment": marker(), "het_job_id": number(HOLD)}
    world.jobs[101] = job_record(101, "gpu0", ["gpu:h100:2(IDX:0-1)"], **second)
    world.pod(1)["metadata"]["labels"][wellknown.JOB_ID] = "101"
    world.nodes["gpu0"]["extra"] = "gangbridge:101"


def finished_with_logs(world: World) -> None:
    """A gang that is over keeps its pods for their logs, and nothing else."""
    over = {"type": "Finished", "status": "True", "lastTransitionTime": CREATED}
    world.objects["gangjobs"]["llm"]["status"] |= {"phase": "Succeeded", "conditions": [over]}
    for rank in (0, 1):
        world.pod(rank)["status"] = {"phase": "Succeeded"}
        world.objects["resourceclaims"].pop(f"llm-1-{rank}-gpu")
    world.jobs[HOLD] |= {"job_state": ["COMPLETED"], "gres_detail": [], "end_time": number(LONG_AGO)}
    world.nodes["gpu0"]["extra"] = ""


def other_clusters_marker(world: World) -> None:
    world.jobs[JOB]["comment"] = marker(uid="uid-of-theirs", cluster="other")


def ended_forgery(world: World) -> None:
    forged(world)
    world.jobs[201]["job_state"] = ["CANCELLED"]


def young_orphan_claim(world: World) -> None:
    orphan_claim(world)
    world.kube_now = LONG_AGO + 60


def cancelled_orphan_hold(world: World) -> None:
    orphan_hold(world)
    world.jobs[101] |= {"job_state": ["CANCELLED", "COMPLETING"], "nodes": "gpu0"}


def indices_not_shown(world: World) -> None:
    """What cannot be read is no violation."""
    for job in world.jobs.values():
        job["gres_detail"] = []


def cancelled_double(world: World) -> None:
    """The younger of two holds was cancelled; its epilog runs."""
    doubled(world)
    world.jobs[101] |= {"job_state": ["CANCELLED", "COMPLETING"], "nodes": "gpu0"}


def just_finished(world: World) -> None:
    finished_with_a_hold(world)
    world.kube_now = LONG_AGO + 60


def one_member_gone(world: World) -> None:
    """The gang ends: one pod is gone with its claim, the other one takes its time."""
    world.objects["pods"].pop("llm-1-0")
    world.objects["resourceclaims"].pop("llm-1-0-gpu")
    world.pod(1)["metadata"]["deletionTimestamp"] = LATER


def deleted_gang(world: World) -> None:
    one_member_gone(world)
    world.pod(1)["metadata"].pop("deletionTimestamp")
    world.objects["gangjobs"]["llm"]["metadata"]["deletionTimestamp"] = LATER


def orphans_in_quarantine(world: World) -> None:
    """Their GangJob is gone and so is their hold; what nobody can prove stopped is kept behind a drain."""
    quarantined(world)
    world.objects["gangjobs"].pop("llm")


def orphaned_claim_in_quarantine(world: World) -> None:
    orphans_in_quarantine(world)
    world.objects["pods"].clear()


def orphan_of_a_minute(world: World) -> None:
    orphan_pod(world)
    world.kube_now = LONG_AGO + 60


def orphan_hold_of_a_minute(world: World) -> None:
    orphan_hold(world)
    world.jobs[101]["submit_time"] = number(NOW - 60)


def orphans_in_their_grace(world: World) -> None:
    """Somebody stripped the GangJob's finalizer: the pods have been told to end."""
    world.objects["gangjobs"].pop("llm")
    for rank in (0, 1):
        world.pod(rank)["metadata"]["deletionTimestamp"] = LATER


def watched_device(world: World) -> None:
    """A monitor's claim sees a device and owns nothing."""
    twin = world.copied(world.claim(0), "monitor")
    twin["metadata"] |= {"labels": {}, "managedFields": [{"manager": "kubectl"}]}
    for result in twin["status"]["allocation"]["devices"]["results"]:
        result["adminAccess"] = True


def new_generation(world: World) -> None:
    """A pool's older slices may still be there."""
    world.objects["resourceslices"]["old"] = slice_of("k8s-gpu0", generation=0, first=4)
    world.objects["resourceslices"]["newer"] = world.objects["resourceslices"].pop("k8s-gpu0")


def foreign_driver(world: World) -> None:
    """A device of a driver that no GRES is mapped to has an index too."""
    other = slice_of("k8s-gpu0")
    other["spec"]["driver"] = "nic.example.com"
    world.objects["resourceslices"]["nic"] = other
    twin = world.copied(world.claim(0), "nic")
    twin["metadata"] |= {"labels": {}, "managedFields": []}
    twin["status"]["allocation"] = json.loads(
        json.dumps(world.claim(1)["status"]["allocation"]).replace(wellknown.DRIVER, "nic.example.com")
    )


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda _: None, id="as it is"),
        pytest.param(World.without_gang, id="no gang"),
        completing, fenced_before_its_epilog_ends, quarantined, drained_by_an_admin, starting, ending, never_bound,
        fenced_by_an_admin, out_of_service,
        young_job,
        just_ended, completing_job, unmanaged_node, other_cluster, unsealed_for_a_moment,
        doubled_for_a_moment, heterogeneous, finished_with_logs, orphans_in_their_grace, watched_device,
        new_generation, foreign_driver, other_clusters_marker, ended_forgery, young_orphan_claim, cancelled_double,
        cancelled_orphan_hold, indices_not_shown,
        just_finished, one_member_gone,
        deleted_gang, orphans_in_quarantine, orphaned_claim_in_quarantine, orphan_of_a_minute, orphan_hold_of_a_minute,
    ],
)  # fmt: skip
def test_a_sound_world_has_no_violation(change):
    world = World()
    change(world)
    assert found(world) == []


# -- I1 ----------------------------------------------------------------------------------------------------------------


def second_claim(world: World) -> None:
    """A stray pod was given a device of the gang's."""
    twin = world.copied(world.claim(0), "stray")
    twin["metadata"] |= {"labels": {}, "managedFields": [{"manager": "kube-scheduler"}]}
    twin["status"]["allocation"]["devices"]["results"].pop()


def second_claim_on_an_unknown_device(world: World) -> None:
    """No slice says what the device is; that two claims have it needs none."""
    world.objects["resourceslices"].pop("k8s-ext0")
    second_claim(world)


def second_job(world: World) -> None:
    world.jobs[JOB]["gres_detail"] = ["gpu:h100:3(IDX:1,4-5)"]


def two_jobs_without_claims(world: World) -> None:
    for job_id in (201, 202):
        world.jobs[job_id] = job_record(job_id, "gpu0", ["gpu:h100:1(IDX:6)"], start_time=number(NOW))


def somebody_elses_job(world: World) -> None:
    """The hold ended and Slurm gave a device to the next job, with the gang still there."""
    world.jobs[HOLD] |= {"job_state": ["CANCELLED", "COMPLETING"], "nodes": "ext0,gpu0", "gres_detail": []}
    world.jobs[201] = job_record(201, "gpu0", ["gpu:h100:1(IDX:0)"], start_time=number(NOW))


def claim_of_somebody_else(world: World) -> None:
    world.without_gang()
    twin = world.copied(world.mirror_claim(), "stray")
    twin["metadata"] |= {"labels": {}, "managedFields": [], "namespace": "research"}
    world.objects["resourceclaims"].pop("slurm-200-a-0")


# -- I2 ----------------------------------------------------------------------------------------------------------------


def hold_gone(world: World) -> None:
    world.jobs.pop(HOLD)


def hold_gone_with_its_guard(world: World) -> None:
    hold_gone(world)
    world.nodes["gpu0"]["extra"] = ""


def hold_ended(world: World) -> None:
    world.jobs[HOLD] |= {"job_state": ["CANCELLED"], "gres_detail": []}


def epilog_done_on_one_node(world: World) -> None:
    """slurmctld names only the nodes whose epilog runs."""
    world.jobs[HOLD] |= {"job_state": ["CANCELLED", "COMPLETING"], "nodes": "gpu0", "gres_detail": []}


def other_indices(world: World) -> None:
    world.jobs[HOLD]["gres_detail"] = ["gpu:h100:2(IDX:0-1)", "gpu:h100:2(IDX:1-2)"]


def hold_of_another_attempt(world: World) -> None:
    world.jobs[HOLD] |= {"admin_comment": marker(attempt=2), "submit_time": number(NOW)}


def node_down(world: World) -> None:
    """A node that is down may come back by itself: that is no fence."""
    world.jobs.pop(HOLD)
    world.nodes["gpu0"]["state"] = ["DOWN", "NOT_RESPONDING"]
    world.nodes["ext0"]["state"] = ["IDLE", "DRAIN"]


def more_than_the_claims_show(world: World) -> None:
    world.jobs[HOLD]["gres_detail"] = ["gpu:h100:2(IDX:0-1)", "gpu:h100:3(IDX:0-2)"]


# -- I3 ----------------------------------------------------------------------------------------------------------------


def no_mirror(world: World) -> None:
    world.objects["resourceclaims"].pop("slurm-200-a-0")


def half_a_mirror(world: World) -> None:
    world.mirror_claim()["status"]["allocation"]["devices"]["results"].pop()


def suspended_job(world: World) -> None:
    world.jobs[JOB]["job_state"] = ["SUSPENDED"]
    no_mirror(world)


def mirror_not_allocated(world: World) -> None:
    world.mirror_claim()["status"] = {}


def mirror_of_an_ended_job(world: World) -> None:
    world.jobs[JOB] |= {"job_state": ["COMPLETED"], "gres_detail": [], "end_time": number(NOW - 6)}


def mirror_of_a_forgotten_job(world: World) -> None:
    world.jobs.pop(JOB)


def mirror_of_a_requeued_job(world: World) -> None:
    world.jobs[JOB] |= {"job_state": ["PENDING"], "nodes": "", "gres_detail": []}


def mirror_shows_more(world: World) -> None:
    world.jobs[JOB]["gres_detail"] = ["gpu:h100:1(IDX:4)"]


# -- I4 and I5 ---------------------------------------------------------------------------------------------------------


def member_waits_without_claim(world: World) -> None:
    """One pod was handed over before the other one's claim was allocated."""
    world.claim(0)["status"] = {}
    world.pod(0)["spec"] = {"schedulingGates": [{"name": wellknown.GATE}]}
    world.pod(0)["status"] = {"phase": "Pending"}


def claim_freed_early(world: World) -> None:
    world.objects["resourceclaims"].pop("llm-1-1-gpu")


def claim_reserved_for_another_member(world: World) -> None:
    world.claim(1)["status"]["reservedFor"] = world.claim(0)["status"]["reservedFor"]


def ended_unasked(world: World) -> None:
    """Pod garbage collection declared the pod failed; kubelet never said so."""
    said = {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC"}
    world.pod(1)["status"] = {"phase": "Failed", "conditions": [said]}
    claim_freed_early(world)


def container_outlives_phase(world: World) -> None:
    world.pod(1)["status"] = {"phase": "Failed", "containerStatuses": [{"state": {"running": {}}}]}
    claim_freed_early(world)


def claim_freed_while_the_pod_starts(world: World) -> None:
    world.pod(1)["status"] = {"phase": "Pending"}
    claim_freed_early(world)


def claim_emptied(world: World) -> None:
    world.claim(1)["status"].pop("allocation")


def no_guard(world: World) -> None:
    world.nodes["gpu0"]["extra"] = ""


def guard_of_another_hold(world: World) -> None:
    world.nodes["gpu0"]["extra"] = f"gangbridge:{HOLD}0"


def foreign_guard(world: World) -> None:
    world.nodes["gpu0"]["extra"] = f"{HOLD}"


# -- I6 ----------------------------------------------------------------------------------------------------------------


def forged(world: World) -> None:
    text = marker(uid="uid-of-nobody")
    world.jobs[201] = job_record(201, "", [], job_state=["PENDING"], comment=text, user_name="mallory")


def never_sealed(world: World) -> None:
    world.jobs[HOLD] |= {"admin_comment": "", "comment": marker()}


def doubled(world: World) -> None:
    world.jobs[101] = job_record(101, "", [], job_state=["PENDING"], admin_comment=marker())


def orphan_hold(world: World) -> None:
    world.jobs[101] = job_record(101, "", [], job_state=["PENDING"], admin_comment=marker(uid="uid-gone"))


def hold_of_an_earlier_attempt(world: World) -> None:
    world.without_gang()
    restarted = World().objects["gangjobs"]["llm"]
    restarted["status"]["attempt"] = 2
    world.objects["gangjobs"]["llm"] = restarted
    world.jobs[HOLD] = World().jobs[HOLD]


def orphan_claim(world: World) -> None:
    twin = world.copied(world.claim(1), "left", **{wellknown.GANG_UID: "uid-gone"})
    twin["status"] = {}


def orphan_pod(world: World) -> None:
    twin = world.copied(world.pod(0), "left", **{wellknown.GANG_UID: "uid-gone"})
    twin["spec"] = {"schedulingGates": [{"name": wellknown.GATE}]}
    twin["status"] = {"phase": "Pending"}
    world.objects["pods"]["left"] = twin


def orphan_pod_that_does_not_end(world: World) -> None:
    orphan_pod(world)
    world.objects["pods"]["left"]["metadata"]["deletionTimestamp"] = CREATED


def orphan_claim_on_an_open_node(world: World) -> None:
    """Slurm holds its devices no longer, and nothing keeps them from being given away."""
    orphaned_claim_in_quarantine(world)
    for node in world.nodes.values():
        node["state"] = ["IDLE"]
    for rank in (0, 1):
        world.claim(rank)["status"] = {"allocation": world.claim(rank)["status"]["allocation"]}


def stopped_orphan_on_a_drained_node(world: World) -> None:
    """It has ended: that is no quarantine."""
    orphans_in_quarantine(world)
    world.pod(0)["status"] = {"phase": "Succeeded"}


def ended_pod_of_an_earlier_attempt(world: World) -> None:
    """Only the last attempt's pods are kept for their logs."""
    finished_with_logs(world)
    world.objects["gangjobs"]["llm"]["status"]["attempt"] = 2
    world.objects["pods"].pop("llm-1-1")


def finished_with_a_pod(world: World) -> None:
    """It was never handed to kube-scheduler."""
    finished_with_logs(world)
    world.pod(0)["spec"] = {"schedulingGates": [{"name": wellknown.GATE}]}
    world.pod(0)["status"] = {"phase": "Pending"}
    world.objects["pods"].pop("llm-1-1")


def finished_with_a_hold(world: World) -> None:
    finished_with_logs(world)
    world.jobs[HOLD]["job_state"] = ["RUNNING"]


# -- I7 ----------------------------------------------------------------------------------------------------------------


def too_many_devices(world: World) -> None:
    world.claim(0)["status"]["allocation"]["devices"]["results"] *= 17


def no_devices(world: World) -> None:
    world.mirror_claim()["status"]["allocation"]["devices"] = {}
    world.jobs.pop(JOB)


def two_nodes(world: World) -> None:
    terms = world.claim(0)["status"]["allocation"]["nodeSelector"]["nodeSelectorTerms"]
    terms[0]["matchFields"][0]["values"].append("k8s-gpu0")


def another_node(world: World) -> None:
    terms = world.claim(0)["status"]["allocation"]["nodeSelector"]["nodeSelectorTerms"]
    terms[0]["matchFields"][0]["values"] = ["k8s-gpu0"]


def no_finalizer(world: World) -> None:
    world.claim(0)["metadata"]["finalizers"] = ["example.com/other"]


def no_timestamp(world: World) -> None:
    world.claim(0)["status"]["allocation"].pop("allocationTimestamp")


def no_consumer(world: World) -> None:
    world.mirror_claim()["status"].pop("reservedFor")


def two_consumers(world: World) -> None:
    world.claim(0)["status"]["reservedFor"].append({"resource": "pods", "name": "other", "uid": "uid-other"})


def pod_gone(world: World) -> None:
    world.objects["pods"].pop("llm-1-1")


def pod_of_the_same_name(world: World) -> None:
    world.pod(1)["metadata"]["uid"] = "uid-of-its-successor"


def mirror_gone(world: World) -> None:
    world.objects["gangjobs"].pop("slurm-200")


def claim_for_a_gangjob(world: World) -> None:
    world.claim(0)["status"]["reservedFor"] = world.mirror_claim()["status"]["reservedFor"]


def claim_for_something_else(world: World) -> None:
    world.claim(0)["status"]["reservedFor"][0]["resource"] = "jobs"


def mirror_for_a_pod(world: World) -> None:
    world.mirror_claim()["status"]["reservedFor"] = world.claim(0)["status"]["reservedFor"]


# -- I8 ----------------------------------------------------------------------------------------------------------------


def foreign_claim_written(world: World) -> None:
    twin = world.copied(world.claim(0), "theirs")
    twin["status"] = {}
    twin["metadata"]["labels"] = {}


def foreign_pod_written(world: World) -> None:
    twin = world.copied(world.pod(0), "theirs")
    twin["metadata"]["labels"] = {"app": "theirs"}


def hold_mirrored(world: World) -> None:
    """A job that is mirrored became one of ours."""
    world.jobs[JOB]["admin_comment"] = marker(uid="uid-new")
    world.jobs[JOB]["submit_time"] = number(NOW)


GPU0, POD, CLAIM = "gpu0 index", "pod research/llm-1-1", "claim research/llm-1-1-gpu"
MIRROR = "claim gangbridge-mirror/slurm-200-a-0"
BOTH = ["claim research/llm-1-0-gpu", "claim research/llm-1-1-gpu"]
PODS = ["pod research/llm-1-0", "pod research/llm-1-1"]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (second_claim, ["I1 ext0 index 0"]),
        (second_claim_on_an_unknown_device, ["I1 k8s-ext0/gpu-0"]),
        (second_job, [f"I1 {GPU0} 1", "I3 job 200 on gpu0"]),
        (two_jobs_without_claims, [f"I1 {GPU0} 6"]),
        (somebody_elses_job, [f"I1 {GPU0} 0"]),
        (claim_of_somebody_else, [f"I1 {GPU0} 4", f"I1 {GPU0} 5", "I3 job 200 on gpu0"]),
        (hold_gone, [f"I2 {BOTH[0]}", f"I2 {BOTH[1]}", f"I5 {PODS[0]}", f"I5 {PODS[1]}"]),
        (hold_gone_with_its_guard, [f"I2 {BOTH[0]}", f"I2 {BOTH[1]}", f"I5 {PODS[0]}", f"I5 {PODS[1]}"]),
        (hold_ended, [f"I2 {BOTH[0]}", f"I2 {BOTH[1]}", f"I5 {PODS[0]}", f"I5 {PODS[1]}"]),
        (epilog_done_on_one_node, [f"I2 {BOTH[0]}", f"I5 {PODS[0]}"]),
        (other_indices, [f"I2 {CLAIM}", "I2 job 100 on gpu0", f"I5 {POD}"]),
        (
            hold_of_another_attempt,
            [
                *("I1 ext0 index 0", "I1 ext0 index 1", "I1 gpu0 index 0", "I1 gpu0 index 1"),
                *(f"I2 {BOTH[0]}", f"I2 {BOTH[1]}", f"I5 {PODS[0]}", f"I5 {PODS[1]}"),
            ],
        ),
        (node_down, [f"I2 {CLAIM}", f"I5 {POD}"]),
        (more_than_the_claims_show, ["I2 job 100 on gpu0"]),
        (no_mirror, ["I3 job 200 on gpu0"]),
        (half_a_mirror, ["I3 job 200 on gpu0"]),
        (suspended_job, ["I3 job 200 on gpu0"]),
        (mirror_not_allocated, ["I3 job 200 on gpu0"]),
        (mirror_of_an_ended_job, [f"I3 {MIRROR}"]),
        (mirror_of_a_forgotten_job, [f"I3 {MIRROR}"]),
        (mirror_of_a_requeued_job, [f"I3 {MIRROR}"]),
        (mirror_shows_more, [f"I3 {MIRROR}"]),
        (member_waits_without_claim, ["I4 pod research/llm-1-0"]),
        (claim_freed_early, ["I2 job 100 on gpu0", f"I4 {POD}", f"I5 {POD}"]),
        (claim_reserved_for_another_member, [f"I4 {POD}", f"I5 {POD}"]),
        (ended_unasked, ["I2 job 100 on gpu0", f"I4 {POD}", f"I5 {POD}"]),
        (container_outlives_phase, ["I2 job 100 on gpu0", f"I4 {POD}", f"I5 {POD}"]),
        (claim_freed_while_the_pod_starts, ["I2 job 100 on gpu0", f"I4 {POD}", f"I5 {POD}"]),
        (claim_emptied, ["I2 job 100 on gpu0", f"I4 {POD}", f"I5 {POD}"]),
        (no_guard, ["I5 node gpu0, hold 100"]),
        (guard_of_another_hold, ["I5 node gpu0, hold 100"]),
        (foreign_guard, ["I5 node gpu0, hold 100"]),
        (forged, ["I6 job 201"]),
        (never_sealed, ["I6 job 100"]),
        (doubled, ["I6 gang uid-llm attempt 1"]),
        (orphan_hold, ["I6 job 101"]),
        (hold_of_an_earlier_attempt, ["I6 job 100"]),
        (orphan_claim, ["I6 claim research/left"]),
        (orphan_pod, ["I6 pod research/left"]),
        (orphan_pod_that_does_not_end, ["I6 pod research/left"]),
        (
            orphan_claim_on_an_open_node,
            [f"I2 {BOTH[0]}", f"I2 {BOTH[1]}", f"I6 {BOTH[0]}", f"I6 {BOTH[1]}", f"I7 {BOTH[0]}", f"I7 {BOTH[1]}"],
        ),
        (stopped_orphan_on_a_drained_node, ["I6 pod research/llm-1-0"]),
        (ended_pod_of_an_earlier_attempt, ["I6 pod research/llm-1-0"]),
        (finished_with_a_pod, ["I6 pod research/llm-1-0"]),
        (finished_with_a_hold, ["I6 job 100"]),
        (too_many_devices, [f"I7 {BOTH[0]}"]),
        (no_devices, [f"I7 {MIRROR}"]),
        (two_nodes, [f"I7 {BOTH[0]}"]),
        (another_node, [f"I7 {BOTH[0]}"]),
        (no_finalizer, [f"I7 {BOTH[0]}"]),
        (no_timestamp, [f"I7 {BOTH[0]}"]),
        (no_consumer, [f"I7 {MIRROR}"]),
        (two_consumers, [f"I7 {BOTH[0]}"]),
        (pod_gone, [f"I7 {CLAIM}"]),
        (pod_of_the_same_name, [f"I4 {POD}", f"I5 {POD}", f"I7 {CLAIM}"]),
        (mirror_gone, [f"I7 {MIRROR}"]),
        (mirror_for_a_pod, [f"I7 {MIRROR}"]),
        (claim_for_a_gangjob, [f"I4 {PODS[0]}", f"I5 {PODS[0]}", f"I7 {BOTH[0]}"]),
        (claim_for_something_else, [f"I7 {BOTH[0]}"]),
        (foreign_claim_written, ["I8 claim research/theirs"]),
        (foreign_pod_written, ["I8 pod research/theirs"]),
        (hold_mirrored, ["I8 job 200"]),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)  # fmt: skip
def test_what_is_broken_is_found_and_nothing_else(change, expected):
    world = World()
    change(world)
    assert found(world) == expected


# -- what a person reads -----------------------------------------------------------------------------------------------


def test_a_violation_names_what_both_servers_say():
    world = World()
    hold_ended(world)
    violation = next(each for each in judge(world.evidence()) if each.subject == CLAIM)
    assert violation.sentence == f"{CLAIM} has gpu0 index 0-1, which no hold of its gang's attempt 1 holds"
    assert violation.slurm == (
        "job 100 of alice, CANCELLED, hold of research/llm attempt 1, on gpu0 (indices not shown)",
        'node gpu0, MIXED, Extra "gangbridge:100"',
    )
    assert violation.kubernetes == (f"{CLAIM}: gpu-0, gpu-1 of k8s-gpu0, reserved for pods/llm-1-1",)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (member_waits_without_claim, "has no allocated claim, and its gang was started (pod research/llm-1-1)"),
        (two_nodes, f"{BOTH[0]} does not select exactly one node by name"),
        (another_node, f"{BOTH[0]} selects node k8s-gpu0, but has devices of ext0"),
        (pod_gone, "is reserved for pod llm-1-1, which is gone without evidence or is not of its gang's attempt"),
        (mirror_gone, "is reserved for mirror slurm-200, which does not exist"),
        (mirror_for_a_pod, "is reserved for pods/llm-1-0, which is neither its pod nor its mirror"),
        (claim_for_a_gangjob, "is reserved for gangjobs/slurm-200, which is neither its pod nor its mirror"),
        (claim_for_something_else, "is reserved for jobs/llm-1-0, which is neither its pod nor its mirror"),
        (finished_with_a_hold, "job 100 of attempt 1 is left over: its gang has finished"),
        (hold_of_an_earlier_attempt, "job 100 of attempt 1 is left over: its gang is at attempt 2"),
        (orphan_hold, "job 101 of attempt 1 is left over: its GangJob is gone"),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_a_sentence_says_what_is_wrong(change, words):
    world = World()
    change(world)
    sentences = [violation.sentence for violation in judge(world.evidence())]
    assert any(sentence.endswith(words) for sentence in sentences), sentences


def test_a_gangjob_is_told_with_its_state():
    world = World()
    finished_with_a_hold(world)
    (violation,) = judge(world.evidence())
    assert violation.kubernetes == ("GangJob research/llm at attempt 1, finished",)
    world = World()
    never_sealed(world)
    (violation,) = judge(world.evidence())
    assert violation.kubernetes == ("GangJob research/llm at attempt 1",)


def test_the_same_state_a_while_later_gives_the_same_words():
    world, later = World(), World()
    later.now += 100
    later.kube_now += 100
    for each in (world, later):
        hold_ended(each)
        forged(each)
        orphan_claim(each)
    assert judge(world.evidence()) == judge(later.evidence())


def test_the_order_of_the_lists_does_not_matter():
    world, turned = World(), World()
    for each in (world, turned):
        hold_gone(each)
        second_claim(each)
        no_mirror(each)
    turned.jobs = dict(reversed(turned.jobs.items()))
    turned.objects = {plural: dict(reversed(objects.items())) for plural, objects in turned.objects.items()}
    assert sorted(found(turned)) == sorted(found(world))


def test_devices_of_managed_nodes_are_the_indices_that_their_slices_say():
    world = World()
    world.objects["resourceslices"]["k8s-gpu0"] = slice_of("k8s-gpu0", first=10, devices=1)
    places = world.evidence().places
    assert [place for device, place in places.items() if device.pool == "k8s-gpu0"] == [Place("gpu0", 10)]
