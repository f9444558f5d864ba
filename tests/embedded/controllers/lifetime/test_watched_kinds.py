"""`lifetime/watched_kinds.py`: the watched kinds, and the wait for their first lists, without a server."""

from __future__ import annotations

import asyncio
import gc
from types import SimpleNamespace
from typing import Any, cast

from phalanx.client.informer import Change, Informer
from phalanx.client.kind import PODS, SECRETS
from phalanx.embedded.controllers.lifetime.watched_kinds import WatchedKinds


def test_a_wait_that_a_new_kind_cuts_short_leaves_no_failure_behind() -> None:
    left: list[dict[str, Any]] = []

    async def play() -> bool:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: left.append(context))
        kinds = WatchedKinds(cast(Any, None), cast(Any, None), lambda change: None)
        never = cast(Any, SimpleNamespace(synced=asyncio.Event()))
        kinds._caches |= {PODS: never, SECRETS: never}
        asyncio.get_running_loop().call_soon(kinds._stale.set)
        synced = await kinds._synced()
        await asyncio.sleep(0)
        gc.collect()
        return synced

    assert asyncio.run(play()) is False
    gc.collect()
    assert left == []


def test_a_kind_that_is_no_longer_served_takes_its_objects_along() -> None:
    changes = list[Change]()

    async def play() -> None:
        detached = list[Any]()
        calls: Any = SimpleNamespace(attach=lambda kind, cache: None, detach=detached.append)
        kinds = WatchedKinds(cast(Any, None), calls, changes.append)
        cache = Informer(cast(Any, None), SECRETS)
        calls.cache = {SECRETS: cache}.__getitem__
        async with asyncio.TaskGroup() as group:
            kinds._watch(group, SECRETS, own=False)
            cache.observe({"metadata": {"name": "s", "namespace": "n", "uid": "u", "resourceVersion": "1"}})
            assert kinds.object(SECRETS, "n/s") is not None
            kinds._unwatch(SECRETS)
        assert (kinds.object(SECRETS, "n/s"), detached) == (None, [])

    asyncio.run(play())
    assert [(change.old is None, change.new is None) for change in changes] == [(True, False), (False, True)]


def test_an_unknown_kind_makes_it_look_again() -> None:
    async def play() -> bool:
        kinds = WatchedKinds(cast(Any, None), cast(Any, None), lambda change: None)
        assert kinds.named("example.org/v1", "Toy") is None
        return kinds._stale.is_set()

    assert asyncio.run(play())
