"""Connections are kept, shared fairly, and never make a write happen twice."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from phalanx.client.http import Http, HttpAnswer

Behave = Callable[[asyncio.StreamReader, asyncio.StreamWriter, int], Awaitable[None]]


def ok(body: bytes = b"", head: bytes = b"") -> bytes:
    return b"HTTP/1.1 200 OK\r\n" + head + b"content-length: %d\r\n\r\n%s" % (len(body), body)


class Server:
    """`behave(reader, writer, number)` is what the number-th connection gets; requests are kept as they came."""

    def __init__(self, behave: Behave) -> None:
        self.behave, self.connections, self.requests = behave, 0, list[str]()

    async def read(self, reader: asyncio.StreamReader) -> str:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = [int(line[15:]) for line in head.split("\r\n") if line.startswith("content-length:")]
        self.requests.append(head.split("\r\n", 1)[0])
        return (await reader.readexactly(length[0])).decode() if length else ""

    def run(self, client: Callable[[Http], Awaitable[Any]], limit: int = 4) -> Any:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self.connections += 1
            try:
                await self.behave(reader, writer, self.connections)
            except (asyncio.IncompleteReadError, ConnectionError):
                pass
            finally:
                writer.close()

        async def whole() -> Any:
            server = await asyncio.start_server(serve, "127.0.0.1", 0)
            http = Http(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/base", tls=None, limit=limit)
            try:
                return await client(http)
            finally:
                http.close()
                server.close()

        return asyncio.run(whole())


async def get(http: Http, target: str = "/a", timeout_s: float = 90) -> HttpAnswer:
    return await http.call("GET", target, "", timeout_s=timeout_s)


def test_calls_share_a_kept_connection() -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> None:
        while True:
            writer.write(ok((await server.read(reader)).upper().encode(), b"X-Kind: loud\r\n"))

    async def client(http: Http) -> list[HttpAnswer]:
        return [await http.call("POST", f"/{word}", "a: b\r\n", word.encode(), timeout_s=90) for word in ("one", "two")]

    server = Server(echo)
    answers = server.run(client)
    assert [answer.body for answer in answers] == [b"ONE", b"TWO"]
    assert answers[0].headers["x-kind"] == "loud"
    assert (server.connections, server.requests) == (1, ["POST /base/one HTTP/1.1", "POST /base/two HTTP/1.1"])


async def once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> None:
    """Answer one request, then hang up on the next one without a word."""
    await reader.readuntil(b"\r\n\r\n")
    writer.write(ok(b"%d" % number))
    await reader.readuntil(b"\r\n\r\n")


def test_a_read_on_a_connection_that_was_closed_meanwhile_is_sent_again() -> None:
    async def client(http: Http) -> list[bytes]:
        return [(await get(http)).body for _ in range(3)]

    assert Server(once).run(client) == [b"1", b"2", b"3"]


def test_a_write_is_not() -> None:
    async def client(http: Http) -> None:
        await get(http)
        await http.call("POST", "/b", "", b"x", timeout_s=90)

    server = Server(once)
    with pytest.raises(ConnectionError):
        server.run(client)
    assert server.connections == 1


def test_calls_beyond_the_limit_wait_for_their_turn() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> None:
        while True:
            await server.read(reader)
            writer.write(ok())

    async def client(http: Http) -> None:
        await asyncio.gather(*(get(http, f"/{number}") for number in range(20)))

    server = Server(answer)
    server.run(client, limit=3)
    assert server.connections <= 3
    assert len(server.requests) == 20


def test_silence_is_a_timeout_and_costs_nobody_else_his_place() -> None:
    async def first_is_mute(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> None:
        await server.read(reader)
        if number == 1:
            await reader.read()
        writer.write(ok(b"later"))

    async def client(http: Http) -> bytes:
        with pytest.raises(TimeoutError):
            await get(http, timeout_s=0.05)
        return (await get(http)).body

    server = Server(first_is_mute)
    assert server.run(client, limit=1) == b"later"


@pytest.mark.parametrize("sent", [b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf", b"SSH-2.0-OpenSSH\r\n\r\n", b""])
def test_what_is_no_whole_answer_is_a_lost_connection(sent: bytes) -> None:
    async def broken(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> None:
        await server.read(reader)
        writer.write(sent)

    server = Server(broken)
    with pytest.raises(ConnectionError):
        server.run(get)


@pytest.mark.parametrize("whole", [True, False])
def test_a_stream_ends_or_breaks(whole: bool) -> None:
    async def chunked(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> None:
        await server.read(reader)
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n")
        writer.write(b"0\r\n\r\n" if whole else b"")

    async def client(http: Http) -> bytes:
        found = b""
        async with http.stream("/log", "", timeout_s=90, quiet_timeout_s=90) as (answer, chunks):
            assert answer.status == 200
            async for chunk in chunks:
                found += chunk
        return found

    server = Server(chunked)
    if whole:
        assert server.run(client) == b"abcde"
    else:
        with pytest.raises(ConnectionError):
            server.run(client)
