"""Servers for the tests of the Kubernetes side: the fake always, a real API server where its binaries are.

Tests that need the real one alone are not collected without it.
"""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bridge import wellknown
from operators.kube.claims import build_mirror_claim
from operators.kube.client import KubeClient
from tests.kube.builders import gangjob, pod
from tests.kube.fakeapi import FakeApi
from tests.kube.realapi import RealApi, binaries

ROOT = Path(__file__).parents[2]
SERVERS = ["fake", "real"] if binaries() else ["fake"]
collect_ignore = (
    [] if binaries() else ["test_crd_rules.py", "test_policies.py", "test_components.py", "test_user_rights.py"]
)

_names = itertools.count(1)


@pytest.fixture
async def fake() -> AsyncIterator[FakeApi]:
    async with FakeApi(bookmark_s=0.05) as api:
        yield api


@pytest.fixture
async def client(fake: FakeApi) -> AsyncIterator[KubeClient]:
    async with KubeClient(fake.connection(), deadline_s=5) as client:
        yield client


@contextmanager
def prepared(state: Path) -> Iterator[RealApi]:
    """A real API server with the project's kinds, rights and policies."""
    folder = binaries()
    assert folder, "etcd and the control plane are needed"
    api = RealApi(folder, state)
    api.start()
    try:
        for part in ("crds", "operators/manifests/access"):
            applied = api.kubectl("apply", "--server-side", "-k", str(ROOT / part))
            assert applied.returncode == 0, applied.stderr
        _wait_for_policies(api)
        yield api
    finally:
        api.stop()


@pytest.fixture(scope="session")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealApi]:
    """The server that most tests share; nothing acts on it but they."""
    with prepared(tmp_path_factory.mktemp("kube")) as api:
        yield api


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealApi]:
    """A server with kube-scheduler and the resource claim controller, but without kubelets."""
    with prepared(tmp_path_factory.mktemp("cluster")) as api:
        api.start_components()
        yield api


@pytest.fixture(params=SERVERS)
async def users(request: pytest.FixtureRequest) -> AsyncIterator[tuple[KubeClient, KubeClient]]:
    """The operator and an admin on the fake, then on the real server: what a test says holds for both."""
    if request.param == "real":
        real: RealApi = request.getfixturevalue("real")
        async with KubeClient(real.connection("operator")) as operator, KubeClient(real.connection("admin")) as admin:
            yield operator, admin
    else:
        async with FakeApi(bookmark_s=0.05) as api, KubeClient(api.connection()) as anybody:
            yield anybody, anybody


@pytest.fixture
def server(users: tuple[KubeClient, KubeClient]) -> KubeClient:
    """The operator's client, of either server."""
    return users[0]


@pytest.fixture
def admin(users: tuple[KubeClient, KubeClient]) -> KubeClient:
    """An admin's client, of the same server."""
    return users[1]


@pytest.fixture
def name() -> str:
    """A name that no other test uses."""
    return f"t{next(_names)}-{time.time_ns() % 10**6}"


def _wait_for_policies(api: RealApi) -> None:
    """Policies are compiled some time after they are stored."""
    claim = build_mirror_claim("probe", job_id=1, device_class="c", count=1)
    mirror = gangjob("probe", origin="Slurm")
    labelled = {"apiVersion": "v1", "kind": "Pod", **pod("probe")}
    labelled["metadata"]["labels"] = {wellknown.GANG_UID: "u"}
    deadline = time.monotonic() + 60
    for probe in (claim, mirror, labelled):
        text = json.dumps(probe)
        while "gangbridge alone" not in api.kubectl("create", "--dry-run=server", "-f", "-", stdin=text).stderr:
            assert time.monotonic() < deadline, f"no policy refuses {probe}"
            time.sleep(0.2)
