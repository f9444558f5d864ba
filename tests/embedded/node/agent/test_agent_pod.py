"""A pod's supervision as one task: it ends when it is cancelled, whatever comes at the same moment."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from phalanx.embedded.node.agent.pod.agent_pod import AgentPod
from phalanx.embedded.node.pod.record import PodRecord
from tests.embedded.node.objects import pod

RECORD = PodRecord(uid="u", namespace="default", name="p", pod_ip="", start_time="")


@pytest.mark.parametrize("turns", range(4))
def test_it_is_cancelled_also_when_news_comes_just_then(tmp_path: Path, turns: int) -> None:
    async def cancelled() -> bool:
        around: Any = SimpleNamespace(pod_dir=lambda uid: tmp_path, connection=None)
        supervised = AgentPod(pod(), RECORD, around, lambda gone: None)
        waiting = asyncio.create_task(_for_ever(supervised))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        supervised.update(pod())
        for _ in range(turns):
            await asyncio.sleep(0)
        waiting.cancel()
        done, _ = await asyncio.wait({waiting}, timeout=240)
        return waiting in done and waiting.cancelled()

    assert asyncio.run(cancelled())


async def _for_ever(supervised: AgentPod) -> None:
    while True:
        await supervised._sleep(time.time() + 600.0)
        await asyncio.sleep(3600.0)
