"""`agent/attempt_watch.py`: stop an attempt step by step, and clean up after its end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from phalanx.embedded.node.agent import attempt_watch
from phalanx.embedded.node.agent.attempt_watch import AttemptWatch, clean_up, run_post_start
from phalanx.embedded.node.container.attempt import Planned, RunSpec
from tests.embedded.node.objects import Object, container, exited, running
from tests.embedded.node.waiting import until


class StandIn:
    """An attempt that records the calls of its methods. `over`: set at its end."""

    def __init__(self, folder: Path) -> None:
        self.did: list[str] = []
        self.over = asyncio.Event()
        self.state: Any = running()
        self.log = folder / "0.log"
        self.spec = RunSpec(argv=("true",), env={})

    def note(self, told: str) -> None:
        self.did.append(f"note {told}")

    def terminate(self) -> None:
        self.did.append("SIGTERM")

    def kill(self) -> None:
        self.did.append("SIGKILL")

    def settle(self) -> Any:
        return self.state

    async def ended(self) -> None:
        await self.over.wait()


def watched(
    folder: Path, then: Callable[[AttemptWatch, StandIn, list[str]], Awaitable[None]], spec: Object, state: Any = None
) -> None:
    """Watch a stand-in with this container, and release it after `then`, which gets the recorded news."""

    async def run() -> None:
        attempt: Any = StandIn(folder)
        attempt.state = state or running()
        news: list[str] = []
        watch = AttemptWatch(
            attempt,
            attempt.state,
            spec,
            "127.0.0.1",
            lambda reason, message, *, kind="Normal": news.append(f"{reason}: {message}"),
            lambda: news.append("changed"),
        )
        await then(watch, attempt, news)
        watch.release()

    asyncio.run(run())


def test_a_stop_is_a_note_then_sigterm_then_sigkill(tmp_path: Path) -> None:
    async def then(watch: AttemptWatch, attempt: StandIn, news: list[str]) -> None:
        due_s = watch.stop(30.0, "the pod was deleted")
        assert due_s > time.time() + 25.0
        assert attempt.did == ["note the pod was deleted", "SIGTERM"]
        assert watch.stop(30.0, "the pod was deleted") == due_s
        assert attempt.did[2:] == []
        assert watch.stop(0.0, "the pod was deleted") < time.time() + 1.5
        assert attempt.did[2:] == ["SIGKILL"]
        assert news == ["Killing: Stopping container main"]

    watched(tmp_path, then, container())


def test_sigterm_waits_for_the_hook_before_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = asyncio.Event()

    async def hook(attempt: Any, command: list[str], timeout_s: float | None) -> str:
        assert (command, timeout_s) == (["drain"], 30.0)
        await done.wait()
        return "exit code 1: busy"

    monkeypatch.setattr(attempt_watch, "run_hook", hook)

    async def then(watch: AttemptWatch, attempt: StandIn, news: list[str]) -> None:
        watch.stop(30.0, "x")
        await asyncio.sleep(0)
        watch.stop(30.0, "x")
        assert attempt.did == ["note x"]
        done.set()
        await until(lambda: "changed" in news)
        assert "FailedPreStopHook: PreStopHook failed: exit code 1: busy" in news
        watch.stop(30.0, "x")
        assert attempt.did == ["note x", "SIGTERM"]

    watched(tmp_path, then, container(lifecycle={"preStop": {"exec": {"command": ["drain"]}}}))


def test_the_end_of_the_attempt_is_news(tmp_path: Path) -> None:
    async def then(watch: AttemptWatch, attempt: StandIn, news: list[str]) -> None:
        assert watch.is_ready
        assert watch.is_started
        attempt.over.set()
        await until(lambda: news == ["changed"])

    watched(tmp_path, then, container())


def test_an_attempt_that_another_process_starts_is_not_ready(tmp_path: Path) -> None:
    async def then(watch: AttemptWatch, attempt: StandIn, news: list[str]) -> None:
        assert not watch.is_ready
        assert not watch.is_started
        attempt.state = running()
        await until(lambda: news == ["changed"])

    watched(tmp_path, then, container(), Planned())


def test_a_failed_hook_after_the_start_dooms_the_attempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def hook(attempt: Any, command: list[str], timeout_s: float | None) -> str:
        return "" if command == ["good"] else "exit code 2: no"

    monkeypatch.setattr(attempt_watch, "run_hook", hook)
    attempt: Any = None
    for command, doomed in (("good", ""), ("bad", "PostStartHook failed: exit code 2: no")):
        spec = container(lifecycle={"postStart": {"exec": {"command": [command]}}})
        assert asyncio.run(run_post_start(attempt, spec)) == doomed
    assert asyncio.run(run_post_start(attempt, container())) == ""


def test_a_failed_attempt_leaves_the_end_of_its_log(tmp_path: Path) -> None:
    attempt: Any = StandIn(tmp_path)
    attempt.log.write_text("2024-01-01T00:00:00Z stdout F all is well\n2024-01-01T00:00:01Z stderr F no such file\n")
    asks = container(terminationMessagePolicy="FallbackToLogsOnError")
    end = clean_up(attempt, exited(3), asks)
    assert end.message == end.log_end == "all is well\nno such file\n"
    assert clean_up(attempt, exited(3), container()).message == ""
    assert clean_up(attempt, exited(0), asks).log_end == ""


def test_an_attempt_without_memory_has_the_reason_as_its_message(tmp_path: Path) -> None:
    attempt: Any = StandIn(tmp_path)
    spec = container(resources={"limits": {"memory": "64Mi"}})
    end = clean_up(attempt, exited(137, signal=9, reason="OOMKilled", peak_memory_bytes=64 << 20), spec)
    assert "its limit is 64Mi, its peak was 64Mi" in end.message
