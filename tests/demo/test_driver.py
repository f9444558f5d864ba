"""`demo/driver.py`: A driver."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from phalanx.demo import driver as driver_module
from phalanx.demo.driver import drive
from phalanx.demo.executor import work
from phalanx.demo.trial import driver
from phalanx.demo.words import read_summary, summarize
from tests.demo.test_executor_wire import TEXTS, WHOLE


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
