"""Watches: resuming, bookmarks, and a client that does not read."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from phalanx.embedded.apiserver.storage.watch import Watch
from tests.embedded.apiserver.inprocess import InProcess

MAPS = "/api/v1/namespaces/default/configmaps"


def serving(data: Path, act: Callable[[InProcess], Awaitable[Any]], **settings: Any) -> Any:
    async def run() -> Any:
        async with InProcess.started(data, **settings) as server:
            return await act(server)

    return asyncio.run(run())


def named(name: str, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "data": data}


def test_a_watch_resumes_from_any_kept_version_also_after_a_restart(data_dir: Path) -> None:
    async def write(server: InProcess) -> str:
        created = await server.make(MAPS, named("a"))
        await server.ask("PUT", f"{MAPS}/a", named("a", k="1"))
        await server.ask("DELETE", f"{MAPS}/a")
        return str(created["metadata"]["resourceVersion"])

    async def resume(server: InProcess, version: str) -> list[str]:
        stream = await server.watch(f"{MAPS}?watch=1&resourceVersion={version}")
        found = [(await stream.next())["type"] for _ in range(2)]
        await stream.close()
        return found

    version = serving(data_dir, write)
    assert serving(data_dir, lambda server: resume(server, version)) == ["MODIFIED", "DELETED"]


def test_a_client_that_stops_reading_is_cut_off_and_nobody_else_notices(data_dir: Path) -> None:
    async def act(server: InProcess) -> None:
        stalled, reader = await server.watch(f"{MAPS}?watch=1"), await server.watch(f"{MAPS}?watch=1")
        for number in range(40):
            await server.make(MAPS, named(f"m{number}", padding="x" * 10_000))
            assert (await reader.next())["object"]["metadata"]["name"] == f"m{number}"
        assert await stalled.next() is None
        assert server.api.engine.hub.buffered_bytes() == 0
        await stalled.close()
        await reader.close()
        assert server.api.engine.hub.count() == 0

    serving(data_dir, act, watch_buffer_bytes=100_000)


def test_a_client_that_was_cut_off_gets_no_bookmark_of_what_it_missed(data_dir: Path) -> None:
    """The bookmark would say that it has seen the events that were dropped, and they would never come."""

    async def act(server: InProcess) -> None:
        stalled = await server.watch(f"{MAPS}?watch=1&allowWatchBookmarks=true")
        for number in range(40):
            await server.make(MAPS, named(f"m{number}", padding="x" * 10_000))
        await asyncio.sleep(0.05)  # what is tested is that nothing comes, at intervals of 0.01 s
        assert await stalled.next() is None
        await stalled.close()

    serving(data_dir, act, watch_buffer_bytes=100_000, bookmark_interval_s=0.01)


def test_watches_of_other_namespaces_are_not_asked(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Watch] = []
    offer = Watch.offer
    monkeypatch.setattr(Watch, "offer", lambda watch, event: asked.append(watch) or offer(watch, event))

    async def act(server: InProcess) -> None:
        paths = (MAPS, "/api/v1/namespaces/kube-system/configmaps", "/api/v1/configmaps")
        mine, other, everywhere = [await server.watch(f"{path}?watch=1&resourceVersion=0") for path in paths]
        asked.clear()
        await server.make(MAPS, named("a"))
        assert len(asked) == 2
        for watch in (mine, everywhere):
            while (await watch.next())["object"]["metadata"]["name"] != "a":
                pass
        for watch in (mine, other, everywhere):
            await watch.close()
        assert server.api.engine.hub.count() == 0

    serving(data_dir, act)


def test_bookmarks_tell_the_version_of_a_quiet_watch(data_dir: Path) -> None:
    async def act(server: InProcess) -> None:
        stream = await server.watch(f"{MAPS}?watch=1&allowWatchBookmarks=true&labelSelector=never=1")
        await server.make(MAPS, named("a"))
        version = server.api.engine.store.version
        event = await stream.next()
        while int(event["object"]["metadata"]["resourceVersion"]) < version:
            event = await stream.next()
        assert event["type"] == "BOOKMARK"
        assert event["object"]["kind"] == "ConfigMap"
        await stream.close()

    serving(data_dir, act, bookmark_interval_s=0.01)


def test_a_page_goes_on_from_a_version_that_has_left_the_past_only_inconsistently(data_dir: Path) -> None:
    async def act(server: InProcess) -> None:
        for name in "abcd":
            await server.make(MAPS, named(name))
        page = (await server.ask("GET", f"{MAPS}?limit=2")).body
        server.api.engine.store.forget_past()
        await server.make(MAPS, named("e"))
        server.api.engine.store.forget_past()
        refused = await server.ask("GET", f"{MAPS}?limit=2&continue={page['metadata']['continue']}")
        assert (refused.code, refused.body["reason"]) == (410, "Expired")
        onward = await server.ask("GET", f"{MAPS}?continue={refused.body['metadata']['continue']}")
        assert [one["metadata"]["name"] for one in onward.body["items"]] == ["c", "d", "e"]

    serving(data_dir, act)


def test_a_watch_of_more_than_its_buffer_begins_all_the_same(data_dir: Path) -> None:
    async def act(server: InProcess) -> None:
        for number in range(30):
            await server.make(MAPS, named(f"m{number}", padding="x" * 10_000))
        fresh = await server.watch(f"{MAPS}?watch=1")
        resumed = await server.watch(f"{MAPS}?watch=1&resourceVersion={server.api.engine.store.version - 20}")
        assert [(await fresh.next())["type"] for _ in range(30)] == ["ADDED"] * 30
        assert [(await resumed.next())["type"] for _ in range(20)] == ["ADDED"] * 20
        await fresh.close()
        await resumed.close()

    serving(data_dir, act, watch_buffer_bytes=100_000)


def test_only_the_first_table_of_a_watch_says_what_its_columns_are(data_dir: Path) -> None:
    async def act(server: InProcess) -> None:
        accept = "application/json;as=Table;v=v1;g=meta.k8s.io"
        await server.make(MAPS, named("a"))
        for version in ("", f"&resourceVersion={server.api.engine.store.version}"):
            stream = await server.watch(f"{MAPS}?watch=1{version}", accept=accept)
            await server.make(MAPS, named(f"b{len(version)}"))
            await server.make(MAPS, named(f"c{len(version)}"))
            tables = [(await stream.next())["object"] for _ in range(2)]
            assert tables[0]["columnDefinitions"][0]["name"] == "Name"
            assert tables[1]["columnDefinitions"] is None
            await stream.close()

    serving(data_dir, act)
