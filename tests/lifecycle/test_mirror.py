from __future__ import annotations

from dataclasses import replace

import pytest

from bridge.lifecycle.actions import AllocateClaim, CreateMirrorClaim, DeleteMirror, FreeClaim, WriteMirror
from bridge.lifecycle.fleetview import join
from bridge.lifecycle.mirror import digest, mirror_jobs
from bridge.model.gres import Gres
from bridge.model.hold import GangKey, Marker
from bridge.model.slurm import JobState
from bridge.wellknown import DRIVER
from tests.builders import (
    devices,
    foreign_claim,
    gang,
    gpus,
    hold,
    job,
    kube_node,
    mirror,
    mirror_claim,
    node,
    pool,
    snapshot,
)

NODES = (node("n1"), node("n2"))


def stages(jobs=(), *, machines=NODES, **changes):
    """Return the stages for each job id."""
    seen = snapshot(machines, jobs=jobs, **changes)
    return mirror_jobs(seen, join(seen))


def actions(jobs=(), **changes):
    return [action for found in stages(jobs, **changes).values() for stage in found for action in stage]


def shown(of, **changes):
    return mirror(of, digest=digest(of), **changes)


def test_a_running_job_is_written_then_claimed_then_allocated_then_left_alone():
    running = job(7, on={"n1": [0, 1], "n2": [3]})
    assert actions([running]) == [WriteMirror(job=running, digest=digest(running), existing=None)]
    image = shown(running)
    created = actions([running], mirrors=(image,))
    assert [(each.device_class, each.count) for each in created] == [(DRIVER, 2), (DRIVER, 1)]
    assert all(isinstance(each, CreateMirrorClaim) and each.mirror == image for each in created)
    bare = (mirror_claim(running, "n1"), mirror_claim(running, "n2"))
    assert [claim.name for claim in bare] == [each.name for each in created]
    assert actions([running], mirrors=(image,), claims=bare) == [
        AllocateClaim(claim=bare[0], node="n1", devices=devices("n1", [0, 1]), consumer=image),
        AllocateClaim(claim=bare[1], node="n2", devices=devices("n2", [3]), consumer=image),
    ]
    full = (mirror_claim(running, "n1", [0, 1]), mirror_claim(running, "n2", [3]))
    assert actions([running], mirrors=(image,), claims=full) == []


def test_a_pending_job_is_shown_and_holds_nothing():
    waiting = job(7, JobState.PENDING, gres_requested="gres/gpu:h100:2")
    assert actions([waiting]) == [WriteMirror(job=waiting, digest=digest(waiting), existing=None)]
    assert actions([waiting], mirrors=(shown(waiting),)) == []


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(job(7, JobState.PENDING, gres_requested="gres/fpga:1"), id="no gpus asked"),
        pytest.param(job(7, on={"n1": ()}, gres={"n1": ()}), id="no gpus held"),
        pytest.param(job(7, JobState.COMPLETED, on={"n1": [0]}), id="over"),
    ],
)
def test_jobs_without_gpus_or_that_are_over_are_not_shown(other):
    assert actions([other]) == []


def test_a_hold_of_ours_is_not_shown_as_somebody_elses_job():
    owner = gang()
    assert actions([hold(owner, on={"n1": [0]})], gangs=(owner,)) == []


def test_a_job_that_only_says_that_it_is_a_hold_is_shown():
    """A user may write anything into ``comment``; only ``admin_comment`` is ours."""
    forged = Marker(key=GangKey(uid="uid-llm", attempt=1), namespace="research", name="llm")
    running = job(7, on={"n1": [0]}, marker=forged, is_sealed=False)
    assert actions([running], gangs=(gang(),)) == [WriteMirror(job=running, digest=digest(running), existing=None)]


def test_a_suspended_job_keeps_its_devices():
    paused = job(7, JobState.SUSPENDED, on={"n1": [0]})
    claims = (mirror_claim(paused, "n1", [0]),)
    assert actions([paused], mirrors=(shown(paused),), claims=claims) == []


def test_a_completing_job_keeps_its_claims_until_its_epilog_is_done_although_it_shows_no_devices():
    running = job(7, on={"n1": [0], "n2": [1]})
    claims = (mirror_claim(running, "n1", [0]), mirror_claim(running, "n2", [1]))
    ending = replace(running, state=JobState.COMPLETED, completing=True, gres={"n1": (), "n2": ()})
    assert actions([ending], mirrors=(shown(ending),), claims=claims) == []
    half = replace(ending, nodes=("n2",), gres={"n2": ()})
    assert actions([half], mirrors=(shown(half),), claims=claims) == [FreeClaim(claim=claims[0])]
    over = replace(ending, completing=False)
    assert actions([over], mirrors=(shown(over),), claims=claims[1:]) == [FreeClaim(claim=claims[1])]
    assert actions([over], mirrors=(shown(over),)) == [DeleteMirror(mirror=shown(over))]


def test_claims_go_before_the_mirror_does():
    gone = job(7, on={"n1": [0]})
    claims = (mirror_claim(gone, "n1", [0]),)
    assert actions(mirrors=(shown(gone),), claims=claims) == [FreeClaim(claim=claims[0])]
    assert actions(mirrors=(shown(gone),)) == [DeleteMirror(mirror=shown(gone))]


def test_claims_of_a_job_whose_mirror_somebody_deleted_are_freed_when_it_is_over():
    gone = job(7, on={"n1": [0]})
    assert actions(claims=(mirror_claim(gone, "n1", [0]),)) == [FreeClaim(claim=mirror_claim(gone, "n1", [0]))]


def test_a_mirror_that_somebody_deleted_is_written_again():
    running = job(7, on={"n1": [0]})
    (written,) = actions([running], claims=(mirror_claim(running, "n1", [0]),))
    assert isinstance(written, WriteMirror)


def test_a_requeued_job_gets_claims_of_a_new_name_after_the_old_ones_are_freed():
    first = job(7, on={"n1": [0]})
    old = mirror_claim(first, "n1", [0])
    waiting = job(7, JobState.PENDING, restart_count=1, gres_requested="gres/gpu:1")
    assert actions([waiting], mirrors=(shown(waiting),), claims=(old,)) == [FreeClaim(claim=old)]
    again = job(7, on={"n1": [0]}, restart_count=1)
    assert actions([again], mirrors=(shown(again),), claims=(old,)) == [FreeClaim(claim=old)]
    (created,) = actions([again], mirrors=(shown(again),))
    assert created.name != old.name


def test_a_recycled_job_id_is_another_job():
    old, new = job(7, on={"n1": [0]}), job(7, on={"n1": [0]}, submit_time=999_999)
    held = mirror_claim(old, "n1", [0])
    assert actions([new], mirrors=(shown(old),), claims=(held,)) == [FreeClaim(claim=held)]
    assert actions([new], mirrors=(shown(old),)) == [DeleteMirror(mirror=shown(old))]
    assert actions([new]) == [WriteMirror(job=new, digest=digest(new), existing=None)]


def test_a_job_without_a_submit_time_is_not_taken_for_recycled():
    running = job(7, on={"n1": [0]}, submit_time=None)
    assert actions([running], mirrors=(shown(running),), claims=(mirror_claim(running, "n1", [0]),)) == []


def test_an_array_task_is_a_job_like_any_other():
    task = job(71, on={"n1": [2]}, array_job_id=70, array_task="1")
    assert actions([task], mirrors=(shown(task),), claims=(mirror_claim(task, "n1"),)) == [
        AllocateClaim(claim=mirror_claim(task, "n1"), node="n1", devices=devices("n1", [2]), consumer=shown(task))
    ]


def test_more_devices_than_a_claim_can_show_are_several_claims():
    wide = (node("n1", count=40),)
    running = job(7, on={"n1": range(40)})
    created = actions([running], machines=wide, mirrors=(shown(running),))
    assert [each.count for each in created] == [32, 8]
    bare = (mirror_claim(running, "n1"), mirror_claim(running, "n1", ordinal=1))
    allocated = actions([running], machines=wide, mirrors=(shown(running),), claims=bare)
    assert [each.devices for each in allocated] == [devices("n1", range(32)), devices("n1", range(32, 40))]


def test_a_node_that_is_not_mapped_gets_no_claim_and_the_others_do():
    running = job(7, on={"n1": [0], "n2": [0], "away": [0]})
    (created,) = actions([running], mirrors=(shown(running),), pools=(pool("n2"),))
    assert created.name == mirror_claim(running, "n2").name


@pytest.mark.parametrize(
    "lost",
    [
        pytest.param({"pools": (pool("n2"),)}, id="pool incomplete"),
        pytest.param({"nodes": (kube_node("n2"),)}, id="node object away"),
        pytest.param({"machines": (node("n1", gres=()), node("n2"))}, id="slurm shows no gres"),
        pytest.param({"pools": (pool("n1", count=4), pool("n2"))}, id="device missing"),
    ],
)
def test_what_cannot_be_read_for_a_moment_is_kept(lost):
    running = job(7, on={"n1": [0]})
    held = mirror_claim(running, "n1", [0])
    assert actions([running], mirrors=(shown(running),), claims=(held,), **lost) == []


def test_a_job_whose_indices_slurm_does_not_tell_gets_no_claim():
    counted = job(7, on={"n1": ()}, gres={"n1": (Gres(name="gpu", type="h100", count=2),)})
    assert actions([counted], mirrors=(shown(counted),)) == []


def test_devices_that_another_claim_holds_are_not_taken_from_it():
    running = job(7, on={"n1": [0]})
    bare, foreign = mirror_claim(running, "n1"), foreign_claim("theirs", devices("n1", [0]))
    assert actions([running], mirrors=(shown(running),), claims=(bare, foreign)) == []


def test_a_claim_that_was_deleted_before_it_held_anything_is_made_anew():
    running = job(7, on={"n1": [0]})
    doomed = replace(mirror_claim(running, "n1"), deleting=True)
    assert actions([running], mirrors=(shown(running),), claims=(doomed,)) == [FreeClaim(claim=doomed)]


def test_a_claim_that_somebody_deletes_while_it_holds_devices_goes_on_holding_them():
    running = job(7, on={"n1": [0]})
    held = replace(mirror_claim(running, "n1", [0]), deleting=True)
    assert actions([running], mirrors=(shown(running),), claims=(held,)) == []


def test_foreign_claims_are_never_touched():
    foreign = foreign_claim("theirs", devices("n1", [0]))
    assert stages(claims=(foreign,)) == {}


def test_a_gangjob_of_a_user_that_claims_to_be_a_mirror_is_left_alone():
    running = job(7, on={"n1": [0]})
    assert stages(mirrors=(shown(running, namespace="research"),)) == {}


@pytest.mark.parametrize(
    "change",
    [
        {"reason": "Priority"},
        {"state": JobState.SUSPENDED},
        {"time_limit_min": 61},
        {"completing": True},
        {"gres": {"n1": gpus([1])}},
        {"restart_count": 1},
        {"name": "renamed"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_mirror_is_written_again_when_what_it_shows_changes(change):
    before = job(7, on={"n1": [0]})
    after = replace(before, **change)
    written = [action for action in actions([after], mirrors=(shown(before),)) if isinstance(action, WriteMirror)]
    assert written == [WriteMirror(job=after, digest=digest(after), existing=shown(before))]


def test_the_digest_does_not_depend_on_the_order_of_the_nodes_gres():
    one = job(7, on={"n1": [0], "n2": [1]})
    assert digest(one) == digest(replace(one, gres=dict(reversed(one.gres.items()))))


def test_a_mirror_that_is_going_gets_no_new_claims():
    running = job(7, on={"n1": [0]})
    assert actions([running], mirrors=(shown(running, deleting=True),)) == []
