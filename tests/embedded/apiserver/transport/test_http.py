"""HTTP as it comes over a socket: in pieces, several at once, malformed, too large."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace

import pytest

from phalanx.embedded.apimachinery.connections import Connections
from phalanx.embedded.apiserver.transport.http import HttpLimits, RawRequest, ServerConnection
from phalanx.embedded.apiserver.transport.request import Response


class Chunks:
    """A stream of two pieces that notes whether it was closed."""

    def __init__(self) -> None:
        self.closed = False
        self.pieces = [b"one", b"two"]

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if not self.pieces:
            raise StopAsyncIteration
        return self.pieces.pop(0)

    async def aclose(self) -> None:
        self.closed = True


async def echo(request: RawRequest) -> Response:
    """Answers what it was asked."""
    if request.path == "/stream":
        return Response(stream=Chunks())
    text = f"{request.method} {request.path} {request.query.decode()} {request.body.decode()}"
    return Response(body=text.encode(), media="text/plain", warnings=('a "quote"\r\nX-Evil: 1',))


LIMITS = HttpLimits(body_bytes=1000)


def talk(*pieces: bytes, app: Callable[[RawRequest], Awaitable[Response]] = echo, until: bytes) -> bytes:
    """Send pieces one after the other, and read until the answer ends so."""

    async def run() -> bytes:
        open_connections: Connections[ServerConnection] = Connections()
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: ServerConnection(app, open_connections, LIMITS), "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)
        answer = await asyncio.wait_for(reader.readuntil(until) if until else reader.read(), 240)
        writer.close()
        server.close()
        return answer

    return asyncio.run(run())


def test_requests_on_one_connection_are_answered_in_order() -> None:
    answer = talk(b"".join(b"GET /%d HTTP/1.1\r\nHost: x\r\n\r\n" % number for number in range(40)), until=b"GET /39  ")
    places = [answer.index(b"GET /%d " % number) for number in range(40)]
    assert places == sorted(places)


def test_a_stream_comes_in_chunks_and_the_connection_lives_on() -> None:
    both = b"GET /stream HTTP/1.1\r\nHost: x\r\n\r\nGET /after HTTP/1.1\r\nHost: x\r\n\r\n"
    answer = talk(both, until=b"GET /after  ")
    assert b"transfer-encoding: chunked\r\n\r\n3\r\none\r\n3\r\ntwo\r\n0\r\n\r\nHTTP/1.1 200 OK" in answer


def test_a_warning_cannot_add_a_header() -> None:
    answer = talk(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", until=b"GET /  ")
    assert b'warning: 299 - "a \\"quote\\"  X-Evil: 1"\r\n' in answer


def test_a_request_to_upgrade_is_answered_as_a_plain_one() -> None:
    asked = b"GET /w HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    assert b"HTTP/1.1 200 OK" in talk(asked, until=b"")


def test_head_has_a_length_and_no_body() -> None:
    answer = talk(b"HEAD / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", until=b"")
    assert b"content-length: 8\r\n" in answer
    assert answer.endswith(b"\r\n\r\n")


def test_a_stream_is_closed_when_its_client_goes() -> None:
    stream = Chunks()

    async def app(_: RawRequest) -> Response:
        return Response(stream=stream)

    talk(b"GET /stream HTTP/1.0\r\n\r\n", app=app, until=b"")
    assert stream.closed


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(240):
        while not holds():  # noqa: ASYNC110 -- what is waited for is in the protocol
            await asyncio.sleep(0.001)


@contextlib.asynccontextmanager
async def one_connection(
    limits: HttpLimits, app: Callable[[RawRequest], Awaitable[Response]] = echo
) -> AsyncIterator[tuple[ServerConnection, asyncio.StreamReader, asyncio.StreamWriter]]:
    """The server's end of a connection, and the client's."""
    opened: Connections[ServerConnection] = Connections()
    server = await asyncio.get_running_loop().create_server(
        lambda: ServerConnection(app, opened, limits), "127.0.0.1", 0
    )
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    try:
        await until(lambda: bool(opened))
        (connection,) = opened
        yield connection, reader, writer
    finally:
        writer.transport.abort()
        server.close()


@pytest.mark.slow
def test_an_answer_that_nobody_reads_is_given_up() -> None:
    async def large(_: RawRequest) -> Response:
        return Response(body=b"x" * 64 * 2**20)

    async def run() -> None:
        async with one_connection(replace(LIMITS, unread_s=10.0), large) as (connection, _, writer):
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            await until(lambda: connection._unread_s is not None)
            assert connection._unread_s is not None
            connection.expire(connection._unread_s + 9.0)
            assert not connection._transport.is_closing()
            connection.expire(connection._unread_s + 11.0)
            assert connection._transport.is_closing()

    asyncio.run(run())


def test_a_connection_that_nobody_uses_is_closed() -> None:
    async def run() -> bytes:
        async with one_connection(LIMITS) as (connection, reader, _):
            connection.expire(connection.active_s + LIMITS.idle_s + 1.0)
            return await asyncio.wait_for(reader.read(), 30)

    assert asyncio.run(run()) == b""


def test_where_bodies_take_too_much_the_one_that_came_longest_goes() -> None:
    limits = HttpLimits(body_bytes=1000, held_bytes=1500, small_bytes=100)

    async def run() -> tuple[bytes, bytes]:
        opened: Connections[ServerConnection] = Connections()
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: ServerConnection(echo, opened, limits), "127.0.0.1", 0)
        first, second = [await asyncio.open_connection(*server.sockets[0].getsockname()) for _ in range(2)]
        head = b"POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 1000\r\n\r\n"
        first[1].write(head + b"x" * 900)
        await until(lambda: sum(one.held_bytes for one in opened) >= 900)
        second[1].write(head + b"y" * 1000)
        answers = [await asyncio.wait_for(reader.read(), 30) for reader, _ in (first, second)]
        for _, writer in (first, second):
            writer.close()
        server.close()
        return answers[0], answers[1]

    slow, quick = asyncio.run(run())
    assert slow.startswith(b"HTTP/1.1 429 ")
    assert quick.startswith(b"HTTP/1.1 200 ")
