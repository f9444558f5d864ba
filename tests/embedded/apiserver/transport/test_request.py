"""Requests over HTTP: their limits, and what is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from phalanx.embedded.apiserver.transport.http import HttpLimits
from tests.embedded.apiserver.transport.test_http import one_connection, talk

LIMITS = HttpLimits(body_bytes=1000)


def test_a_request_may_come_in_pieces() -> None:
    answer = talk(b"POST /a%20b?x=1 HT", b"TP/1.1\r\nHost: x\r\nContent-Le", b"ngth: 4\r\n\r\nbo", b"dy", until=b"body")
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert answer.endswith(b"\r\n\r\nPOST /a b x=1 body")


def test_what_is_not_http_is_refused_and_the_connection_closed() -> None:
    assert talk(b"\x16\x03\x01 hello\r\n\r\n", until=b"").startswith(b"HTTP/1.1 400 ")


def test_a_body_beyond_the_limit_is_refused() -> None:
    answer = talk(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1001\r\n\r\n" + b"x" * 1001, until=b"")
    assert answer.startswith(b"HTTP/1.1 413 ")


def test_a_url_beyond_the_limit_is_refused() -> None:
    assert talk(b"GET /" + b"x" * 70_000, until=b"").startswith(b"HTTP/1.1 414 ")


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(240):
        while not holds():  # noqa: ASYNC110 -- what is waited for is in the protocol
            await asyncio.sleep(0.001)


HALF = {
    "a head": b"POST / HTTP/1.1\r\nHost: x\r\nContent-Le",
    "a body": b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nabc",
    "a chunk": b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
    "a second request": b"GET / HTTP/1.1\r\nHost: x\r\n\r\nGET / HT",
}


@pytest.mark.parametrize("written", HALF.values(), ids=HALF)
def test_a_request_that_does_not_end_is_given_up(written: bytes) -> None:
    async def run() -> bytes:
        async with one_connection(replace(LIMITS, request_s=10.0)) as (connection, reader, writer):
            writer.write(written)
            await until(lambda: connection._incoming.begun_s is not None and connection._task is None)
            assert connection._incoming.begun_s is not None
            connection.expire(connection._incoming.begun_s + 9.0)
            assert not connection._transport.is_closing()
            connection.expire(connection._incoming.begun_s + 11.0)
            return await asyncio.wait_for(reader.read(), 30)

    assert b"HTTP/1.1 408 " in asyncio.run(run())
