"""The store: durability, visibility for readers, and failed commits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from phalanx.embedded.apimachinery.meta.status import StatusError
from phalanx.embedded.apiserver.storage.journal import Journal
from phalanx.embedded.apiserver.storage.settings import Retention
from phalanx.embedded.apiserver.storage.store import Event, Store

MAPS = ("", "configmaps")


def using(path: Path, act: Callable[[Store], Awaitable[Any]], **retention: Any) -> Any:
    """Open the store of a file, do something with it, close it."""

    async def run() -> Any:
        store = Store(Journal(path), Retention(**retention))
        try:
            return await act(store)
        finally:
            await store.close()

    return asyncio.run(run())


def thing(name: str, value: str = "") -> dict[str, Any]:
    return {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": name}, "data": {"k": value}}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "apiserver.sqlite3"


def names(store: Store) -> list[str]:
    return [name for _, name, _ in store.walk(MAPS, "ns")]


def test_what_was_written_is_there_after_a_restart_under_its_version(path: Path) -> None:
    async def write(store: Store) -> None:
        await asyncio.gather(*(store.put(MAPS, "ns", name, thing(name)) for name in "cab"))
        await store.put(MAPS, "ns", "a", thing("a", "new"))
        await store.delete(MAPS, "ns", "b", thing("b"))

    async def read(store: Store) -> tuple[list[str], str, int]:
        stored = store.get(MAPS, "ns", "a")
        assert stored is not None
        return names(store), stored.obj["data"]["k"], store.version

    using(path, write)
    assert using(path, read) == (["a", "c"], "new", 5)


def test_a_write_is_decided_on_what_is_on_its_way_but_read_only_when_durable(path: Path) -> None:
    async def act(store: Store) -> None:
        waiting = store.put(MAPS, "ns", "a", thing("a"))
        assert store.head(MAPS, "ns", "a") is not None
        assert store.get(MAPS, "ns", "a") is None
        await waiting
        assert store.get(MAPS, "ns", "a") is not None

    using(path, act)


def test_events_come_after_the_commit_in_order_with_the_old_state(path: Path) -> None:
    seen: list[Event] = []

    async def act(store: Store) -> None:
        store.subscribe(seen.extend)
        await store.put(MAPS, "ns", "a", thing("a", "1"))
        await store.put(MAPS, "ns", "a", thing("a", "2"))
        await store.delete(MAPS, "ns", "a", thing("a", "2"))

    using(path, act)
    assert [one.type for one in seen] == ["ADDED", "MODIFIED", "DELETED"]
    assert [one.new.version for one in seen] == [1, 2, 3]
    assert seen[1].old is not None
    assert seen[1].old.obj["data"]["k"] == "1"


def test_the_past_is_told_again_after_a_restart(path: Path) -> None:
    async def write(store: Store) -> None:
        for value in ("1", "2", "3"):
            await store.put(MAPS, "ns", "a", thing("a", value))

    async def read(store: Store) -> list[tuple[str, str, str | None]]:
        events = store.events_since(1, MAPS)
        return [(e.type, e.new.obj["data"]["k"], e.old and e.old.obj["data"]["k"]) for e in events]

    using(path, write)
    assert using(path, read) == [("MODIFIED", "2", "1"), ("MODIFIED", "3", "2")]


def test_an_earlier_state_is_the_present_with_the_events_since_undone(path: Path) -> None:
    async def act(store: Store) -> list[tuple[str, str]]:
        await store.put(MAPS, "ns", "a", thing("a", "old"))
        await store.put(MAPS, "ns", "b", thing("b"))
        await store.put(MAPS, "ns", "a", thing("a", "new"))
        await store.delete(MAPS, "ns", "b", thing("b"))
        await store.put(MAPS, "ns", "c", thing("c"))
        return [(name, one.obj["data"]["k"]) for _, name, one in store.snapshot(MAPS, "ns", 2)]

    assert using(path, act) == [("a", "old"), ("b", "")]


def test_the_past_is_bounded_in_memory_and_in_the_file(path: Path) -> None:
    async def write(store: Store) -> None:
        for number in range(50):
            await store.put(MAPS, "ns", "a", thing("a", str(number)))
        await store.delete(MAPS, "ns", "a", thing("a"))
        for number in range(10):
            await store.put(MAPS, "ns", "b", thing("b", str(number)))

    async def read(store: Store) -> None:
        assert names(store) == ["b"]
        with pytest.raises(StatusError) as caught:
            store.events_since(3, MAPS)
        assert caught.value.code == 410

    using(path, write, events=5)
    using(path, read, events=5)
    assert len(list(Journal(path).rows())) <= 8


def test_a_full_disk_fails_the_writes_in_flight_and_nothing_else(path: Path) -> None:
    big = "x" * 200_000

    async def act(store: Store) -> None:
        await store.put(MAPS, "ns", "kept", thing("kept", "before"))
        pages = store._journal._db.execute("PRAGMA page_count").fetchone()[0]
        store._journal._db.execute(f"PRAGMA max_page_count = {pages + 3}")
        failing = [store.put(MAPS, "ns", name, thing(name, big)) for name in ("kept", "lost")]
        refusals = await asyncio.gather(*failing, return_exceptions=True)
        assert [type(one) for one in refusals] == [StatusError, StatusError]
        assert "is full" in str(refusals[0])
        head = store.head(MAPS, "ns", "kept")
        assert head is not None
        assert head.obj["data"]["k"] == "before"
        assert store.head(MAPS, "ns", "lost") is None
        store._journal._db.execute("PRAGMA max_page_count = 1000000")
        await store.put(MAPS, "ns", "kept", thing("kept", big))

    using(path, act)

    async def read(store: Store) -> None:
        stored = store.get(MAPS, "ns", "kept")
        assert stored is not None
        assert stored.obj["data"]["k"] == big
        assert names(store) == ["kept"]

    using(path, read)


def test_on_a_full_disk_what_lets_go_is_written_and_nothing_else_until_there_is_room(path: Path) -> None:
    big, going = "x" * 200_000, "2026-01-01T00:00:00Z"

    async def act(store: Store) -> None:
        for name in ("gone", "ends", "stays"):
            await store.put(MAPS, "ns", name, thing(name, "before"))
        pages = store._journal._db.execute("PRAGMA page_count").fetchone()[0]
        store._journal._db.execute(f"PRAGMA max_page_count = {pages + 3}")
        ending = thing("ends", "before")
        ending["metadata"]["deletionTimestamp"] = going
        found = await asyncio.gather(
            store.put(MAPS, "ns", "stays", thing("stays", big)),
            store.delete(MAPS, "ns", "gone", thing("gone", "before")),
            store.put(MAPS, "ns", "ends", ending),
            return_exceptions=True,
        )
        assert [isinstance(one, StatusError) for one in found] == [True, False, False]
        assert names(store) == ["ends", "stays"]
        store._reserve.size_bytes = 2**60  # more than was ever freed
        with pytest.raises(StatusError, match="is full") as refused:
            await store.put(MAPS, "ns", "new", thing("new", "small"))
        assert refused.value.code == 507
        await store.delete(MAPS, "ns", "ends", thing("ends", "before"))

    using(path, act)

    async def later(store: Store) -> None:
        assert names(store) == ["stays"]
        await store.put(MAPS, "ns", "new", thing("new", "small"))

    using(path, later)


def test_a_write_on_top_of_a_failed_one_fails_and_an_independent_one_does_not(path: Path) -> None:
    async def act(store: Store) -> None:
        pages = store._journal._db.execute("PRAGMA page_count").fetchone()[0]
        store._journal._db.execute(f"PRAGMA max_page_count = {pages + 3}")
        first = store.put(MAPS, "ns", "a", thing("a", "x" * 200_000))
        await asyncio.sleep(0)  # the first is on its way to the disk; these two wait for it
        on_top = store.put(MAPS, "ns", "a", thing("a", "small"))
        apart = store.put(MAPS, "ns", "b", thing("b", "small"))
        found = await asyncio.gather(first, on_top, apart, return_exceptions=True)
        assert [isinstance(one, StatusError) for one in found] == [True, True, False]
        assert names(store) == ["b"]

    using(path, act)


def held(store: Store) -> tuple[dict[tuple[str, str], int], int]:
    return dict(store.tally.objects("ns")), store.tally.size_bytes("ns")


def test_what_a_namespace_holds_is_known_before_and_after_it_is_on_the_disk(path: Path) -> None:
    async def act(store: Store) -> Any:
        first, second = store.put(MAPS, "ns", "a", thing("a")), store.put(MAPS, "ns", "b", thing("b"))
        decided = held(store)
        sizes = [len((await one).data) for one in (first, second)]
        assert held(store) == decided == ({MAPS: 2}, sum(sizes))
        await store.put(MAPS, "ns", "a", thing("a", "longer"))
        assert held(store) == ({MAPS: 2}, sum(sizes) + len("longer"))
        await store.delete(MAPS, "ns", "b", thing("b"))
        return held(store)

    async def read(store: Store) -> Any:
        return held(store)

    assert using(path, act) == using(path, read)


def test_writes_that_failed_hold_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def act(store: Store) -> Any:
        await store.put(MAPS, "ns", "a", thing("a"))
        before = held(store)

        def refuse(*_: Any) -> None:
            raise OSError("no disk")

        monkeypatch.setattr(Journal, "commit", refuse)
        writes = [store.put(MAPS, "ns", "a", thing("a", "x" * 100)), store.put(MAPS, "ns", "b", thing("b"))]
        await asyncio.gather(*writes, return_exceptions=True)
        monkeypatch.undo()
        assert held(store) == before
        await store.delete(MAPS, "ns", "a", thing("a"))
        return held(store)

    assert using(path, act) == ({}, 0)
