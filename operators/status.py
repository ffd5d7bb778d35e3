"""Statuses of our kinds as the API server stores them. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from auditor.report import headline
from bridge import wellknown
from bridge.accounting.devicemap import tracked_types
from bridge.lifecycle.actions import Decision
from bridge.lifecycle.brake import Brake
from bridge.lifecycle.fleetview import FleetView
from bridge.model.gang import Condition, Gang, GangStatus, HoldStatus, Phase
from bridge.model.hostlist import fold
from bridge.model.slurm import SlurmInfo, SlurmJob
from operators.audited import Audited
from operators.lease import Term

Object = dict[str, Any]

MAX_CLOSED = 64
"""Most entries that the Fleet lists of nodes out of service; with more, what admins wrote about each is left out."""
MAX_DETAILS = 10
"""Violations that are spelled out on the Fleet; ``gangbridge audit`` prints all of them."""


def timestamp(seconds: int | None) -> str | None:
    """Return seconds since the epoch as RFC 3339."""
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def gang_status(gang: Gang, status: GangStatus) -> Object:
    """Return the whole status of a GangJob; None in a merge patch removes what no longer holds."""
    hold, outcome = status.hold, status.outcome
    return {
        "phase": status.phase,
        "reason": status.reason,
        "message": status.message,
        "attempt": status.attempt,
        "restarts": status.restarts,
        "conditions": [_condition(condition, gang.generation) for condition in status.conditions],
        "outcome": outcome
        and {
            "attempt": outcome.attempt,
            "result": outcome.result,
            "exitCode": outcome.exit_code,
            "message": outcome.message[:1024],
        },
        "hold": _hold(hold) if hold else None,
        "placement": {"summary": status.placement, "quality": status.quality} if status.placement else None,
        "pods": status.pods,
        "readyPods": status.ready_pods,
        "gpus": status.gpus,
        "exitCode": status.exit_code,
        "startTime": timestamp(status.start_time),
        "completionTime": timestamp(status.completion_time),
        "estimatedStartTime": timestamp(status.estimated_start_time),
        "observedGeneration": status.observed_generation,
    }


def _hold(hold: HoldStatus) -> Object:
    return {
        "jobId": hold.job_id,
        "state": hold.state,
        "nodes": hold.nodes,
        "user": hold.user,
        "account": hold.account,
        "partition": hold.partition,
        "endTime": timestamp(hold.end_time),
    }


def _condition(condition: Condition, generation: int) -> Object:
    return {
        "type": condition.type,
        "status": "True" if condition.status else "False",
        "reason": condition.reason,
        "message": condition.message,
        "observedGeneration": generation,
        "lastTransitionTime": timestamp(condition.since),
    }


def mirror_status(job: SlurmJob) -> Object:
    """Return the status of the image of an sbatch job: squeue's columns in a GangJob's words."""
    gpus = sum(gres.count for held in job.gres.values() for gres in held if gres.name == "gpu")
    return {
        "phase": "Completing" if job.completing else _MIRROR_PHASES.get(job.state, "Queued"),
        "reason": job.reason if job.reason not in {"", "None"} else job.state,
        "attempt": job.restart_count + 1,
        "gpus": gpus,
        "pods": "-",
        "placement": {"summary": f"{len(job.nodes)} node{'' if len(job.nodes) == 1 else 's'}"} if job.nodes else None,
        "startTime": timestamp(job.start_time) if job.nodes else None,
        "estimatedStartTime": None if job.nodes else timestamp(job.start_time),
        "hold": {
            "jobId": job.job_id,
            "state": job.state,
            "nodes": fold(job.nodes or job.required_nodes),
            "name": job.name,
            "user": job.user,
            "account": job.account,
            "partition": job.partition,
            "qos": job.qos,
            "reason": job.reason,
            "submitTime": timestamp(job.submit_time),
            "endTime": timestamp(job.end_time),
        },
    }


_MIRROR_PHASES = {"RUNNING": "Running", "SUSPENDED": "Running", "PENDING": "Queued"}


def fleet_status(
    view: FleetView | None,
    decisions: Sequence[Decision],
    info: SlurmInfo | None,
    error: str,
    *,
    brake: Brake | None = None,
    audited: Audited | None = None,
    previous: Sequence[Object],
    now: int,
    leader: Term | None = None,
) -> Object:
    """Return the dashboard of the Fleet. While slurmctld is silent the last numbers stay and a condition says so.

    ``audited`` is the last word of the auditor, None before the first.
    ``previous`` are the conditions that were published last; ``now`` is in seconds since the epoch.
    """
    phases = Counter(str((decision.status or decision.gang.status).phase) for decision in decisions)
    conditions = [_reachable(view is not None, info, error)]
    conditions += [_topology(view), _braked(brake)] if view else []
    conditions += [_clean(audited)] if audited else []
    status: Object = {
        "conditions": _stamped(conditions, previous, now),
        "gangs": {
            "summary": ", ".join(f"{count} {phase.lower()}" for phase, count in sorted(phases.items())) or "none",
            # All of them: a merge patch keeps what it does not name, so a phase that nobody is in any more would stay.
            "phases": {str(phase): phases[phase] for phase in Phase},
        },
    }
    if leader is not None:
        since = timestamp(int(leader.since))
        status["leader"] = {"identity": leader.identity, "epoch": leader.epoch, "since": since}
    if audited is not None and audited.report is not None:
        found = audited.report.violations
        status |= {
            "violations": len(found),
            "violationDetails": [f"{each.invariant} {each.sentence}"[:1024] for each in found[:MAX_DETAILS]],
        }
    if view is None:
        return status
    if info is not None:
        status |= {"slurmVersion": info.version, "slurmCluster": info.cluster}
    usable = sum(node.is_usable for node in view.nodes.values())
    return status | {
        "nodes": f"{usable}/{len(view.nodes)}",
        "gpus": _gpus(view),
        "closed": _closed(view),
        "lastSyncTime": timestamp(now),
    }


def _stamped(conditions: Sequence[Object], previous: Sequence[Object], now: int) -> list[Object]:
    """Return all conditions that are known, each with the time at which its status last changed."""
    known = {condition["type"]: condition for condition in previous}
    for condition in conditions:
        before = known.get(condition["type"])
        is_new = before is None or before["status"] != condition["status"]
        since = timestamp(now) if is_new or before is None else before["lastTransitionTime"]
        known[condition["type"]] = condition | {"lastTransitionTime": since}
    return list(known.values())


def _reachable(ok: bool, info: SlurmInfo | None, error: str) -> Object:
    what = f"{info.adapter} adapter, Slurm {info.version}" if ok and info else error
    return {
        "type": "SlurmReachable",
        "status": "True" if ok else "False",
        "reason": "Answers" if ok else "NoAnswer",
        "message": what[:1024],
    }


def _braked(brake: Brake | None) -> Object:
    """Say what looks lost, and how an admin who knows better goes on."""
    release = f"kubectl annotate fleet NAME {wellknown.RELEASE_BRAKE}=$(date -u +%FT%TZ)"
    return {
        "type": "Brake",
        "status": "True" if brake else "False",
        "reason": "TooMuchLost" if brake else "NothingLost",
        "message": f"{brake.message}; if they are gone indeed: {release}" if brake else "",
    }


def _clean(audited: Audited) -> Object:
    report = audited.report
    if audited.error or report is None:
        return {"type": "Clean", "status": "Unknown", "reason": "NotRead", "message": audited.error[:1024]}
    return {
        "type": "Clean",
        "status": "True" if report.is_clean else "False",
        "reason": "NoViolations" if report.is_clean else "Violations",
        "message": headline(report),
    }


def _topology(view: FleetView) -> Object:
    """Say what is wrong with the topology: sources that disagree, nodes that nobody places."""
    problems = view.topology.problems
    return {
        "type": "TopologyConsistent",
        "status": "False" if problems else "True",
        "reason": "Problems" if problems else "Read",
        "message": "; ".join(problems)[:1024] or f"levels {', '.join(view.fleet.levels) or 'none'}",
    }


def _closed(view: FleetView) -> list[Object]:
    """Return the nodes that are out of service by reason, as host lists: 10 000 nodes are a few lines."""
    why = {name: (node.closed, node.detail[:256]) for name, node in view.nodes.items() if node.closed}
    why |= dict.fromkeys(view.unmatched, ("unknown to Slurm", ""))
    if len(set(why.values())) > MAX_CLOSED:
        why = {name: (reason, "") for name, (reason, _) in why.items()}
    groups: dict[tuple[str, str], list[str]] = {}
    for name, reason in sorted(why.items()):
        groups.setdefault(reason, []).append(name)
    return [
        {"reason": reason, "message": message, "nodes": _folded(tuple(names))}
        for (reason, message), names in sorted(groups.items())
    ]


@lru_cache(maxsize=4096)
def _folded(names: tuple[str, ...]) -> str:
    """Return the host list. Remembered: the dashboard is made anew every few seconds."""
    return fold(names)


def _gpus(view: FleetView) -> Object:
    total = free = pods = sbatch = out = 0
    for name, node in view.nodes.items():
        for index in tracked_types(node.slurm):
            total += 1
            job_id = view.ledger.slurm.get((name, index))
            if job_id is not None:
                job = view.slurm.jobs[job_id]
                is_hold = job.marker is not None and job.is_sealed
                pods, sbatch = pods + is_hold, sbatch + (not is_hold)
            elif node.is_usable:
                free += 1
            else:
                out += 1
    return {"total": total, "free": free, "pods": pods, "sbatch": sbatch, "outOfService": out}
