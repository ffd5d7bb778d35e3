from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from bridge.errors import BridgeError, SpecError
from operators.kube.client import JSON_PATCH, KubeClient
from operators.kube.connection import Connection, load_connection
from operators.kube.errors import (
    AlreadyExists,
    Conflict,
    Expired,
    Forbidden,
    Invalid,
    KubeError,
    KubeUnavailable,
    NotFound,
    TooManyRequests,
    error_from,
)
from operators.kube.resources import ALL, GANGJOBS, NODES, PODS, RESOURCECLAIMS
from operators.leader import Deposed
from tests.kube.builders import gangjob, pod
from tests.kube.fakeapi import FakeApi


@pytest.mark.parametrize(
    ("code", "reason", "kind"),
    [
        (409, "Conflict", Conflict),
        (409, "AlreadyExists", AlreadyExists),
        (404, "NotFound", NotFound),
        (422, "Invalid", Invalid),
        (403, "Forbidden", Forbidden),
        (410, "Gone", Expired),
        (410, "Expired", Expired),
        (429, "TooManyRequests", TooManyRequests),
        (500, "InternalError", KubeUnavailable),
        (503, "ServiceUnavailable", KubeUnavailable),
        (504, "Timeout", KubeUnavailable),
        (400, "BadRequest", KubeError),
        (401, "Unauthorized", KubeError),
    ],
)
def test_answers_become_errors_by_name(code: int, reason: str, kind: type[KubeError]) -> None:
    error = error_from(code, {"reason": reason, "message": "m"})
    assert type(error) is kind
    assert isinstance(error, BridgeError)
    assert (error.status, error.reason, error.message) == (code, reason, "m")


def test_answer_without_a_status_is_an_error_still() -> None:
    assert str(error_from(502, {})) == "502 Unknown: no message"


def test_server_says_how_long_to_wait() -> None:
    error = error_from(429, {}, retry_after="7")
    assert isinstance(error, TooManyRequests)
    assert error.retry_after_s == 7


async def test_refused_write_had_no_effect_and_ambiguous_one_may_have(fake: FakeApi, client: KubeClient) -> None:
    fake.fail(status=500, match="POST pods")
    with pytest.raises(KubeUnavailable):
        await client.create(PODS, pod("a"))
    assert not fake.of("pods")
    fake.fail(status=504, match="POST pods", after=True)
    with pytest.raises(KubeUnavailable):
        await client.create(PODS, pod("a"))
    assert len(fake.of("pods")) == 1


async def test_dropped_connection_is_unavailable(fake: FakeApi, client: KubeClient) -> None:
    fake.fail(status=0, match="POST pods", after=True)
    with pytest.raises(KubeUnavailable) as raised:
        await client.create(PODS, pod("a"))
    assert raised.value.status == 0
    assert len(fake.of("pods")) == 1


async def test_nobody_listening_is_unavailable() -> None:
    async with KubeClient(Connection(server="http://127.0.0.1:9")) as client:
        with pytest.raises(KubeUnavailable):
            await client.get(NODES, "n")


@asynccontextmanager
async def server_that(answers: Callable[[web.Request], Awaitable[web.Response]]) -> AsyncIterator[Connection]:
    application = web.Application()
    application.router.add_get("/{path:.*}", answers)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    yield Connection(server=f"http://127.0.0.1:{runner.addresses[0][1]}")
    await runner.cleanup()


async def test_silent_server_is_unavailable_after_the_deadline() -> None:
    async def is_silent(_: web.Request) -> web.Response:
        await asyncio.sleep(60)
        return web.json_response({})

    started = time.monotonic()
    async with server_that(is_silent) as connection, KubeClient(connection, deadline_s=0.2) as client:
        with pytest.raises(KubeUnavailable):
            await client.get(NODES, "n")
        assert time.monotonic() - started < 30


@pytest.mark.parametrize(("text", "problem"), [("<html>", "not JSON"), ("[]", "not an object")])
async def test_answer_that_is_no_object_is_unavailable(text: str, problem: str) -> None:
    async def babbles(_: web.Request) -> web.Response:
        return web.Response(text=text)

    async with server_that(babbles) as connection, KubeClient(connection) as client:
        with pytest.raises(KubeUnavailable, match=problem):
            await client.get(NODES, "n")


async def test_writes_are_counted_by_verb_and_resource(fake: FakeApi, client: KubeClient) -> None:
    stored = await client.create(GANGJOBS, gangjob("a"))
    await client.replace_status(GANGJOBS, stored | {"status": {"phase": "Queued"}})
    await client.patch(GANGJOBS, "a", {"status": {"phase": "Running"}}, namespace="default", subresource="status")
    await client.apply(GANGJOBS, gangjob("b"))
    with pytest.raises(AlreadyExists):
        await client.create(GANGJOBS, gangjob("a"))
    await client.delete(GANGJOBS, "a", namespace="default")
    await client.list(GANGJOBS)
    await client.get(GANGJOBS, "b", "default")
    assert client.writes() == {
        ("create", "gangjobs"): 2,
        ("replace", "gangjobs/status"): 1,
        ("patch", "gangjobs/status"): 1,
        ("apply", "gangjobs"): 1,
        ("delete", "gangjobs"): 1,
    }
    calls = {"verb": "create", "resource": "gangjobs", "code": "409"}
    assert client.traffic.registry.get_sample_value("gangbridge_kube_requests_total", calls) == 1


async def test_calls_in_flight_are_bounded(fake: FakeApi) -> None:
    most = now = 0

    async def slow() -> None:
        nonlocal most, now
        now += 1
        most = max(most, now)
        await asyncio.sleep(0.01)
        now -= 1

    async with KubeClient(fake.connection(), concurrency=3) as client:
        send = client._send

        async def counted(*args: object, **kwargs: object) -> object:
            await slow()
            return await send(*args, **kwargs)  # type: ignore[arg-type]

        client._send = counted  # type: ignore[assignment, method-assign]
        await asyncio.gather(*(client.create(PODS, pod(f"p{index}")) for index in range(12)))
    assert most == 3
    assert len(fake.of("pods")) == 12


async def test_list_reads_page_after_page(fake: FakeApi, client: KubeClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("operators.kube.client._PAGE", 4)
    for index in range(10):
        fake.put("pods", pod(f"p{index}"))
    items, version = await client.list(PODS)
    assert [item["metadata"]["name"] for item in items] == [f"p{index}" for index in range(10)]
    assert version == str(fake.store.version)
    assert fake.requests.count("GET pods") == 3


async def test_failed_test_of_a_json_patch_is_invalid(fake: FakeApi, client: KubeClient) -> None:
    fake.put("pods", pod("a"))
    patch = [{"op": "test", "path": "/metadata/uid", "value": "x"}]
    with pytest.raises(Invalid):
        await client.patch(PODS, "a", patch, namespace="default", content_type=JSON_PATCH)


async def test_token_is_asked_for_at_every_call(fake: FakeApi) -> None:
    tokens = iter(["one", "two"])
    asked = []

    async def authorization() -> str:
        asked.append(next(tokens))
        return f"Bearer {asked[-1]}"

    async with KubeClient(Connection(server=fake.url, authorization=authorization)) as client:
        await client.list(PODS)
        await client.list(PODS)
    assert asked == ["one", "two"]


async def test_guard_is_asked_right_before_every_write_and_never_before_a_read(fake: FakeApi) -> None:
    asked: list[str] = []

    def refuse(write: str) -> None:
        asked.append(write)
        raise Deposed(write)

    fake.put("pods", pod("a"))
    claim = {"metadata": {"name": "c", "namespace": "default", "resourceVersion": "1"}}
    async with KubeClient(fake.connection(), guard=refuse) as client:
        await client.get(PODS, "a", "default")
        await client.list(PODS)
        before = list(fake.requests)
        for write in (
            client.create(PODS, pod("b")),
            client.replace_status(RESOURCECLAIMS, claim),
            client.patch(PODS, "a", {}, namespace="default"),
            client.apply(PODS, pod("a")),
            client.delete(PODS, "a", namespace="default"),
        ):
            with pytest.raises(Deposed):
                await write
    assert asked == ["create pods", "replace resourceclaims/status", "patch pods", "apply pods", "delete pods"]
    assert fake.requests == before


async def test_guard_is_asked_when_a_slot_is_free_and_not_before(fake: FakeApi) -> None:
    is_leader = True

    def guard(write: str) -> None:
        if not is_leader:
            raise Deposed(write)

    async with KubeClient(fake.connection(), concurrency=1, guard=guard) as client:
        await client._slots.acquire()
        waiting = asyncio.create_task(client.create(PODS, pod("a")))
        await asyncio.sleep(0)
        is_leader = False
        client._slots.release()
        with pytest.raises(Deposed):
            await waiting
    assert fake.of("pods") == []


def test_paths() -> None:
    assert PODS.path() == "/api/v1/pods"
    assert PODS.path("ns", "a", "status") == "/api/v1/namespaces/ns/pods/a/status"
    assert RESOURCECLAIMS.path("ns") == "/apis/resource.k8s.io/v1/namespaces/ns/resourceclaims"
    assert NODES.path(None, "n") == "/api/v1/nodes/n"
    assert GANGJOBS.api_version == "gangbridge.dev/v1alpha1"
    with pytest.raises(ValueError, match="a namespace is needed"):
        PODS.path(None, "a")
    assert len({(resource.group, resource.plural) for resource in ALL}) == len(ALL)


def kubeconfig(tmp_path: Path, server: str) -> str:
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "x",
        "clusters": [{"name": "c", "cluster": {"server": server, "insecure-skip-tls-verify": True}}],
        "users": [{"name": "u", "user": {"token": "secret"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
    }
    path = tmp_path / "config"
    path.write_text(json.dumps(config))
    return str(path)


async def test_connection_comes_from_a_kubeconfig(tmp_path: Path) -> None:
    connection = await load_connection(kubeconfig(tmp_path, "https://127.0.0.1:6443/"))
    assert connection.server == "https://127.0.0.1:6443"
    assert await connection.authorization() == "Bearer secret"
    assert connection.tls is not None
    assert connection.tls.check_hostname is False


async def test_client_connects_by_kubeconfig(fake: FakeApi, tmp_path: Path) -> None:
    fake.put("pods", pod("a"))
    async with await KubeClient.connect(kubeconfig(tmp_path, fake.url)) as client:
        assert len((await client.list(PODS))[0]) == 1


async def test_missing_kubeconfig_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="kubeconfig"):
        await load_connection(str(tmp_path / "absent"))
