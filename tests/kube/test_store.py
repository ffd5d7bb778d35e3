from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.kube.store import Store, key_of, version_of


def obj(name: str, version: int, uid: str = "u", **meta: Any) -> dict[str, Any]:
    return {"metadata": {"namespace": "ns", "name": name, "uid": uid, "resourceVersion": str(version), **meta}}


def names(store: Store) -> list[str]:
    return sorted(name for _, name in store.objects)


def events(changes: list[Any]) -> list[tuple[str, str, int]]:
    return [(event, item["metadata"]["name"], version_of(item)) for event, item in changes]


def test_list_reports_what_vanished() -> None:
    store = Store()
    store.replace([obj("a", 1), obj("b", 2, "v")], 5)
    assert events(store.replace([obj("b", 7, "v"), obj("c", 8, "w")], 9)) == [
        ("DELETED", "a", 1),
        ("MODIFIED", "b", 7),
        ("ADDED", "c", 8),
    ]


def test_unchanged_list_reports_nothing() -> None:
    store = Store()
    store.replace([obj("a", 1)], 5)
    assert store.replace([obj("a", 1)], 9) == []
    assert store.position == 9


def test_recreated_under_the_same_name_is_a_delete_and_an_add() -> None:
    store = Store()
    store.replace([obj("a", 1, "u1")], 5)
    assert events(store.replace([obj("a", 8, "u2")], 9)) == [("DELETED", "a", 1), ("ADDED", "a", 8)]


def test_own_write_shows_before_its_event_and_the_event_changes_nothing() -> None:
    store = Store()
    store.replace([], 5)
    assert events(store.observe(obj("a", 7))) == [("ADDED", "a", 7)]
    assert store.apply("ADDED", obj("a", 7)) == []


def test_own_write_is_not_undone_by_an_older_event() -> None:
    store = Store()
    store.replace([obj("a", 3)], 5)
    store.observe(obj("a", 9))
    assert store.apply("MODIFIED", obj("a", 7)) == []
    assert version_of(store.objects["ns", "a"]) == 9


def test_own_create_survives_a_list_that_was_read_before_it() -> None:
    store = Store()
    store.observe(obj("a", 9))
    assert store.replace([], 7) == []
    assert names(store) == ["a"]


def test_own_create_vanishes_with_a_list_that_was_read_after_it() -> None:
    store = Store()
    store.observe(obj("a", 9))
    assert events(store.replace([], 12)) == [("DELETED", "a", 9)]


def test_late_answer_does_not_bring_a_deleted_object_back() -> None:
    store = Store()
    store.replace([], 5)
    store.apply("ADDED", obj("a", 7))
    store.apply("DELETED", obj("a", 8))
    assert store.observe(obj("a", 7)) == []
    assert names(store) == []


def test_own_delete_is_not_undone_by_older_events_or_lists() -> None:
    store = Store()
    store.replace([obj("a", 3)], 5)
    assert events(store.forget(obj("a", 3))) == [("DELETED", "a", 3)]
    assert store.apply("MODIFIED", obj("a", 6)) == []
    assert store.replace([obj("a", 6)], 6) == []
    assert store.apply("DELETED", obj("a", 8)) == []
    assert names(store) == []


def test_own_delete_of_an_old_uid_leaves_the_new_object() -> None:
    store = Store()
    store.replace([obj("a", 9, "new")], 10)
    assert store.forget(obj("a", 3, "old")) == []
    assert names(store) == ["a"]


def test_name_is_free_again_after_an_own_delete() -> None:
    store = Store()
    store.replace([obj("a", 3, "old")], 5)
    store.forget(obj("a", 3, "old"))
    assert events(store.observe(obj("a", 8, "new"))) == [("ADDED", "a", 8)]
    assert store.apply("DELETED", obj("a", 7, "old")) == []
    assert names(store) == ["a"]


def test_list_read_before_a_delete_does_not_bring_it_back() -> None:
    store = Store()
    store.replace([obj("a", 3)], 5)
    store.apply("DELETED", obj("a", 9))
    assert store.replace([obj("a", 3)], 7) == []
    assert store.position == 9


def test_event_from_before_a_list_is_old_news() -> None:
    store = Store()
    store.replace([], 10)
    assert store.apply("ADDED", obj("a", 7)) == []


def test_late_answer_from_before_a_list_is_old_news() -> None:
    store = Store()
    store.apply("DELETED", obj("a", 8))
    store.replace([], 10)
    assert store.observe(obj("a", 7)) == []


def test_own_delete_takes_earlier_holders_of_the_name_with_it() -> None:
    store = Store()
    store.replace([obj("a", 3, "old")], 5)
    assert events(store.forget(obj("a", 9, "new"))) == [("DELETED", "a", 3)]
    assert store.apply("MODIFIED", obj("a", 6, "old")) == []


def test_object_that_left_the_selector_may_match_again() -> None:
    store = Store()
    store.replace([obj("a", 3)], 5)
    store.apply("DELETED", obj("a", 7))
    assert events(store.apply("ADDED", obj("a", 9))) == [("ADDED", "a", 9)]


def test_bookmark_moves_only_the_position() -> None:
    store = Store()
    store.replace([obj("a", 3)], 5)
    assert store.apply("BOOKMARK", {"metadata": {"resourceVersion": "40"}}) == []
    assert (store.position, names(store)) == (40, ["a"])


def test_restart_forgets_everything() -> None:
    store = Store()
    store.replace([obj("a", 300)], 500)
    assert events(store.restart()) == [("DELETED", "a", 300)]
    store.replace([obj("a", 3)], 5)
    assert version_of(store.objects["ns", "a"]) == 3


def test_managed_fields_and_what_trim_cuts_are_not_kept() -> None:
    def trim(item: dict[str, Any]) -> dict[str, Any]:
        return {"metadata": item["metadata"]}

    store = Store(trim)
    store.replace([obj("a", 1, managedFields=[{}]) | {"spec": {}}], 2)
    assert store.objects["ns", "a"] == obj("a", 1)


def test_objects_are_a_read_only_view() -> None:
    with pytest.raises(TypeError):
        Store().objects["ns", "a"] = {}  # type: ignore[index]


class Server:
    """A model of the truth: objects and the ordered history of their changes."""

    def __init__(self) -> None:
        self.version = 0
        self.objects: dict[str, dict[str, Any]] = {}
        self.history: list[tuple[str, dict[str, Any]]] = []

    def write(self, name: str) -> dict[str, Any]:
        self.version += 1
        event = "MODIFIED" if name in self.objects else "ADDED"
        uid = self.objects[name]["metadata"]["uid"] if name in self.objects else f"u{self.version}"
        self.objects[name] = obj(name, self.version, uid)
        self.history.append((event, self.objects[name]))
        return self.objects[name]

    def delete(self, name: str) -> dict[str, Any] | None:
        if name not in self.objects:
            return None
        self.version += 1
        gone = self.objects.pop(name)
        self.history.append(("DELETED", obj(name, self.version, gone["metadata"]["uid"])))
        return gone


class Race:
    """Writes by us and by others; events, lists and answers come late by any amount."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)  # noqa: S311 - repeatable
        self.server, self.store, self.told = Server(), Store(), 0
        self.answers: list[dict[str, Any]] = []
        self.lists: list[tuple[list[dict[str, Any]], int]] = []
        self.shadow: dict[Any, dict[str, Any]] = {}

    def step(self) -> None:
        name = self.rng.choice("abc")
        steps = [self.others_write, self.others_delete, self.we_write, self.we_write_and_hear_late, self.we_delete]
        steps += [self.late_answer, self.event, self.event, self.late_list, self.late_list]
        self.rng.choice(steps)(name)
        assert dict(self.store.objects) == self.shadow, "callbacks tell the same as the view"

    def follow(self, changes: list[Any]) -> None:
        for event, item in changes:
            key = key_of(item)
            assert (event == "ADDED") == (key not in self.shadow), "events are consistent"
            if event == "DELETED":
                del self.shadow[key]
            else:
                self.shadow[key] = item

    def others_write(self, name: str) -> None:
        self.server.write(name)

    def others_delete(self, name: str) -> None:
        self.server.delete(name)

    def we_write(self, name: str) -> None:
        mine = self.server.write(name)
        self.follow(self.store.observe(mine))
        assert self.store.objects["ns", name] == mine, "our write shows at once"

    def we_write_and_hear_late(self, name: str) -> None:
        self.answers.append(self.server.write(name))

    def late_answer(self, _: str) -> None:
        if self.answers:
            self.follow(self.store.observe(self.answers.pop(self.rng.randrange(len(self.answers)))))

    def we_delete(self, name: str) -> None:
        gone = self.server.delete(name)
        if gone:
            self.follow(self.store.forget(gone))
            assert ("ns", name) not in self.store.objects, "our delete shows at once"

    def event(self, _: str) -> None:
        if self.told < len(self.server.history):
            self.follow(self.store.apply(*self.server.history[self.told]))
            self.told += 1

    def late_list(self, _: str) -> None:
        if self.lists and self.rng.random() < 0.5:
            items, version = self.lists.pop(0)
            self.follow(self.store.replace(items, version))
        else:
            self.lists.append((list(self.server.objects.values()), self.server.version))

    def finish(self) -> None:
        for item in self.answers:
            self.follow(self.store.observe(item))
        while self.told < len(self.server.history):
            self.event("")
        assert {key[1]: item for key, item in self.store.objects.items()} == self.server.objects


@given(seed=st.integers(0, 2**32), steps=st.integers(1, 60))
def test_store_ends_with_the_servers_truth_and_never_lies_about_our_writes(seed: int, steps: int) -> None:
    race = Race(seed)
    for _ in range(steps):
        race.step()
    race.finish()
