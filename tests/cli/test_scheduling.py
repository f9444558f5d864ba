"""`cli/cluster/scheduling.py`: the queue statuses that are written at the end, and the tasks that run beside the
scheduling loop."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from phalanx.cli.cluster import scheduling
from phalanx.cli.cluster.scheduling import Glance, accounted, seen
from phalanx.ledger.entry import url_of
from phalanx.model.policy import Policy
from tests.core.builders import cluster, job, node, role


def glance() -> Glance:
    return Glance(cluster(node("n", cpu=8), job("waits", role(cpu=4))), now_s=lambda: 100.0)


def test_statuses_are_computed_by_the_writer_only() -> None:
    one = glance()
    assert (one.standings, one.starts()) == ((), {})
    found = one.look()
    assert [each.queue for each in found if hasattr(each, "queue")] or found
    assert one.standings is found
    assert one.overview is not None


def test_expected_starts_are_those_of_the_last_look() -> None:
    one = glance()
    places = [SimpleNamespace(job="a", start_s=7.0), SimpleNamespace(job="b", start_s=None)]
    one.standings = [SimpleNamespace(first=places)]  # type: ignore[list-item]  # a double
    assert one.starts() == {"a": 7.0}


def test_figures_take_at_most_a_twentieth_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s, cost_s, computed = 0.0, 2.0, 0

    def source_of(*_: Any) -> object:
        nonlocal now_s, computed
        now_s, computed = now_s + cost_s, computed + 1
        return object()

    monkeypatch.setattr(scheduling.time, "monotonic", lambda: now_s)
    monkeypatch.setattr(scheduling.answering, "source_of", source_of)
    one = glance()
    first = one.numbers()
    for at_s, again in ((3.0, False), (39.9, False), (40.1, True)):
        now_s = at_s
        assert (one.numbers() is not first) is again
    assert computed == 2
    cost_s, now_s = 0.0, 1000.0
    cheap = one.numbers()
    now_s = 1000.9
    assert one.numbers() is cheap
    now_s = 1001.1
    assert one.numbers() is not cheap


def test_a_job_that_is_gone_has_no_reason() -> None:
    assert glance()._reason("none") is None


def test_statuses_are_written_only_while_this_process_leads() -> None:
    fence_s = 0.0
    world: Any = SimpleNamespace(queues=SimpleNamespace(wrong={"q": "broken"}))
    lease: Any = SimpleNamespace(fence=lambda: fence_s)
    informers: Any = lambda kind: SimpleNamespace(objects={"q": {}})  # noqa: E731 (it stands for the caches)

    async def play() -> None:
        nonlocal fence_s
        source = seen(world, glance(), informers, lease)
        assert source.wrong() == {"q": "broken"}
        assert source.objects() == {"q": {}}
        assert not source.may_write()
        fence_s = asyncio.get_running_loop().time() + 60
        assert source.may_write()

    asyncio.run(play())


def test_without_a_ledger_the_world_is_not_recorded(tmp_path: Path) -> None:
    inner: Any = object()
    with accounted(inner, SimpleNamespace(), SimpleNamespace(), None) as found:  # type: ignore[arg-type]  # unused
        assert found is inner
    assert list(tmp_path.iterdir()) == []


def test_with_a_ledger_the_jobs_of_the_world_are_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inner: Any = object()
    world: Any = SimpleNamespace(caches=SimpleNamespace(words=None, served=()))
    monkeypatch.setattr("phalanx.cli.cluster.accounting.Objects.follow", lambda *_: None)
    with accounted(inner, world, SimpleNamespace(), url_of(tmp_path / "l.sqlite3")) as found:  # type: ignore[arg-type]  # unused
        assert found is not inner
    assert (tmp_path / "l.sqlite3").exists()


def test_a_recording_is_closed_when_the_loop_ends(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    events: list[str] = []

    class Recorder:
        clock = staticmethod(lambda: 5.0)

        def __init__(self, *_: Any) -> None:
            events.append("open")

        def close(self) -> None:
            events.append("close")

    async def run(world: Any, state: Any, policy: Any, clock: Any) -> None:
        events.append(type(world).__name__)
        raise RuntimeError("a defect")

    monkeypatch.setattr(scheduling, "Recorder", Recorder)
    monkeypatch.setattr(scheduling.loop, "run", run)
    for record in (tmp_path / "r", None):
        with pytest.raises(RuntimeError):
            asyncio.run(scheduling._run(SimpleNamespace(), cluster(), Policy(), record, lambda: 0.0))  # type: ignore[arg-type]  # a double
    assert events == ["open", "Recorder", "close", "SimpleNamespace"]


def test_scheduling_begins_when_this_process_leads(monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []

    @asynccontextmanager
    async def leading(lease: Any) -> Any:
        events.append("waits")
        yield
        events.append("gives up")

    async def lead(*_: Any) -> None:
        events.append("schedules")

    monkeypatch.setattr(scheduling, "leading", leading)
    monkeypatch.setattr(scheduling, "_lead", lead)
    words: Any = (None, None, None, None)
    asyncio.run(scheduling.schedule(*words, leads=lambda: events.append("leads")))
    assert events == ["waits", "leads", "schedules", "gives up"]


def test_without_a_folder_nothing_is_served() -> None:
    async def play() -> None:
        words: Any = (None, None, None, None, None)
        async with scheduling._visible(None, *words):
            pass

    asyncio.run(play())
