"""Reading both servers, and what of two readings is reported."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from auditor.audit import audit, read_servers
from auditor.errors import Unreadable
from auditor.evidence import Evidence
from auditor.rules import judge
from auditor.violation import Invariant, Violation, confirm
from tests.auditor.servers import Servers, served
from tests.auditor.world import HOLD, NOW, World


@pytest.fixture
def servers(tmp_path) -> Iterator[Servers]:
    with served(World(), tmp_path) as servers:
        yield servers


def read(servers: Servers) -> Evidence:
    return read_servers(str(servers.kubeconfig), servers.prefix)


def one_after_the_other(*worlds: World) -> tuple[Callable[[], Evidence], list[int]]:
    """Return what reads a world at each call, and the list of calls."""
    calls: list[int] = []

    def read() -> Evidence:
        calls.append(1)
        return worlds[len(calls) - 1].evidence()

    return read, calls


VIOLATION = Violation(
    invariant=Invariant.HOLD, subject="claim a/b", sentence="says", slurm=("no job",), kubernetes=("claim",)
)


@pytest.mark.parametrize(
    "changed",
    [
        {"invariant": Invariant.KEY},
        {"subject": "claim a/c"},
        {"slurm": ("job 1",)},
        {"kubernetes": ("claim, being deleted",)},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_what_is_not_the_same_in_both_readings_is_not_reported(changed):
    assert confirm([VIOLATION], [VIOLATION]) == (VIOLATION,)
    assert confirm([VIOLATION], [replace(VIOLATION, **changed)]) == ()
    assert confirm([VIOLATION], []) == ()
    assert confirm([], [VIOLATION]) == ()


def test_a_sound_fleet_is_read_once():
    read, calls = one_after_the_other(World())
    assert audit(read, pause_s=0).is_clean
    assert len(calls) == 1


def test_what_stays_is_reported_after_a_second_reading():
    broken = World()
    broken.jobs.pop(HOLD)
    read, calls = one_after_the_other(broken, broken)
    report = audit(read, pause_s=0)
    assert not report.is_clean
    assert report.violations == judge(broken.evidence())
    assert len(calls) == 2


def test_what_both_servers_never_said_together_is_not_reported():
    """Kubernetes was read before the gang ended, Slurm after it."""
    torn, after = World(), World()
    torn.jobs.pop(HOLD)
    after.without_gang()
    read, calls = one_after_the_other(torn, after)
    assert audit(read, pause_s=0).is_clean
    assert len(calls) == 2


def test_what_moves_while_it_is_broken_is_for_the_next_audit():
    before, after = World(), World()
    for world in (before, after):
        world.jobs.pop(HOLD)
    after.pod(0)["metadata"]["deletionTimestamp"] = "2027-01-15T08:00:30Z"
    read, _ = one_after_the_other(before, after)
    assert [each.subject for each in audit(read, pause_s=0).violations if "llm-1-0" in each.subject] == [
        "claim research/llm-1-0-gpu"
    ]


def test_both_servers_are_read_page_by_page(servers):
    evidence = read(servers)
    assert evidence == servers.world.evidence()
    assert any("continue=2" in path for path in servers.asked if "resourceclaims" in path)


def test_times_are_those_of_each_servers_own_clock(servers):
    servers.world.now, servers.world.kube_now = NOW + 100, NOW - 100
    servers.refresh()
    evidence = read(servers)
    assert (evidence.slurm_now, evidence.kube_now) == (NOW + 100, NOW - 100)


def test_an_api_server_that_refuses_a_list_is_named_with_its_words(servers):
    servers.refuse = ("resourceclaims", 403)
    with pytest.raises(Unreadable, match=r"Kubernetes could not be read: GET .*claims: 403: no resourceclaims for you"):
        read(servers)


def test_an_api_server_that_is_not_there_is_named(servers, tmp_path):
    with served(World(), tmp_path) as gone:
        kubeconfig = gone.kubeconfig
    with pytest.raises(Unreadable, match="Kubernetes could not be read: GET /api/v1/pods: "):
        read_servers(str(kubeconfig), servers.prefix)


def test_a_kubeconfig_that_is_not_there_is_named(servers, tmp_path):
    with pytest.raises(Unreadable, match=r"Kubernetes could not be read: .*nowhere"):
        read_servers(str(tmp_path / "nowhere"), servers.prefix)


@pytest.mark.parametrize(
    ("prefix", "why"),
    [
        (
            ["sh", "-c", "echo 'slurm_load_jobs error: Unable to contact slurm controller' >&2; exit 1"],
            "squeue --all --states=all --json ended with status 1: slurm_load_jobs error: Unable to contact",
        ),
        (["sh", "-c", "echo '{'"], "what squeue --all --states=all --json said cannot be understood"),
        (["sh", "-c", "echo '{}'"], "what squeue --all --states=all --json said cannot be understood"),
        (["/nowhere/slurm-exec"], "/nowhere/slurm-exec cannot be started: No such file or directory"),
    ],
    ids=["fails", "is no JSON", "is no answer", "is not there"],
)
def test_a_slurm_that_cannot_be_read_is_named_with_the_reason(servers, prefix, why):
    with pytest.raises(Unreadable, match=f"^Slurm could not be read: {why}"):
        read_servers(str(servers.kubeconfig), prefix)
