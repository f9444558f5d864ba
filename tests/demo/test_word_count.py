"""Driver and executors count together over real sockets; the API is a fake that starts executors as tasks."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import Any

import pytest

from phalanx.demo import driver as driver_module
from phalanx.demo.application import driver
from phalanx.demo.driver import WordCount, drive
from phalanx.demo.executor import work
from phalanx.demo.wire import ConnectionLost, Hello, receive, send
from phalanx.demo.words import count, parts, read_summary, summarize
from phalanx.errors import PhalanxError

TEXTS = ["the cat and the hat", "The dog's hat", "and a cat"]
WHOLE = Counter({"the": 3, "cat": 2, "and": 2, "hat": 2, "dog's": 1, "a": 1})


class FakeApi:
    """Runs each created executor pod at once, from nothing but its environment."""

    def __init__(self) -> None:
        self.pods: list[dict[str, Any]] = []
        self.running: list[asyncio.Task[int]] = []

    async def get(self, kind: object, name: str, namespace: str) -> dict[str, Any]:
        pod = driver("app-1", namespace, "default", "gangs")
        pod["metadata"]["uid"] = "uid-1"
        return pod

    async def create(self, kind: object, pod: dict[str, Any], namespace: str) -> None:
        self.pods.append(pod)
        env = {entry["name"]: entry.get("value", "") for entry in pod["spec"]["containers"][0]["env"]}
        host, _, port = env["DRIVER_ADDRESS"].rpartition(":")
        running = work(host, int(port), env["DRIVER_TOKEN"], pod["metadata"]["name"])
        self.running.append(asyncio.ensure_future(running))


async def serving(job: WordCount) -> tuple[asyncio.Server, int]:
    server = await asyncio.start_server(job.serve, "127.0.0.1", 0)
    return server, server.sockets[0].getsockname()[1]


async def test_a_driver_asks_for_two_executors_and_prints_what_they_counted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(driver_module, "parts", lambda: TEXTS)
    api = FakeApi()
    await drive(api, "app-1-driver", "demo", "127.0.0.1")  # type: ignore[arg-type]  # the two calls it makes
    assert [pod["metadata"]["name"] for pod in api.pods] == ["app-1-executor-1", "app-1-executor-2"]
    assert sum(await asyncio.gather(*api.running)) == len(TEXTS)
    assert read_summary(capsys.readouterr().out.splitlines()[-1]) == summarize(WHOLE)


async def test_an_executor_belongs_to_its_driver_and_to_its_gang() -> None:
    api = FakeApi()
    me = await api.get(None, "app-1-driver", "demo")
    pod = driver_module.executor(me, 1, "127.0.0.1:1", "token")
    assert pod["metadata"]["labels"]["phalanx.dev/job"] == me["metadata"]["labels"]["phalanx.dev/job"]
    assert pod["metadata"]["ownerReferences"][0]["uid"] == "uid-1"


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
        with pytest.raises(PhalanxError, match="3 parts are not counted and every executor is lost"):
            await job.finished()


def test_the_text_is_real_and_splitting_it_changes_no_count() -> None:
    some = [text for _, text in zip(range(3), parts(20_000), strict=False)]
    assert sum((count(text) for text in some), Counter()) == count("\n".join(some))
    assert sum(map(len, some)) > 20_000


def test_a_summary_is_one_line_of_json() -> None:
    assert json.loads(summarize(WHOLE).line())["words"] == 11
