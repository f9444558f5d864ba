"""`cli/cluster/scheduling/schedule.py`: scheduling begins with the leadership."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import Any

import pytest

from phalanx.cli.cluster.scheduling import schedule


def test_scheduling_begins_when_this_process_leads(monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []

    @asynccontextmanager
    async def leading(lease: Any) -> Any:
        events.append("waits")
        yield
        events.append("gives up")

    async def lead(*_: Any) -> None:
        events.append("schedules")

    monkeypatch.setattr(schedule, "leading", leading)
    monkeypatch.setattr(schedule, "_lead", lead)
    words: Any = (None, None, None, None)
    asyncio.run(schedule.schedule(*words, leads=lambda: events.append("leads")))
    assert events == ["waits", "leads", "schedules", "gives up"]
