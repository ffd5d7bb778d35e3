from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

from operators.kube.client import KubeClient
from operators.kube.reflector import Pace, Reflector
from operators.kube.resources import PODS
from tests.kube.builders import pod
from tests.kube.fakeapi import FakeApi

QUICK = Pace(watch_s=(60, 60), inactivity_s=0.5, relist_s=(600, 600), backoff_s=(0.01, 0.05))


@asynccontextmanager
async def running(client: KubeClient, **options: Any) -> AsyncIterator[Reflector]:
    options.setdefault("pace", QUICK)
    reflector = Reflector(client, PODS, **options)
    task = asyncio.create_task(reflector.run())
    try:
        await asyncio.wait_for(reflector.synced.wait(), 5)
        yield reflector
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0.005)


def names(reflector: Reflector) -> list[str]:
    return sorted(name for _, name in reflector.objects)


async def test_follows_creates_changes_and_deletes(fake: FakeApi, client: KubeClient) -> None:
    fake.put("pods", pod("a"))
    seen: list[tuple[str, str]] = []
    async with running(client, on_change=lambda event, obj: seen.append((event, obj["metadata"]["name"]))) as reflector:
        assert names(reflector) == ["a"]
        fake.put("pods", pod("b"))
        await until(lambda: names(reflector) == ["a", "b"])
        fake.put("pods", pod("b") | {"status": {"phase": "Running"}}, status=True)
        fake.remove("pods", "a", "default")
        await until(lambda: names(reflector) == ["b"])
        assert reflector.get("default", "b") == fake.objects["pods", "default", "b"]
    assert seen == [("ADDED", "a"), ("ADDED", "b"), ("MODIFIED", "b"), ("DELETED", "a")]


async def test_broken_connection_is_resumed_without_a_list(fake: FakeApi, client: KubeClient) -> None:
    async with running(client) as reflector:
        await until(lambda: "WATCH pods" in fake.requests)
        for index in range(3):
            fake.drop_watches()
            fake.put("pods", pod(f"p{index}"))
            await until(lambda expected=index + 1: len(reflector.objects) == expected)
    assert fake.requests.count("GET pods") == 1
    assert fake.requests.count("WATCH pods") >= 3


async def test_expired_watch_lists_again_and_reports_the_deletes_it_missed(fake: FakeApi, client: KubeClient) -> None:
    fake.put("pods", pod("a"))
    fake.put("pods", pod("b"))
    seen: list[tuple[str, str]] = []
    async with running(client, on_change=lambda event, obj: seen.append((event, obj["metadata"]["name"]))) as reflector:
        await until(lambda: "WATCH pods" in fake.requests)
        fake.stalled = True
        fake.remove("pods", "a", "default")
        fake.remove("pods", "b", "default")
        fake.put("pods", pod("b"))
        fake.compact()
        fake.drop_watches()
        fake.stalled = False
        await until(lambda: names(reflector) == ["b"])
        assert reflector.objects["default", "b"] == fake.objects["pods", "default", "b"]
    assert seen[2:] == [("DELETED", "a"), ("DELETED", "b"), ("ADDED", "b")]


async def test_silent_connection_is_cut_and_resumed(fake: FakeApi, client: KubeClient) -> None:
    async with running(client) as reflector:
        fake.stalled = True
        fake.put("pods", pod("a"))
        await asyncio.sleep(0.2)
        assert names(reflector) == []
        await until(lambda: fake.requests.count("WATCH pods") >= 2)
        fake.stalled = False
        await until(lambda: names(reflector) == ["a"])
    assert fake.requests.count("GET pods") == 1


async def test_bookmarks_alone_keep_a_watch_alive(fake: FakeApi, client: KubeClient) -> None:
    async with running(client) as reflector:
        await asyncio.sleep(1.0)
        assert reflector.idle_s() < 0.4
    assert fake.requests.count("WATCH pods") == 1


async def test_server_errors_at_start_only_delay(fake: FakeApi, client: KubeClient) -> None:
    fake.put("pods", pod("a"))
    fake.fail(2, status=500, match="GET pods")
    fake.fail(1, status=0, match="GET pods")
    fake.fail(1, status=403, match="WATCH pods")
    async with running(client) as reflector:
        fake.put("pods", pod("b"))
        await until(lambda: names(reflector) == ["a", "b"])
    assert fake.requests.count("GET pods") == 4


async def test_a_watch_that_ends_goes_on_from_its_last_version(fake: FakeApi, client: KubeClient) -> None:
    pace = Pace(watch_s=(1, 1), inactivity_s=5, relist_s=(600, 600), backoff_s=(0.01, 0.05))
    async with running(client, pace=pace) as reflector:
        await until(lambda: fake.requests.count("WATCH pods") >= 2)
        fake.put("pods", pod("a"))
        await until(lambda: names(reflector) == ["a"])
    assert fake.requests.count("GET pods") == 1


async def test_routine_list_counts_what_the_watch_missed(fake: FakeApi, client: KubeClient) -> None:
    pace = Pace(watch_s=(1, 1), inactivity_s=5, relist_s=(0.5, 0.5), backoff_s=(0.01, 0.05))
    fake.put("pods", pod("a"))
    async with running(client, pace=pace) as reflector:
        hidden = fake.objects["pods", "default", "a"]["metadata"]
        hidden["labels"], hidden["resourceVersion"] = {"hidden": "yes"}, str(fake.store.version)
        fake.store.version += 1
        known = reflector.objects["default", "a"]["metadata"]
        known["resourceVersion"] = str(int(known["resourceVersion"]) - 1)
        await until(lambda: reflector.drift == 1)
        assert reflector.objects["default", "a"]["metadata"]["labels"] == {"hidden": "yes"}


async def test_own_writes_show_at_once(fake: FakeApi, client: KubeClient) -> None:
    seen: list[str] = []
    async with running(client, on_change=lambda event, _: seen.append(event)) as reflector:
        fake.stalled = True
        stored = await client.create(PODS, pod("a"))
        reflector.observe(stored)
        assert names(reflector) == ["a"]
        assert await client.delete(PODS, "a", namespace="default") is None
        reflector.forget(stored)
        assert names(reflector) == []
        fake.stalled = False
        fake.put("pods", pod("b"))
        await until(lambda: "default" in dict(reflector.objects.keys()))
    assert seen == ["ADDED", "DELETED", "ADDED"]


async def test_selector_limits_what_is_seen(fake: FakeApi, client: KubeClient) -> None:
    labelled = pod("a")
    labelled["metadata"]["labels"] = {"x": "1"}
    fake.put("pods", labelled)
    fake.put("pods", pod("b"))
    async with running(client, label_selector="x=1") as reflector:
        assert names(reflector) == ["a"]
        labelled["metadata"]["labels"] = {"x": "2"}
        fake.put("pods", labelled)
        await until(lambda: names(reflector) == [])


async def test_history_restored_from_a_backup_is_taken_as_it_is(fake: FakeApi, client: KubeClient) -> None:
    fake.store.version = 1000
    fake.put("pods", pod("old"))
    fake.put("pods", pod("both"))
    async with running(client) as reflector:
        await until(lambda: "WATCH pods" in fake.requests)
        fake.objects.clear()
        fake.store.version = 10
        fake.put("pods", pod("both"))
        fake.fail(1, status=410, match="WATCH pods")
        fake.drop_watches()
        await until(lambda: names(reflector) == ["both"])
        assert reflector.objects["default", "both"]["metadata"]["resourceVersion"] == "11"


async def test_relist_shows_what_the_watch_has_not_told(fake: FakeApi, client: KubeClient) -> None:
    async with running(client) as reflector:
        fake.stalled = True
        fake.put("pods", pod("a"))
        await reflector.relist()
        assert names(reflector) == ["a"]
        assert reflector.drift == 0


async def test_relist_that_the_watch_overtakes_undoes_nothing(fake: FakeApi, client: KubeClient) -> None:
    changes: list[str] = []
    async with running(client, on_change=lambda event, _: changes.append(event)) as reflector:
        fake.put("pods", pod("a"))
        listed = client.list

        async def late(*args: Any, **kwargs: Any) -> Any:
            answer = await listed(*args, **kwargs)
            fake.put("pods", pod("b"))
            await until(lambda: names(reflector) == ["a", "b"])
            return answer

        client.list = late  # type: ignore[method-assign]
        await reflector.relist()
        assert names(reflector) == ["a", "b"]
        assert changes == ["ADDED", "ADDED"]
