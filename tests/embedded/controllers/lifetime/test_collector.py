"""What the collector waits for before it collects, without a server."""

from __future__ import annotations

import asyncio
import gc
from types import SimpleNamespace
from typing import Any, cast

from phalanx.client.kind import PODS, SECRETS
from phalanx.embedded.controllers.lifetime.garbage import GarbageCollector


def test_a_wait_that_a_new_kind_cuts_short_leaves_no_failure_behind() -> None:
    left: list[dict[str, Any]] = []

    async def play() -> bool:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: left.append(context))
        collector = GarbageCollector(cast(Any, None), cast(Any, None))
        never = cast(Any, SimpleNamespace(synced=asyncio.Event()))
        collector._caches |= {PODS: never, SECRETS: never}
        asyncio.get_running_loop().call_soon(collector._stale.set)
        synced = await collector._synced()
        await asyncio.sleep(0)
        gc.collect()
        return synced

    assert asyncio.run(play()) is False
    gc.collect()
    assert left == []
