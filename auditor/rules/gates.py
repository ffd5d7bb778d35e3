"""I4: a gang's pods are ungated only if every member's claim is allocated and reserved for it.

Not seen from outside: a member whose pod does not exist any more. A member that is proven stopped has given its claim
back.
"""

from __future__ import annotations

from auditor.evidence import Evidence, Key, Pod
from auditor.telling import name_of, tell_claim, tell_holds, tell_pod
from auditor.violation import Invariant, Violation


def check(evidence: Evidence) -> list[Violation]:
    """Return the members without a claim of gangs of which any pod was handed to kube-scheduler."""
    return [
        _violation(evidence, key, pod, next(each for each in pods if not each.is_gated))
        for key, pods in sorted(evidence.pods_of.items())
        if any(not pod.is_gated for pod in pods)
        for pod in pods
        if not pod.is_stopped and not evidence.reserved(pod) and (not pod.node or evidence.may_run(pod))
    ]


def _violation(evidence: Evidence, key: Key, pod: Pod, ungated: Pod) -> Violation:
    return Violation(
        invariant=Invariant.GATE,
        subject=f"pod {name_of(pod)}",
        sentence=f"pod {name_of(pod)} has no allocated claim, and its gang was started (pod {name_of(ungated)})",
        slurm=tell_holds(evidence, key),
        kubernetes=(tell_pod(pod), *(tell_claim(claim) for claim in evidence.claims_of.get(key, ()))),
    )
