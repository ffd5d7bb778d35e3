"""From an accepted gang to started pods: hold, roster, claims, gates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from bridge.accounting.ledger import gpu_indices
from bridge.errors import SpecError
from bridge.lifecycle import end
from bridge.lifecycle.actions import (
    Action,
    AddFinalizer,
    AllocateClaim,
    CreateClaim,
    CreatePod,
    CreateService,
    Decision,
    DryRunPod,
    Member,
    RepinHold,
    Roster,
    SubmitHold,
    UngatePod,
)
from bridge.lifecycle.admission import Accepted
from bridge.lifecycle.fleetview import FleetView
from bridge.lifecycle.guard import WORK_DIR, is_foreign, unguarded
from bridge.lifecycle.observed import Observed
from bridge.lifecycle.status import set_condition
from bridge.model.gang import ConditionType, Gang, GangStatus, Outcome, Result
from bridge.model.gres import Gres, GresRequest
from bridge.model.hold import HoldRequest, Marker
from bridge.model.kube import ClaimView, PodPhase, PodView
from bridge.model.slurm import JobState, SlurmJob
from bridge.placement.quality import assess
from bridge.placement.request import Placed, Request, Unplaceable
from bridge.placement.tree import count_domains, rank_key
from bridge.queue.timeline import NEVER, Pin, Timeline

REPIN_AFTER_S = 3
"""A pending hold is left alone for so long: Slurm may be about to start it."""


def submit(observed: Observed, accepted: Accepted, view: FleetView, timeline: Timeline) -> Decision:
    """Pin the gang to the earliest nodes, take them on the timeline, and submit the hold."""
    gang = observed.gang
    pin = timeline.earliest(accepted.request)
    if isinstance(pin, Unplaceable):
        status = set_condition(gang.status, ConditionType.ACCEPTED, False, str(pin.shortage), pin.message, now=view.now)
        return Decision(gang=gang, status=status)
    request = hold_request(gang, accepted, pin.placed, view)
    first: list[Action] = [] if gang.has_finalizer else [AddFinalizer(gang=gang)]
    if not gang.status.is_true(ConditionType.ACCEPTED):
        first.append(DryRunPod(gang=gang))
    stages = tuple(stage for stage in (first, [SubmitHold(gang=gang, request=request)]) if stage)
    timeline.reserve(pin.placed, accepted.request, _pseudo_job(request, max(pin.free_at, view.now)))
    return Decision(gang=gang, stages=stages, status=_queued(gang, pin.placed, pin.blocked, view))


def hold_request(gang: Gang, accepted: Accepted, placed: Placed, view: FleetView) -> HoldRequest:
    """Return the exact hold for ``placed``: equal nodes, one task per pod."""
    role, queue, width = accepted.spec.role, accepted.queue, placed.pods_per_node
    return HoldRequest(
        marker=Marker(key=gang.key, namespace=gang.namespace, name=gang.name, cluster=view.cluster),
        name=gang.name,
        partition=queue.partition,
        account=queue.account,
        qos=queue.qos[0] if queue.qos else "",
        user=queue.user,
        nodes=placed.nodes,
        gres_per_node=(role.gres.times(width),),
        tasks_per_node=width,
        cpus_per_task=accepted.request.cpus_per_pod,
        memory_mib_per_node=accepted.request.memory_mib_per_pod * width,
        time_limit_min=accepted.time_limit_min,
        external=any(view.nodes[name].slurm.is_external for name in placed.nodes),
    )


def wait(
    observed: Observed, hold: SlurmJob, accepted: Accepted, view: FleetView, timeline: Timeline, *, may_move: bool
) -> Decision:
    """Report why the pending hold waits; move its pin when the gang fits elsewhere now, or a pinned node is lost."""
    gang = observed.gang
    pinned = hold.required_nodes
    width = max(1, accepted.request.pods // max(1, len(pinned)))
    # A pin moves, but the hold keeps its shape: as many nodes, as many pods on each.
    shape = replace(accepted.request, pods_per_node=width)
    placed = Placed(nodes=pinned, pods_per_node=width, domains=_counts(view, pinned))
    better, blocked = None, None
    if not timeline.is_free(pinned, shape, width) and view.now - (hold.submit_time or 0) >= REPIN_AFTER_S:
        better, blocked = _better_pin(pinned, shape, view, timeline)
    stages: tuple[list[Action], ...] = ()
    if may_move and better is not None and set(better.nodes) != set(pinned):
        stages = ([RepinHold(gang=gang, job_id=hold.job_id, nodes=better.nodes)],)
        placed = better
    status = _queued(gang, placed, blocked, view, slurm_reason=hold.reason)
    if all(name in view.nodes for name in placed.nodes):
        request = hold_request(gang, accepted, placed, view)
        timeline.reserve(placed, accepted.request, _pseudo_job(request, hold.start_time or view.now))
    return Decision(gang=gang, stages=stages, status=replace(status, estimated_start_time=hold.start_time))


def _better_pin(
    pinned: tuple[str, ...], shape: Request, view: FleetView, timeline: Timeline
) -> tuple[Placed | None, Unplaceable | None]:
    """Return a better pin, if there is one, and what keeps the gang from starting this moment."""
    now = timeline.fits_now(shape)
    if isinstance(now, Placed):
        return now, None
    if all(name in view.nodes and view.nodes[name].is_usable for name in pinned):
        return None, now
    found = timeline.earliest(shape)
    return (found.placed, now) if isinstance(found, Pin) else (None, found)


def project(observed: Observed, hold: SlurmJob, view: FleetView) -> Decision:
    """The hold runs: write what it owns into Kubernetes, one safe step at a time."""
    gang = observed.gang
    status = replace(gang.status, start_time=hold.start_time, estimated_start_time=None)
    text = f"job {hold.job_id} runs on {len(hold.nodes)} nodes"
    if not status.is_true(ConditionType.ALLOCATED):
        status = set_condition(status, ConditionType.ALLOCATED, True, "HoldRunning", text, now=view.now)
    if observed.is_committed:
        if (what := _uncovered(observed, hold, view)) is not None:
            return _undo(gang, what, view)
        return _go_on(observed, hold, status, view)
    if hold.work_dir not in {"", WORK_DIR}:
        what = f"the WorkDir of job {hold.job_id} was changed to {hold.work_dir}: no epilog would wait for its pods"
        return _undo(gang, what, view)
    roster = build_roster(gang, hold, view)
    if isinstance(roster, str):
        return Decision(
            gang=gang,
            status=set_condition(status, ConditionType.RUNNING, False, "DevicesUnknown", roster, now=view.now),
        )
    status = replace(status, placement=_describe(view, roster.nodes))
    if missing := _missing(observed, roster):
        status = set_condition(status, ConditionType.RUNNING, False, "CreatingPods", text, now=view.now)
        return Decision(gang=gang, stages=(missing,), status=status)
    if (what := _mismatch(observed, roster)) is not None:
        return _undo(gang, what, view)
    claims = {claim.rank: claim for claim in observed.claims}
    waiting = [member for member in roster.members if not claims[member.rank].is_allocated]
    if waiting:
        return _allocate(observed, hold, waiting, view, status)
    return _go_on(observed, hold, status, view)


def _undo(gang: Gang, what: str, view: FleetView) -> Decision:
    """End the attempt because what exists is not what was planned: it is undone, never patched in place."""
    outcome = Outcome(attempt=gang.status.attempt, result=Result.SHAPE_CHANGED, exit_code=1, message=what)
    return end.begin(gang, outcome, view.now)


def _uncovered(observed: Observed, hold: SlurmJob, view: FleetView) -> str | None:
    """Return what is wrong when the hold has lost a node on which a pod may run (``scontrol update``), or its devices.

    A hold that was requeued and runs again may be on the same nodes with others.
    """
    claims = {claim.rank: claim for claim in observed.claims}
    devices = {name: view.devices_of(hold, name) for name in hold.nodes}
    for pod in observed.pods:
        if pod.stopped:
            continue
        name = pod.slurm_node
        if name not in devices:
            return f"job {hold.job_id} no longer has node {name} of pod {pod.name}"
        held, claim = devices[name], claims.get(pod.rank)
        if held is not None and claim is not None and not held.issuperset(claim.devices):
            return f"job {hold.job_id} no longer has the devices of pod {pod.name} on {name}"
    return None


def build_roster(gang: Gang, hold: SlurmJob, view: FleetView) -> Roster | str:
    """Return who gets which devices of the running hold, or what is not known yet. Deterministic in hold and fleet."""
    spec = gang.spec
    if isinstance(spec, Exception):
        return str(spec)
    unknown = [name for name in hold.nodes if name not in view.nodes or view.nodes[name].map is None]
    if unknown:
        first = view.nodes.get(unknown[0])
        problem = first.problem if first else "no managed Kubernetes node has its name"
        return f"{len(unknown)} of {len(hold.nodes)} nodes have no device map; {unknown[0]}: {problem}"
    nodes = tuple(sorted(hold.nodes, key=lambda name: rank_key(view.nodes[name].domains, name)))
    width, rest = divmod(spec.role.replicas, max(1, len(nodes)))
    if rest or not width or not nodes:
        return f"{spec.role.replicas} pods do not divide over the {len(nodes)} nodes of job {hold.job_id}"
    members: list[Member] = []
    for node_rank, name in enumerate(nodes):
        found = _node_members(hold, view, name, node_rank=node_rank, width=width, gres=spec.role.gres)
        if isinstance(found, str):
            return found
        members += found
    return Roster(job_id=hold.job_id, nodes=nodes, pods_per_node=width, members=tuple(members))


def _node_members(
    hold: SlurmJob, view: FleetView, name: str, *, node_rank: int, width: int, gres: GresRequest
) -> list[Member] | str:
    """Divide what Slurm allocated on one node among its pods; the last pod gets what goes beyond the request."""
    node = view.nodes[name]
    indices = gpu_indices(hold.gres.get(name, ()))
    if len(indices) < width * gres.count or node.map is None:
        return f"job {hold.job_id} shows {len(indices)} of {width * gres.count} GPU indices on {name}"
    members = []
    for local in range(width):
        end = (local + 1) * gres.count if local + 1 < width else len(indices)
        mine = indices[local * gres.count : end]
        devices = node.map.resolve(mine)
        if devices is None:
            return f"an index of {mine} on {name} has no device"
        members.append(
            Member(
                rank=node_rank * width + local,
                kube_node=node.kube.name,
                slurm_node=name,
                node_rank=node_rank,
                local_rank=local,
                devices=devices,
                device_class=node.map.classes[mine[0]],
            )
        )
    return members


def _missing(observed: Observed, roster: Roster) -> list[Action]:
    gang = observed.gang
    pods, claims = {pod.rank for pod in observed.pods}, {claim.rank for claim in observed.claims}
    actions: list[Action] = [] if observed.has_service else [CreateService(gang=gang)]
    actions += [CreateClaim(gang=gang, member=member) for member in roster.members if member.rank not in claims]
    actions += [
        CreatePod(gang=gang, roster=roster, member=member) for member in roster.members if member.rank not in pods
    ]
    return actions


def _mismatch(observed: Observed, roster: Roster) -> str | None:
    """Return how what exists differs from what is planned."""
    pods: Mapping[int, PodView] = {pod.rank: pod for pod in observed.pods}
    claims: Mapping[int, ClaimView] = {claim.rank: claim for claim in observed.claims}
    for member in roster.members:
        pod, claim = pods[member.rank], claims[member.rank]
        if pod.node != member.kube_node or pod.deleting or claim.deleting:
            return f"pod {pod.name} or its claim is not the one that was planned on {member.kube_node}"
        if claim.is_allocated and (claim.devices != member.devices or claim.reserved_for != (pod.uid,)):
            return f"claim {claim.name} is not allocated as planned"
    return None


def _allocate(
    observed: Observed, hold: SlurmJob, waiting: Sequence[Member], view: FleetView, status: GangStatus
) -> Decision:
    """Allocate the claims of ``waiting`` on guarded nodes, unless one of their devices is still in another's claim."""
    gang = observed.gang
    if missing := unguarded(hold, view.slurm.nodes):
        # The guard is written in this very cycle, and the next one sees it. Until then no epilog keeps a claim's node.
        if taken := [name for name in missing if is_foreign(view.slurm.nodes[name])]:
            message = f"somebody else's text is in Extra of {', '.join(taken)}"
            status = set_condition(status, ConditionType.RUNNING, False, "NotGuarded", message, now=view.now)
        return Decision(gang=gang, status=status)
    pods, claims = {pod.rank: pod for pod in observed.pods}, {claim.rank: claim for claim in observed.claims}
    for member in waiting:
        others = view.ledger.other_claims(member.devices, claims[member.rank].uid)
        if others:
            first = min(f"{claim.namespace}/{claim.name}" for claim in others)
            message = f"{len(others)} devices on {member.kube_node} are still in claim {first}"
            status = set_condition(status, ConditionType.RUNNING, False, "DevicesBusy", message, now=view.now)
            return Decision(gang=gang, status=status)
    stage: list[Action] = [
        AllocateClaim(
            claim=claims[member.rank], node=member.kube_node, devices=member.devices, consumer=pods[member.rank]
        )
        for member in waiting
    ]
    # No status of its own: a write per gang for what lasts milliseconds.
    return Decision(gang=gang, stages=(stage,), status=status)


def _go_on(observed: Observed, hold: SlurmJob, status: GangStatus, view: FleetView) -> Decision:
    """Ungate what is still gated, together; give back a claim that an admin took away from a running pod."""
    gang, gated, strays = observed.gang, _ungate(observed), _unbound(observed)
    if not gated:
        strays = [pod for pod in strays if not _is_reserved_again(observed, pod)]
    if strays and (gated or _beyond_repair(observed, strays)):
        return _undo(gang, f"the claim of pod {strays[0].name} is not allocated and reserved for it", view)
    if strays:
        roster, ranks = build_roster(gang, hold, view), {pod.rank for pod in strays}
        if isinstance(roster, str):
            return Decision(gang=gang, status=status)
        return _allocate(observed, hold, [member for member in roster.members if member.rank in ranks], view, status)
    return Decision(gang=gang, stages=gated, status=_running(status, observed, view.now))


def _beyond_repair(observed: Observed, strays: Sequence[PodView]) -> bool:
    """Return whether a claim is gone, or not free to be allocated again for its own pod."""
    free = {claim.rank for claim in observed.claims if not claim.is_allocated and not claim.deleting}
    return any(pod.rank not in free for pod in strays)


def _is_reserved_again(observed: Observed, pod: PodView) -> bool:
    """Return whether kube-scheduler has taken the pod out of its claim because it could not bind it: it tries again."""
    return any(claim.rank == pod.rank and claim.is_allocated and not claim.reserved_for for claim in observed.claims)


def _unbound(observed: Observed) -> list[PodView]:
    """Return the pods without a claim for them; those that have ended have given theirs back."""
    bound = {claim.reserved_for for claim in observed.claims if claim.is_allocated}
    return [pod for pod in observed.pods if not pod.is_terminal and not pod.stopped and (pod.uid,) not in bound]


def _ungate(observed: Observed) -> tuple[list[Action], ...]:
    gated: list[Action] = [UngatePod(pod=pod) for pod in observed.pods if pod.gated and not pod.deleting]
    return (gated,) if gated else ()


def _running(status: GangStatus, observed: Observed, now: int) -> GangStatus:
    total = len(observed.pods)
    started = sum(1 for pod in observed.pods if pod.phase is PodPhase.RUNNING or pod.is_terminal)
    if started == total:
        return set_condition(status, ConditionType.RUNNING, True, "AllPodsStarted", f"{total} pods started", now=now)
    if status.is_true(ConditionType.RUNNING):
        return status
    message = f"{started} of {total} pods started"
    return set_condition(status, ConditionType.RUNNING, False, "StartingPods", message, now=now)


def _queued(
    gang: Gang, placed: Placed, blocked: Unplaceable | None, view: FleetView, *, slurm_reason: str = ""
) -> GangStatus:
    words = [f"pinned to {len(placed.nodes)} nodes ({placed.describe()})"]
    if blocked is not None:
        words.insert(0, blocked.message)
    if slurm_reason and slurm_reason != "None":
        words.append(f"Slurm: {slurm_reason}")
    reason = str(blocked.shortage) if blocked is not None else "HoldSubmitted"
    status = replace(gang.status, placement=placed.describe(), quality=_quality(gang, placed, view))
    return set_condition(status, ConditionType.ACCEPTED, True, reason, "; ".join(words), now=view.now)


def _quality(gang: Gang, placed: Placed, view: FleetView) -> str:
    if isinstance(gang.spec, SpecError) or not placed.nodes or not all(name in view.nodes for name in placed.nodes):
        return gang.status.quality
    largest = max((sum(node.gpus.values()) for node in view.total.values()), default=1)
    domains = [view.nodes[name].domains for name in placed.nodes]
    per_pod, links = gang.spec.role.gres.count, view.fleet.links
    return assess(placed, domains, gpus_per_pod=per_pod, gpus_per_node=largest, model=links).describe()


def _describe(view: FleetView, nodes: tuple[str, ...]) -> str:
    return Placed(nodes=nodes, pods_per_node=1, domains=_counts(view, nodes)).describe()


def _counts(view: FleetView, nodes: tuple[str, ...]) -> Mapping[str, int]:
    known = {name: view.nodes[name].domains for name in nodes if name in view.nodes}
    return count_domains(view.fleet.levels, known)


def _pseudo_job(request: HoldRequest, start: int) -> SlurmJob:
    """Return the job that ``request`` will be, for the timeline of the gangs behind it."""
    gres = tuple(Gres(name=part.name, type=part.type, count=part.count) for part in request.gres_per_node)
    end = min(start + request.time_limit_min * 60, NEVER)
    held = dict.fromkeys(request.nodes, gres)
    return SlurmJob(job_id=0, state=JobState.RUNNING, user=request.user, nodes=request.nodes, gres=held, end_time=end)
