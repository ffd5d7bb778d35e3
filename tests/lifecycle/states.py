"""Any snapshot at all: two gangs somewhere in their lives, and then some things about them and the fleet made wrong.

Everything comes from one random number generator, so a seed names a snapshot.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from bridge.errors import SpecError
from bridge.model.fleet import FleetSpec, Mode
from bridge.model.gang import Condition, ConditionType, Gang, GangStatus, HoldStatus, Outcome, Result
from bridge.model.gres import Gres
from bridge.model.hold import GangKey, Marker
from bridge.model.kube import ClaimView, PodPhase, PodView
from bridge.model.slurm import JobState, SlurmJob
from bridge.model.snapshot import Snapshot
from tests.builders import (
    NOW,
    claim,
    devices,
    fleet,
    foreign_claim,
    gang,
    gpus,
    hold,
    job,
    kube_node,
    mirror,
    mirror_claim,
    node,
    pod,
    pool,
    queue,
    snapshot,
)

NODES = ("n1", "n2", "n3")
SIZE = 4
"""GPUs of a node."""
PODS = 2
SHARE = {"first": (0, 1), "second": (2, 3)}
"""The indices that each gang has on its nodes."""


@dataclass
class Scene:
    """One gang and what is outside of it; mutations change it in place."""

    gang: Gang
    random: Random
    holds: list[SlurmJob] = field(default_factory=list)
    pods: list[PodView] = field(default_factory=list)
    claims: list[ClaimView] = field(default_factory=list)

    @property
    def indices(self) -> tuple[int, ...]:
        return SHARE[self.gang.name]

    def some(self, values: list[Any]) -> list[int]:
        """Return the positions of some of ``values``."""
        return [position for position in range(len(values)) if self.random.random() < 0.5]

    def change(self, values: list[Any], **changes: Any) -> None:
        for position in self.some(values):
            values[position] = replace(values[position], **changes)

    def status(self, **changes: Any) -> None:
        self.gang = replace(self.gang, status=replace(self.gang.status, **changes))

    def condition(self, type_: ConditionType, value: bool, reason: str) -> None:
        status = self.gang.status.with_condition(Condition(type=type_, status=value, reason=reason, since=NOW - 60))
        self.gang = replace(self.gang, status=status)


def scene(random: Random, name: str, job_id: int) -> Scene:
    """Return a gang at a random step of its life, all in order."""
    owner = gang(
        name,
        replicas=PODS,
        gres=random.choice(["gpu:h100:2", "gpu:h100:2", "gpu:2"]),
        pods_per_node=1,
        status=GangStatus(attempt=random.choice([1, 2])),
        max_restarts=random.choice([0, 1]),
        required_level=random.choice([None, None, "rack"]),
    )
    made, step = Scene(owner, random), random.randrange(8)
    where = sorted(random.sample(NODES, PODS))
    if step >= 1:
        made.condition(ConditionType.ACCEPTED, True, "HoldSubmitted")
        pending = hold(owner, job_id, JobState.PENDING, required_nodes=tuple(where), submit_time=NOW - 50)
        made.holds = [pending]
        made.status(hold=HoldStatus(job_id=job_id, state="PENDING"))
    if step >= 2:
        made.holds = [hold(owner, job_id, on=dict.fromkeys(where, made.indices))]
        made.condition(ConditionType.ALLOCATED, True, "HoldRunning")
    if step >= 3:
        made.pods = [pod(owner, rank, on=name, gated=True) for rank, name in enumerate(where)]
        made.claims = [claim(owner, rank) for rank in range(PODS)]
    if step >= 4:
        made.claims = [claim(owner, rank, on=(name, made.indices)) for rank, name in enumerate(where)]
    if step >= 5:
        made.pods = [replace(each, gated=False, phase=PodPhase.RUNNING) for each in made.pods]
        made.condition(ConditionType.RUNNING, True, "AllPodsStarted")
    if step >= 6:
        made.pods = [replace(each, phase=PodPhase.SUCCEEDED) for each in made.pods]
    if step >= 7:
        made.status(outcome=Outcome(attempt=owner.status.attempt, result=random.choice(list(Result)), exit_code=1))
        made.claims = []
    return made


def _duplicate_hold(made: Scene) -> None:
    attempt = made.random.choice([1, 2])
    key = GangKey(uid=made.gang.uid, attempt=attempt)
    marker = Marker(key=key, namespace=made.gang.namespace, name=made.gang.name)
    state = made.random.choice(list(JobState))
    on = {made.random.choice(NODES): made.indices}
    number = made.random.choice([1, 2, 15, 16]) + 2 * (made.gang.name == "second")
    made.holds.append(hold(made.gang, number, state, on=on, marker=marker, completing=made.random.random() < 0.2))


def _stray_pods(made: Scene) -> None:
    old = with_attempt(made.gang, made.random.choice([1, 2]))
    made.pods += [pod(old, rank, on=made.random.choice(NODES)) for rank in (0, 5)]


def _stray_claims(made: Scene) -> None:
    old = with_attempt(made.gang, made.random.choice([1, 2]))
    made.claims += [claim(old, rank, on=(made.random.choice(NODES), made.indices)) for rank in (0, 5)]


def with_attempt(owner: Gang, attempt: int) -> Gang:
    return replace(owner, status=replace(owner.status, attempt=attempt))


MUTATIONS: tuple[Callable[[Scene], None], ...] = (
    lambda made: made.change(made.pods, gated=True, phase=PodPhase.PENDING),
    lambda made: made.change(made.pods, gated=False),
    lambda made: made.change(made.pods, deleting=True),
    lambda made: made.change(made.pods, node=made.random.choice(NODES)),
    lambda made: made.change(made.pods, phase=PodPhase.FAILED, exit_code=made.random.choice([None, 3]), gated=False),
    lambda made: made.change(made.pods, phase=PodPhase.SUCCEEDED, gated=False),
    lambda made: made.change(made.pods, phase=PodPhase.UNKNOWN),
    lambda made: setattr(made, "pods", [replace(each, uid=f"uid-new-{each.name}") for each in made.pods]),
    lambda made: made.pods.__delitem__(slice(0, 1)),
    lambda made: made.change(made.claims, devices=(), reserved_for=()),
    lambda made: made.change(made.claims, reserved_for=("uid-stranger",)),
    lambda made: made.change(made.claims, reserved_for=()),
    lambda made: made.change(made.claims, deleting=True),
    lambda made: made.change(made.claims, devices=devices(made.random.choice(NODES), made.indices)),
    lambda made: made.claims.__delitem__(slice(0, 1)),
    lambda made: made.change(made.holds, state=made.random.choice(list(JobState))),
    lambda made: made.change(made.holds, state=JobState.PENDING, nodes=(), gres={}),
    lambda made: made.change(made.holds, completing=True, gres=dict.fromkeys(NODES, ())),
    lambda made: made.change(made.holds, gres={name: gpus(made.indices[:1]) for name in NODES}),
    lambda made: made.change(made.holds, nodes=("n1", "gone")),
    lambda made: made.change(made.holds, is_sealed=False, user=made.random.choice(["alice", "mallory"])),
    lambda made: made.change(made.holds, submit_time=None, required_nodes=()),
    lambda made: made.holds.clear(),
    _duplicate_hold,
    _stray_pods,
    _stray_claims,
    lambda made: made.status(outcome=Outcome(attempt=1, result=made.random.choice(list(Result)))),
    lambda made: made.status(outcome=None),
    lambda made: made.status(hold=None),
    lambda made: made.status(restarts=1),
    lambda made: made.condition(ConditionType.FINISHED, True, "Succeeded"),
    lambda made: made.condition(ConditionType.ACCEPTED, False, "PodRejected"),
    lambda made: setattr(made, "gang", replace(made.gang, deleting=True)),
    lambda made: setattr(made, "gang", replace(made.gang, deleting=True)),
    lambda made: setattr(made, "gang", replace(made.gang, has_finalizer=False)),
    lambda made: setattr(made, "gang", replace(made.gang, spec=SpecError("spec.roles", "has 2 roles"))),
)


def _users(random: Random) -> list[SlurmJob]:
    found = []
    for job_id in range(20, 20 + random.randrange(3)):
        on = {name: random.sample(range(SIZE), random.randrange(SIZE)) for name in random.sample(NODES, 2)}
        found.append(job(job_id, random.choice(list(JobState)), on=on, completing=random.random() < 0.3))
    return found


def _fleet(random: Random) -> FleetSpec | None:
    return random.choice([fleet()] * 8 + [fleet(mode=Mode.OBSERVE), None])


def any_snapshot(seed: int, *, silent: bool | None = None) -> Snapshot:
    """Return the snapshot of ``seed``. The indices of a node belong to one job at a time, as slurmctld has it."""
    random = Random(seed)  # noqa: S311
    scenes = [scene(random, "first", 5), scene(random, "second", 7)]
    for made in scenes:
        for mutation in random.choices(MUTATIONS, k=random.randrange(4)):
            mutation(made)
    users = _users(random)
    claims = [each for made in scenes for each in made.claims]
    claims += [
        mirror_claim(each, name, random.choice([(), (0,)])) for each in users for name in random.sample(NODES, 1)
    ]
    if random.random() < 0.2:
        claims.append(foreign_claim("theirs", devices(random.choice(NODES), random.sample(range(SIZE), 2))))
    open_states = [("IDLE",), ("MIXED",), ("ALLOCATED",)] * 3
    states = [*open_states, ("DOWN",), ("IDLE", "COMPLETING"), ("IDLE", "DRAIN")]
    counted = (Gres(name="gpu", type="h100", count=SIZE),)
    gres = [gpus(range(SIZE))] * 20 + [counted, ()]
    jobs = _apart([*(each for made in scenes for each in made.holds), *users])
    return snapshot(
        [node(name, states=random.choice(states), gres=random.choice(gres)) for name in NODES],
        jobs=jobs,
        silent=random.random() < 0.1 if silent is None else silent,
        fleet=_fleet(random),
        queues=random.choice([{"gpu": queue()}] * 9 + [{}]),
        gangs=tuple(made.gang for made in scenes if random.random() < 0.9),
        mirrors=tuple(mirror(each) for each in users if random.random() < 0.7),
        pods=tuple({each.name: each for made in scenes for each in made.pods}.values()),
        claims=tuple({each.name: each for each in claims}.values()),
        services=frozenset((made.gang.namespace, made.gang.uid) for made in scenes if random.random() < 0.8),
        nodes=tuple(kube_node(name, ready=random.random() < 0.95) for name in NODES if random.random() < 0.97),
        pools=tuple(pool(name, count=SIZE) for name in NODES if random.random() < 0.97),
        held_back=frozenset({scenes[0].gang.uid}) if random.random() < 0.1 else frozenset(),
    )


def _apart(jobs: list[SlurmJob]) -> list[SlurmJob]:
    """Return the jobs with every index left to the first job that holds it; of two jobs of one id the first."""
    taken: set[tuple[str, int]] = set()
    found: dict[int, SlurmJob] = {}
    for each in jobs:
        gres = {}
        for name, held in each.gres.items():
            own = [index for item in held for index in item.indices or () if (name, index) not in taken]
            gres[name] = gpus(own) if own else ()
            if each.holds_devices:
                taken |= {(name, index) for index in own}
        found.setdefault(each.job_id, replace(each, gres=gres))
    return list(found.values())


def shuffled(before: Snapshot, random: Random) -> Snapshot:
    """Return the same snapshot with everything in another order."""

    def mixed(values: Any) -> tuple[Any, ...]:
        return tuple(random.sample(list(values), len(values)))

    fields = ("gangs", "mirrors", "pods", "claims", "nodes", "pools")
    changed = {name: mixed(getattr(before, name)) for name in fields}
    seen = before.slurm
    if seen is not None:
        seen = replace(seen, jobs=dict(mixed(seen.jobs.items())), nodes=dict(mixed(seen.nodes.items())))
    return replace(before, slurm=seen, queues=dict(mixed(before.queues.items())), **changed)
