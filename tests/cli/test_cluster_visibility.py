"""`cli/cluster/visibility.py`: views of the scheduler's state on a socket, one at a time, and streams beside them."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from aiohttp import ClientSession, UnixConnector

from phalanx.cli.cluster import visibility
from phalanx.cli.cluster.visibility import SOCKET, visible

Scene = Callable[[ClientSession], Awaitable[None]]


def no_stream(*_: Any) -> None:
    return None


def no_view(*_: Any) -> None:
    return None


def served(scene: Scene, views: Any = no_view, streams: Any = no_stream, ledger: Any = None) -> None:
    async def play() -> None:
        with TemporaryDirectory() as folder:
            place = Path(folder, "views")
            async with (
                asyncio.timeout(30),
                visible(place, views, streams, ledger),
                ClientSession(connector=UnixConnector(str(place / SOCKET))) as client,
            ):
                await scene(client)

    asyncio.run(play())


async def got(client: ClientSession, path: str) -> tuple[int, Any]:
    async with client.get(f"http://socket{path}") as answer:
        return answer.status, await answer.json()


def test_a_view_gets_the_group_the_path_and_the_query() -> None:
    asked: list[Any] = []

    def views(group: str, path: tuple[str, ...], query: Mapping[str, str]) -> Any:
        asked.append((group, path, dict(query)))
        return lambda: {"found": True}

    async def scene(client: ClientSession) -> None:
        assert await got(client, "/apis/group.io/v1/queues/a%20b?limit=3") == (200, {"found": True})
        assert await got(client, "/ws/v1/queues") == (200, {"found": True})

    served(scene, views)
    assert asked == [("group.io", ("v1", "queues", "a b"), {"limit": "3"}), ("ws", ("v1", "queues"), {})]


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"kind": "Status", "code": 404}, 404),
        ({"status_code": 400, "message": "x"}, 400),
        ({"kind": "Status"}, 200),
        ({"code": 404}, 200),
        ([{"a": 1}], 200),
        ([], 200),
    ],
)
def test_an_error_has_its_http_status(body: Any, code: int) -> None:
    async def scene(client: ClientSession) -> None:
        assert await got(client, "/apis/g/v1") == (code, body)

    served(scene, lambda *_: lambda: body)


@pytest.mark.parametrize("path", ["/apis/other/v1", "/apis//", "/apis///"])
def test_an_unknown_path_is_not_found(path: str) -> None:
    async def scene(client: ClientSession) -> None:
        assert (await got(client, path))[0] == 404

    served(scene)


def test_responses_are_computed_one_at_a_time_in_a_thread() -> None:
    running, most, threads = 0, 0, set()

    def view() -> Any:
        nonlocal running, most
        running += 1
        most = max(most, running)
        threads.add(threading.current_thread() is threading.main_thread())
        running -= 1
        return {}

    async def scene(client: ClientSession) -> None:
        await asyncio.gather(*(got(client, "/apis/g/v1") for _ in range(5)))

    served(scene, lambda *_: view)
    assert (most, threads) == (1, {False})


def test_a_stream_is_written_line_by_line_and_ends_with_the_server() -> None:
    async def lines(ended: list[str]) -> AsyncIterator[Any]:
        try:
            yield [{"a": 1}, {"b": 2}]
            await asyncio.Event().wait()
        finally:
            ended.append("closed")

    ended: list[str] = []

    async def scene(client: ClientSession) -> None:
        async with client.get("http://socket/ws/v1/events/stream") as answer:
            assert await answer.content.readline() == b'{"a":1}\n'
            assert await answer.content.readline() == b'{"b":2}\n'
            assert await got(client, "/apis/g/v1") == (200, {})  # a stream does not delay a view

    def streams(group: str, path: tuple[str, ...], query: Any) -> Any:
        return lines(ended) if path[-1] == "stream" else None

    served(scene, lambda *_: dict, streams)
    assert ended == ["closed"]


def test_a_check_reads_the_body(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(visibility, "CHECKS", {"ws/v1/validate-conf": lambda text: {"size": len(text)}})

    async def scene(client: ClientSession) -> None:
        async with client.post("http://socket/ws/v1/validate-conf", data=b"abc") as answer:
            assert await answer.json() == {"size": 3}
        async with client.post("http://socket/ws/v1/other", data=b"abc") as answer:
            assert answer.status == 404

    served(scene)


def test_rows_of_the_ledger_are_served_if_there_is_one() -> None:
    async def scene(client: ClientSession) -> None:
        assert await got(client, "/slurm/v1/ledger?user=ada") == (200, {"rows": {"user": "ada"}})

    served(scene, ledger=lambda query: {"rows": dict(query)})

    async def without(client: ClientSession) -> None:
        async with client.get("http://socket/slurm/v1/ledger") as answer:
            assert answer.status == 404

    served(without)


def test_only_the_owner_enters_the_folder_and_a_left_over_socket_is_replaced(tmp_path: Path) -> None:
    place = tmp_path / "views"

    async def play() -> None:
        async with visible(place, no_view, no_stream):
            assert place.stat().st_mode & 0o777 == 0o700
            assert (place / SOCKET).is_socket()

    asyncio.run(play())
    with socket.socket(socket.AF_UNIX) as dead:
        (place / SOCKET).unlink(missing_ok=True)
        dead.bind(str(place / SOCKET))
    asyncio.run(play())


def test_the_path_of_the_socket_may_be_long(tmp_path: Path) -> None:
    place = tmp_path / ("d" * 120) / "views"
    place.parent.mkdir()

    async def play() -> None:
        async with visible(place, no_view, no_stream):
            assert (place / SOCKET).is_socket()

    asyncio.run(play())
