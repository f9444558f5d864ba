"""Driver and executors count together over real sockets; the API is a fake that starts executors as tasks."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from phalanx.demo.driver import WordCount
from phalanx.demo.executor import ConnectionLost, Hello, receive, send, work
from phalanx.errors import PhalanxError

TEXTS = ["the cat and the hat", "The dog's hat", "and a cat"]
WHOLE = Counter({"the": 3, "cat": 2, "and": 2, "hat": 2, "dog's": 1, "a": 1})


async def serving(job: WordCount) -> tuple[asyncio.Server, int]:
    server = await asyncio.start_server(job.serve, "127.0.0.1", 0)
    return server, server.sockets[0].getsockname()[1]


async def test_a_stranger_without_the_token_gets_nothing() -> None:
    server, port = await serving(WordCount(TEXTS, "right", 1))
    async with server:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        await send(writer, Hello("wrong", "stranger"))
        with pytest.raises(ConnectionLost):
            await receive(reader)
        writer.close()


async def test_the_part_of_a_lost_executor_is_counted_by_another() -> None:
    job = WordCount(TEXTS, "token", 2)
    server, port = await serving(job)
    async with server:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        await send(writer, Hello("token", "doomed"))
        await receive(reader)
        writer.close()
        assert await work("127.0.0.1", port, "token", "survivor") == len(TEXTS)
        await job.finished()
    assert job.counts == WHOLE


async def test_a_driver_without_executors_says_so() -> None:
    job = WordCount(TEXTS, "token", 1)
    server, port = await serving(job)
    async with server:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        await send(writer, Hello("token", "doomed"))
        await receive(reader)
        writer.close()
        with pytest.raises(PhalanxError, match="3 parts are not counted, and all executors are lost"):
            await job.finished()
