"""I2: an allocated gang claim has a live hold of its (uid, attempt) on its node, with exactly its indices.

A node that is fenced needs no hold: its claims are in quarantine. While an epilog runs slurmctld shows no indices; that
the hold is still on the node is then all that can be asked.
"""

from __future__ import annotations

from auditor.evidence import Claim, Evidence, Job, Key, Place
from auditor.telling import name_of, tell_claim, tell_holds, tell_job, tell_node, tell_places
from auditor.violation import Invariant, Violation


def check(evidence: Evidence) -> list[Violation]:
    """Return claims that no hold covers, and devices of running holds that no claim of theirs shows."""
    found: list[Violation] = []
    for key, claims in sorted(evidence.claims_of.items()):
        found += [each for claim in claims if (each := _uncovered(evidence, key, claim)) is not None]
    for key, jobs in sorted(evidence.holds.items()):
        found += [each for job in jobs if _is_started(evidence, key) for each in _unshown(evidence, key, job)]
    return found


def _uncovered(evidence: Evidence, key: Key, claim: Claim) -> Violation | None:
    open_ = evidence.uncovered(key, claim)
    if not open_:
        return None
    nodes, where = sorted({place.node for place in open_}), tell_places(open_)
    return Violation(
        invariant=Invariant.HOLD,
        subject=f"claim {name_of(claim)}",
        sentence=f"claim {name_of(claim)} has {where}, which no hold of its gang's attempt {key.attempt} holds",
        slurm=(
            *tell_holds(evidence, key, *nodes),
            *(tell_node(evidence.slurm_nodes.get(node), node) for node in nodes),
        ),
        kubernetes=(tell_claim(claim),),
    )


def _is_started(evidence: Evidence, key: Key) -> bool:
    """Return whether every pod was handed over and none of them is on its way out: then all claims are there."""
    gang, pods = evidence.gangs.get(key.uid), evidence.pods_of.get(key, ())
    is_going = gang is None or gang.is_deleting or any(pod.delete_by is not None for pod in pods)
    return bool(pods) and not is_going and all(evidence.may_run(pod) for pod in pods)


def _unshown(evidence: Evidence, key: Key, job: Job) -> list[Violation]:
    """Return the nodes where a running hold has devices that its gang's claims do not show: anybody could get them."""
    claims = evidence.claims_of.get(key, ())
    shown = {evidence.places.get(device) for claim in claims for device in claim.devices}
    held = {Place(node, index) for node, indices in job.indices.items() for index in indices}
    hidden = [place for place in held if place in evidence.devices and place not in shown]
    return [
        Violation(
            invariant=Invariant.HOLD,
            subject=f"job {job.job_id} on {node}",
            sentence=f"hold {job.job_id} has {tell_places(hidden, node)}, which no claim of its gang shows",
            slurm=(tell_job(job, node),),
            kubernetes=tuple(tell_claim(claim) for claim in claims) or (f"no claim of gang {key.uid}",),
        )
        for node in sorted({place.node for place in hidden})
    ]
