"""`cli/cluster/scheduling/answers.py`: what is served on the scheduler's socket."""

from __future__ import annotations

import asyncio
from typing import Any

from phalanx.cli.cluster.scheduling import answers


def test_without_a_folder_nothing_is_served() -> None:
    async def play() -> None:
        words: Any = (None, None, None, None, None)
        async with answers.visible_state(None, *words):
            pass

    asyncio.run(play())
