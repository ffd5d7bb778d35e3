"""What a person should know about an answer: what could not be read, and how old Slurm's side of it is. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from operators.gangctl.facts import Facts, Objects, newest
from operators.kube.resources import FLEETS, GANGJOBS, NODES, PODS, RESOURCECLAIMS, RESOURCESLICES

ROLE = "gangbridge-fleet-view"
"""The ClusterRole that lets a user read what the answers are made of."""

_MISSING = {
    NODES.plural: "names and conditions of nodes are missing",
    RESOURCESLICES.plural: "devices that nobody holds are missing",
    RESOURCECLAIMS.plural: "a device that none of them holds is shown as unknown",
    FLEETS.plural: "nodes that are out of service in Slurm are shown as if they were not",
}


def notes(objects: Objects, facts: Facts) -> list[str]:
    """Return a sentence for everything that makes the answer less than the whole truth."""
    found = [
        f"you may not read {plural}{_elsewhere(facts.seen[plural])}: {what} (ClusterRole {ROLE})"
        for plural, what in _MISSING.items()
        if plural in facts.seen
    ]
    hidden = sorted(
        {held.namespace for held in facts.holdings if held.gang and not facts.sees(PODS.plural, held.namespace)}
    )
    if hidden:
        found.append(
            f"you may not read pods in {', '.join(hidden)}: quarantined devices there are shown as held by pods"
        )
    unknown = sorted(
        {
            held.namespace
            for held in facts.holdings
            if held.owner_uid and not facts.sees(GANGJOBS.plural, held.namespace)
        }
    )
    if unknown:
        found.append(f"you may not read gangjobs in {', '.join(unknown)}: users and ends of time limits are missing")
    return [*found, *_slurm(objects, facts), *_incomplete(objects)]


def _elsewhere(namespaces: Iterable[str]) -> str:
    return f" outside of {', '.join(sorted(namespaces))}" if namespaces else ""


def _slurm(objects: Objects, facts: Facts) -> Iterable[str]:
    if not objects.fleets and FLEETS.plural not in facts.seen:
        yield "there is no Fleet: nothing is known of Slurm"
    for fleet in objects.fleets:
        status = fleet.get("status") or {}
        for condition in status.get("conditions", ()):
            if condition["type"] == "SlurmReachable" and condition["status"] != "True":
                yield f"slurmctld is silent: Slurm's side is as of {status.get('lastSyncTime', 'never')}"


def _incomplete(objects: Objects) -> Iterable[str]:
    for (driver, pool), parts in sorted(newest(objects.slices).items()):
        count = parts[0]["spec"]["pool"]["resourceSliceCount"]
        if count != len(parts):
            yield f"pool {pool} of {driver} shows {len(parts)} of {count} slices: there are more devices than listed"
