"""I5: a device becomes free only after evidence that no pod runs on it.

Not seen from outside: a pod whose object is gone. Its claim is then reserved for nobody that exists (I7).
"""

from __future__ import annotations

from auditor.evidence import Evidence, Key, Pod
from auditor.telling import name_of, tell_claim, tell_holds, tell_job, tell_node, tell_places, tell_pod
from auditor.violation import Invariant, Violation


def check(evidence: Evidence) -> list[Violation]:
    """Return pods that may run on devices which somebody else could get, now or when their hold ends."""
    pods = [(key, pod) for key, members in sorted(evidence.pods_of.items()) for pod in members if evidence.may_run(pod)]
    found = [_unclaimed(evidence, key, pod) or _unheld(evidence, key, pod) for key, pod in pods]
    return [each for each in found if each is not None] + _unguarded(evidence, [pod for _, pod in pods])


def _unclaimed(evidence: Evidence, key: Key, pod: Pod) -> Violation | None:
    if any(claim.devices for claim in evidence.reserved(pod)):
        return None
    return Violation(
        invariant=Invariant.EVIDENCE,
        subject=f"pod {name_of(pod)}",
        sentence=f"pod {name_of(pod)} may run on {pod.node}, but its devices are in no allocated claim",
        slurm=tell_holds(evidence, key),
        kubernetes=(tell_pod(pod), *(tell_claim(claim) for claim in evidence.claims_of.get(key, ()))),
    )


def _unheld(evidence: Evidence, key: Key, pod: Pod) -> Violation | None:
    claims = evidence.reserved(pod)
    open_ = [place for claim in claims for place in evidence.uncovered(key, claim)]
    if not open_:
        return None
    node = open_[0].node
    return Violation(
        invariant=Invariant.EVIDENCE,
        subject=f"pod {name_of(pod)}",
        sentence=f"pod {name_of(pod)} may run on {tell_places(open_)}, neither held for it by Slurm nor fenced",
        slurm=(*tell_holds(evidence, key, node), tell_node(evidence.slurm_nodes.get(node), node)),
        kubernetes=(tell_pod(pod), *(tell_claim(claim) for claim in claims)),
    )


def _unguarded(evidence: Evidence, pods: list[Pod]) -> list[Violation]:
    """Return the holds whose epilog would not wait: their job id is not in the Extra of a node where their pods run."""
    running: dict[tuple[str, int], list[Pod]] = {}
    for pod in pods:
        kube_node = evidence.kube_nodes.get(pod.node)
        if kube_node is not None:
            running.setdefault((kube_node.slurm_name, pod.job_id), []).append(pod)
    return [
        Violation(
            invariant=Invariant.EVIDENCE,
            subject=f"node {name}, hold {job_id}",
            sentence=f"pods of hold {job_id} may run on {name}, whose Extra does not guard it",
            slurm=(tell_node(node, name), tell_job(evidence.jobs[job_id], name)),
            kubernetes=tuple(tell_pod(pod) for pod in members),
        )
        for (name, job_id), members in sorted(running.items())
        if job_id in evidence.hold_ids
        and (node := evidence.slurm_nodes.get(name)) is not None
        and node.has_slurmd
        and not node.is_fenced
        and str(job_id) not in node.guarded
    ]
