"""`cli/cluster/scheduling/upkeep.py`: the tasks beside the scheduling loop."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from phalanx.cli.cluster.scheduling import upkeep
from phalanx.cli.cluster.scheduling.upkeep import seen
from tests.cli.test_glance import glance


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


async def test_the_tasks_run_until_the_context_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[str] = []

    def endless(name: str) -> Any:
        async def run(*_: Any) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                ended.append(name)

        return run

    monkeypatch.setattr(upkeep, "keep_queue_statuses", endless("statuses"))
    monkeypatch.setattr(upkeep, "keep_usage", endless("usage"))
    monkeypatch.setattr(upkeep, "unattended_pods", lambda *_: SimpleNamespace(run=endless("pods")))
    world: Any = SimpleNamespace(effects=SimpleNamespace(reporter=SimpleNamespace(object_event=print)))
    none: Any = None
    async with upkeep.upkeep(none, world, glance(), none, none, none, lambda: 0.0):
        await asyncio.sleep(0)
        assert ended == []
    assert sorted(ended) == ["pods", "statuses", "usage"]
