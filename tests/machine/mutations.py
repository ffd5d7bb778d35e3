"""The safeguards, and for each what takes it away: the machine has to notice every one of them."""

from __future__ import annotations

from dataclasses import dataclass

EVIDENCE = "bridge/lifecycle/evidence.py"
UNDO = "bridge/lifecycle/undo.py"
FENCE = "bridge/lifecycle/fence.py"
GUARD = "bridge/lifecycle/guard.py"
END = "bridge/lifecycle/end.py"
START = "bridge/lifecycle/start.py"
OBSERVED = "bridge/lifecycle/observed.py"
MIRROR = "bridge/lifecycle/mirror.py"
APPLY = "operators/apply.py"
LOOP = "operators/loop.py"

STARTS = ("flow", "create_gang", "delete_gang", "disturb_slurm")
ENDS = ("go_on", "create_gang", "containers_exit", "meddle_with_hold", "disturb", "strike", "delete_gang")
MEDDLING = ("flow", "create_gang", "kubernetes_settles", "meddle_with_pod", "delete_gang", "lag")
LOSS = ("go_on", "flow", "create_gang", "kubernetes", "kubelet_fares", "delete_gang")
FENCES = ("go_on", "create_gang", "meddle_with_hold", "kubelet_fares", "calm")
NODES = ("go_on", "create_gang", "node_fares")
OTHERS = ("go_on", "create_gang", "other_service", "calm")
LEADERS = ("flow", "go_on", "create_gang", "leader_falls", "take_over", "thaw", "pass_time", "lag")
DREAMS = ("go_on", "controller_dreams")
STRAYS = ("go_on", "flow", "create_gang", "stray_pod", "delete_gang")
MIRRORS = ("go_on", "sbatch", "kubelet_fares", "calm")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutation:
    """``changes`` are exact replacements (file, old text, new text); each old text stands there exactly once.

    Where a safeguard matters only in a rare situation, ``among`` are the rules that lead to it; empty means all. Where
    these have to come in one order, ``life`` is a directed life (``lives``).
    """

    safeguard: str
    changes: tuple[tuple[str, str, str], ...]
    among: tuple[str, ...] = ()
    life: str = ""


def _one(safeguard: str, path: str, old: str, new: str, *, among: tuple[str, ...] = (), life: str = "") -> Mutation:
    return Mutation(safeguard=safeguard, changes=((path, old, new),), among=among, life=life)


MUTATIONS = (
    _one(
        "a claim is freed on evidence of its pod's end",
        EVIDENCE,
        "return pod is not None and self.is_stopped(pod)\n",
        "return pod is not None and (pod.deleting or self.is_stopped(pod))\n",
    ),
    _one(
        "a claim without its pod stays until an admin vouches",
        EVIDENCE,
        "        return claim.node in self.fenced\n",
        "        return True\n",
    ),
    Mutation(
        safeguard="a pod made anew is no evidence for the one before",
        changes=(
            (
                EVIDENCE,
                "return pod is not None and (pod.uid in claim.reserved_for or not claim.reserved_for)",
                "return pod is not None",
            ),
            (OBSERVED, "claim.is_allocated and pods.isdisjoint(claim.reserved_for)", "False"),
        ),
        life="pod_made_anew",
    ),
    _one(
        "what pod garbage collection says is no evidence",
        "operators/kube/stopped.py",
        " or _is_hearsay(status)",
        "",
        life="machine_written_off",
    ),
    _one(
        "a pod that no node has may still be bound",
        "operators/kube/stopped.py",
        'return "deletionTimestamp" in pod["metadata"]',
        "return True",
        life="start_unseen",
    ),
    _one(
        "a finalizer keeps the pod until its end is seen",
        "operators/kube/pods.py",
        'pod["metadata"]["finalizers"] = [wellknown.FINALIZER]',
        'pod["metadata"]["finalizers"] = []',
        among=MEDDLING,
    ),
    _one(
        "the pod is let go after its claim is freed",
        UNDO,
        "stages = tuple(stage for stage in (first, last) if stage)",
        "stages = tuple(stage for stage in (last, first) if stage)",
        among=ENDS,
    ),
    _one(
        "pods and claims go before the hold",
        END,
        """    status = _explained(_completing(gang.status, outcome, now), undoing)
    if not undoing.is_over:
        return Decision(gang=gang, stages=undoing.stages, status=status)
""",
        """    status = _explained(_completing(gang.status, outcome, now), undoing)
    if not undoing.is_over:
        ends = _end_holds(observed, _live_holds(observed), outcome, context)
        return Decision(gang=gang, stages=(*ends, *undoing.stages), status=status)
""",
    ),
    _one(
        "a hold with something unproven ends after the fence is up",
        END,
        "            if not node.is_closed:\n                return False\n",
        "            continue\n",
        among=LOSS,
    ),
    _one(
        "no claim is allocated before its node is guarded",
        START,
        "if missing := unguarded(hold, view.slurm.nodes):",
        "if missing := unguarded(hold, {}):",
        life="node_taken_while_waiting",
    ),
    _one(
        "a node is guarded until the pods there are proven gone",
        GUARD,
        "if job.job_id in current or (name in left.bound and not is_fenced):",
        "if job.job_id in current:",
        life="job_waits",
    ),
    _one(
        "a node with something unproven and no hold is drained",
        FENCE,
        "                drained.setdefault(name, _reason(key, observed))\n",
        "                pass\n",
        among=FENCES,
    ),
    _one(
        "a fence is lifted on evidence",
        FENCE,
        "for name in managed - fenced\n",
        "for name in managed\n",
        among=FENCES,
    ),
    _one(
        "others' drains are left alone",
        FENCE,
        "is not None and is_ours(node)",
        "is not None and node.is_drained",
        among=NODES,
    ),
    _one(
        "others' notes in Extra are left alone",
        GUARD,
        "if node is None or node.is_external or is_foreign(node):",
        "if node is None or node.is_external:",
        among=NODES,
    ),
    _one(
        "other clusters' holds are left alone",
        OBSERVED,
        "if marker is None or marker.cluster != snapshot.cluster:",
        "if marker is None:",
        among=OTHERS,
    ),
    _one(
        "a delete names the uid",
        APPLY,
        "self._client.delete(resource, name, namespace=namespace, uid=uid)",
        "self._client.delete(resource, name, namespace=namespace)",
        life="name_is_taken",
    ),
    _one(
        "after a submission without an answer the bridge looks first",
        LOOP,
        "            self._hold_back(gang.uid, AMBIGUOUS_S)\n            self._poller.lost(str(error))\n",
        "            self._applier.touched_slurm = False\n            self.wake()\n",
        life="submission_unanswered",
    ),
    _one(
        "of two holds with one key the younger goes",
        END,
        "    return (duplicates,) if duplicates else None\n",
        "    return None\n",
        life="hold_arrives_late",
    ),
    _one(
        "unknown is not gone",
        "operators/slurm_poller.py",
        "self.view, self.error = None, str(error)\n            # A controller",
        "self.view, self.error = SlurmView(jobs={}, nodes={}, taken_at=0.0), str(error)\n            # A controller",
        life="slurm_falls_silent",
    ),
    Mutation(
        safeguard="a new leader reads everything anew, and gives a hold without a gang time",
        changes=(
            (
                LOOP,
                "                await self._observer.read_since(term.taken_at)\n",
                "                await asyncio.sleep(0)\n",
            ),
            (
                "bridge/lifecycle/orphans.py",
                "old = snapshot.now - (job.submit_time or snapshot.now) >= GRACE_S",
                "old = True",
            ),
        ),
        among=LEADERS,
    ),
    _one(
        "too much lost at once is not believed",
        "bridge/lifecycle/brake.py",
        "return lost >= limits.min_lost and lost * 100 > limits.max_lost_percent * total",
        "return False",
        among=DREAMS,
    ),
    _one(
        "no device that another claim has is allocated",
        START,
        "        if others:\n",
        "        if not view:\n",
        among=STRAYS,
    ),
    Mutation(
        safeguard="all claims are allocated before any pod is ungated",
        changes=(
            (START, "    if waiting:\n        return _allocate(observed, hold, waiting, view, status)\n", ""),
            (
                START,
                "gang, gated, strays = observed.gang, _ungate(observed), _unbound(observed)\n",
                "gang, gated, strays = observed.gang, _ungate(observed), []\n",
            ),
        ),
        among=STARTS,
    ),
    _one(
        "names carry the attempt",
        "bridge/lifecycle/names.py",
        "-{gang.status.attempt}-{_digest(gang.uid)}-{rank}",
        "-{_digest(gang.uid)}-{rank}",
        among=ENDS,
    ),
    _one(
        "claims are protected from deletion",
        "operators/kube/claims.py",
        'claim["metadata"]["finalizers"] = [wellknown.DELETE_PROTECTION]\n',
        'claim["metadata"]["finalizers"] = []\n',
    ),
    _one(
        "a GangJob is kept while anything of it is left",
        END,
        "if live or undoing.left:",
        "if live:",
        among=LOSS,
    ),
    _one(
        "a mirror's claims stay while its devices cannot be read",
        MIRROR,
        'if claim.name not in wanted and claim.name.rpartition("-")[0] not in unsure',
        "if claim.name not in wanted",
        among=MIRRORS,
    ),
    _one(
        "a replica acts only while it can prove that it leads",
        "operators/leader.py",
        "return self._clock() < self._acts_until",
        "return self.term is not None",
        among=LEADERS,
    ),
    _one(
        "the same snapshot gives the same plan",
        "bridge/lifecycle/inventory.py",
        "for kube in sorted(snapshot.nodes, key=lambda node: node.name):",
        "for kube in snapshot.nodes:",
    ),
)
