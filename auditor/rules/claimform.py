"""I7: allocated claims of gangbridge are well formed, and reserved for exactly one consumer that exists.

Not seen from outside: that a claim's name was used before. The API server allows no two at a time.
"""

from __future__ import annotations

from collections.abc import Iterator

from auditor.evidence import Claim, Consumer, Evidence
from auditor.telling import name_of, tell_claim, tell_holds, tell_job
from auditor.violation import Invariant, Violation

MAX_DEVICES = 32
"""Most devices of one allocation (resource.k8s.io/v1, AllocationResultsMaxSize)."""


def check(evidence: Evidence) -> list[Violation]:
    """Return the claims with everything that is wrong in their form."""
    return [
        Violation(
            invariant=Invariant.CLAIM_FORM,
            subject=f"claim {name_of(claim)}",
            sentence=f"claim {name_of(claim)} {' and '.join(problems)}",
            slurm=_owner(evidence, claim),
            kubernetes=(tell_claim(claim),),
        )
        for claim in sorted(evidence.claims, key=name_of)
        if claim.is_ours
        and claim.is_allocated
        and (problems := [*_form(evidence, claim), *_consumers(evidence, claim)])
    ]


def _form(evidence: Evidence, claim: Claim) -> Iterator[str]:
    if not 0 < len(claim.devices) <= MAX_DEVICES:
        yield f"has {len(claim.devices)} devices, not 1 to {MAX_DEVICES}"
    nodes = {evidence.places[device].node for device in claim.devices if device in evidence.places}
    here = evidence.kube_nodes.get(claim.node)
    if not claim.node:
        yield "does not select exactly one node by name"
    elif nodes - {here.slurm_name if here else ""}:
        yield f"selects node {claim.node}, but has devices of {', '.join(sorted(nodes))}"
    if not claim.is_protected:
        yield "lacks the finalizer resource.kubernetes.io/delete-protection"
    if not claim.has_timestamp:
        yield "lacks allocationTimestamp"


def _consumers(evidence: Evidence, claim: Claim) -> Iterator[str]:
    if len(claim.reserved_for) != 1:
        yield f"is reserved for {len(claim.reserved_for)} consumers, not one"
        return
    (consumer,) = claim.reserved_for
    if consumer.resource == "gangjobs" and claim.job_id:
        if consumer.uid not in evidence.mirrors:
            yield f"is reserved for mirror {consumer.name}, which does not exist"
    elif consumer.resource == "pods" and claim.key is not None:
        yield from _pod(evidence, claim, consumer)
    else:
        yield f"is reserved for {consumer.resource}/{consumer.name}, which is neither its pod nor its mirror"


def _pod(evidence: Evidence, claim: Claim, consumer: Consumer) -> Iterator[str]:
    key = claim.key
    pods = evidence.pods_of.get(key, ()) if key is not None else ()
    node = evidence.kube_nodes.get(claim.node)
    is_quarantined = node is not None and evidence.is_fenced(node.slurm_name)
    if all(pod.uid != consumer.uid for pod in pods) and not is_quarantined:
        yield f"is reserved for pod {consumer.name}, which is gone without evidence or is not of its gang's attempt"


def _owner(evidence: Evidence, claim: Claim) -> tuple[str, ...]:
    if claim.key is not None:
        return tell_holds(evidence, claim.key)
    job = evidence.jobs.get(claim.job_id)
    return (tell_job(job) if job else f"no job {claim.job_id}",)
