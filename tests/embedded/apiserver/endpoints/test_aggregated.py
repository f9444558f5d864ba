"""`endpoints/subresources/aggregated.py`: requests that another process answers over a socket in the data directory."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from phalanx.embedded.apimachinery.meta.resource import User
from phalanx.embedded.apimachinery.meta.status import StatusError
from phalanx.embedded.apiserver.endpoints.subresources import aggregated
from phalanx.embedded.apiserver.endpoints.subresources.aggregated import SOCKET, Aggregated
from phalanx.embedded.apiserver.transport.negotiation import accepted
from phalanx.embedded.apiserver.transport.request import HttpRequest, parse_query

PENDING = "/apis/visibility.kueue.x-k8s.io/v1beta2/clusterqueues/a b/pendingworkloads"
STREAM, CHECKED = "/ws/v1/events/stream", "/ws/v1/validate-conf"
Reply = Callable[[bytes, asyncio.StreamWriter], Coroutine[Any, Any, None]]


def request(path: str, method: str = "GET", body: bytes = b"", user: str = "ada", accept: str = "") -> HttpRequest:
    path, _, query = path.partition("?")
    return HttpRequest(
        method=method,
        path=path,
        query=parse_query(query.encode()),
        user=User(name=user),
        accept=accepted(accept),
        body=body,
    )


@asynccontextmanager
async def scheduler(folder: Path, *pieces: bytes, code: int = 200) -> AsyncIterator[list[bytes]]:
    """A process that sends these pieces as its answer to each request. Yields the requests that it gets."""
    heard: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.split(b"Content-Length: ")[1].split(b"\r\n")[0])
        heard.append(head + await reader.readexactly(length))
        writer.write(b"HTTP/1.0 %d OK\r\nX: y\r\n\r\n" % code)
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
        writer.close()

    server = await asyncio.start_unix_server(answer, folder / SOCKET)
    async with server:
        yield heard


def refusal(folder: Path, asked: HttpRequest, *pieces: bytes) -> StatusError:
    async def scene() -> None:
        async with scheduler(folder, *pieces):
            await Aggregated(folder).get(asked)

    with pytest.raises(StatusError) as raised:
        asyncio.run(scene())
    return raised.value


def test_path_and_query_are_forwarded_and_the_answer_comes_back(tmp_path: Path) -> None:
    async def scene() -> None:
        async with scheduler(tmp_path, b'{"items":', b"[1]}", code=206) as heard:
            found = await Aggregated(tmp_path).get(request(f"{PENDING}?limit=5&x=%26y"))
        assert (found.code, json.loads(found.body)) == (206, {"items": [1]})
        assert heard[0].startswith(b"GET /apis/visibility.kueue.x-k8s.io/v1beta2/clusterqueues/a%20b/pendingworkloads")
        assert b"?limit=5&x=%26y HTTP/1.0\r\n" in heard[0]

    asyncio.run(scene())


def test_a_line_break_in_the_path_makes_no_second_request(tmp_path: Path) -> None:
    async def scene() -> None:
        async with scheduler(tmp_path, b"{}") as heard:
            await Aggregated(tmp_path).get(request("/ws/v1/x HTTP/1.0\r\nX: y\r\n\r\nGET /ws/v1/z?a=b\r\nEvil: y"))
        [one] = heard
        assert one.count(b"\r\n") == 4
        assert b"Evil" not in one.split(b" HTTP/1.0\r\n")[1]

    asyncio.run(scene())


def test_the_answer_has_the_form_that_the_client_accepts(tmp_path: Path) -> None:
    async def scene() -> None:
        async with scheduler(tmp_path, b'{"a": 1}'):
            found = await Aggregated(tmp_path).get(request(PENDING, accept="application/yaml"))
        assert (found.media, found.body) == ("application/yaml", b"a: 1\n")

    asyncio.run(scene())


def test_without_a_process_the_answer_is_503(tmp_path: Path) -> None:
    with pytest.raises(StatusError) as raised:
        asyncio.run(Aggregated(tmp_path).get(request(PENDING)))
    error = raised.value
    assert (error.code, error.reason, error.retry_after_s) == (503, "ServiceUnavailable", 1)
    assert "does not respond" in error.message
    with pytest.raises(StatusError) as raised:
        asyncio.run(Aggregated(tmp_path / "missing").get(request(PENDING)))
    assert raised.value.code == 503


@pytest.mark.parametrize("answer", [b"no JSON", b"", b'{"a":'])
def test_an_answer_that_is_no_json_is_503(tmp_path: Path, answer: bytes) -> None:
    assert refusal(tmp_path, request(PENDING), answer).code == 503


def test_an_answer_without_end_is_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aggregated, "_MOST_BYTES", 10)
    error = refusal(tmp_path, request(PENDING), b'"' + b"x" * 20 + b'"')
    assert error.code == 503
    assert "its response is too long" in error.message


def test_a_process_that_does_not_answer_is_not_waited_for_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aggregated, "_TIMEOUT_S", 0.01)

    async def scene() -> None:
        hangs = await asyncio.start_unix_server(lambda reader, writer: None, tmp_path / SOCKET)
        async with hangs:
            with pytest.raises(StatusError, match="does not respond: TimeoutError") as raised:
                await Aggregated(tmp_path).get(request(PENDING))
            assert raised.value.code == 503

    asyncio.run(scene())


def test_only_a_configuration_to_check_is_posted(tmp_path: Path) -> None:
    async def scene() -> None:
        async with scheduler(tmp_path, b"{}") as heard:
            await Aggregated(tmp_path).get(request(CHECKED, "POST", b"partitions: []"))
        assert heard[0].startswith(b"POST /ws/v1/validate-conf? HTTP/1.0\r\n")
        assert heard[0].endswith(b"\r\n\r\npartitions: []")

    asyncio.run(scene())
    assert refusal(tmp_path / "", request(PENDING, "POST")).code == 405
    assert refusal(tmp_path, request(CHECKED)).code == 405
    assert refusal(tmp_path, request(PENDING, "DELETE")).code == 405


def test_a_configuration_is_at_most_as_large_as_a_config_map(tmp_path: Path) -> None:
    assert refusal(tmp_path, request(CHECKED, "POST", b"x" * (2**20 + 1))).code == 413


def test_a_body_of_a_get_is_not_forwarded(tmp_path: Path) -> None:
    async def scene() -> None:
        async with scheduler(tmp_path, b"{}") as heard:
            await Aggregated(tmp_path).get(request(PENDING, body=b"secret"))
        assert heard[0].endswith(b"Content-Length: 0\r\n\r\n")

    asyncio.run(scene())


def test_a_stream_is_passed_on_piece_by_piece(tmp_path: Path) -> None:
    async def scene() -> None:
        async with scheduler(tmp_path, b"one\n", b"two\n"):
            found = await Aggregated(tmp_path).get(request(STREAM))
            assert found.stream is not None
            assert b"".join([piece async for piece in found.stream]) == b"one\ntwo\n"
            await found.stream.aclose()

    asyncio.run(scene())


def test_streams_are_limited_for_a_user_and_in_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aggregated, "MOST_STREAMS_OF_ONE", 2)
    monkeypatch.setattr(aggregated, "MOST_STREAMS", 3)

    async def scene() -> None:
        async with scheduler(tmp_path):
            served = Aggregated(tmp_path)
            opened = [await served.get(request(STREAM)) for _ in range(2)]
            with pytest.raises(StatusError, match="Too many streaming connections: 2 of ada, of 2") as raised:
                await served.get(request(STREAM))
            assert raised.value.code == 503
            opened.append(await served.get(request(STREAM, user="bob")))
            with pytest.raises(StatusError, match="0 of eve, of 2, and 3 in all, of 3"):
                await served.get(request(STREAM, user="eve"))
            assert opened[0].stream is not None
            await opened[0].stream.aclose()
            opened[0] = await served.get(request(STREAM))  # a closed stream makes room for another
            for one in opened:
                assert one.stream is not None
                await one.stream.aclose()

    asyncio.run(scene())


def test_a_stream_that_cannot_be_opened_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aggregated, "MOST_STREAMS_OF_ONE", 1)

    async def scene() -> None:
        served = Aggregated(tmp_path)
        for _ in range(2):
            with pytest.raises(StatusError, match="does not respond"):
                await served.get(request(STREAM))
        async with scheduler(tmp_path):
            found = await served.get(request(STREAM))
            assert found.stream is not None
            await found.stream.aclose()

    asyncio.run(scene())
