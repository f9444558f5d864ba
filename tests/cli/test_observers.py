"""`cli/cluster/scheduling/observers.py`: the ledger and the recording of a scheduler."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from phalanx.cli.cluster.scheduling import observers
from phalanx.cli.cluster.scheduling.observers import accounted
from phalanx.ledger.entry import url_of
from phalanx.model.policy import Policy
from tests.core.builders import cluster


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

    monkeypatch.setattr(observers, "Recorder", Recorder)
    monkeypatch.setattr(observers.loop, "run", run)
    for record in (tmp_path / "r", None):
        with pytest.raises(RuntimeError):
            asyncio.run(observers.run_recorded(SimpleNamespace(), cluster(), Policy(), record, lambda: 0.0))  # type: ignore[arg-type]  # a double
    assert events == ["open", "Recorder", "close", "SimpleNamespace"]
