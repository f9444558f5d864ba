"""`kube/world/opening.py`: the objects that are installed before a world is read, and the tasks of an open world."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from phalanx.client.informer import Informer
from phalanx.client.kind import Kind
from phalanx.kube.install.installation import Installation
from phalanx.kube.routing.settings import KubeSettings
from phalanx.kube.world import opening
from tests import clockwork


class Opened:
    """A world that records how it was opened. `running`: whether its task runs."""

    def __init__(self, api: object, informers: object, settings: KubeSettings, *others: object) -> None:
        self.settings, self.others, self.is_listed, self.running = settings, others, False, False

    async def sync(self, usage: object) -> None:
        self.is_listed = usage == "past usage"

    def tasks(self) -> list[Callable[[], Coroutine[Any, Any, None]]]:
        return [self._run]

    async def _run(self) -> None:
        self.running = True
        try:
            await asyncio.Event().wait()
        finally:
            self.running = False


def informer(kind: Kind) -> Informer:
    return Informer(None, kind)  # type: ignore[arg-type]  # never runs


@pytest.fixture(autouse=True)
def _doubles(monkeypatch: pytest.MonkeyPatch) -> None:
    async def install_all(api: object, clock: object, dialects: object) -> Installation:
        return Installation(unread=frozenset({"volcano"}))

    monkeypatch.setattr(opening, "install_all", install_all)
    monkeypatch.setattr(opening, "load_usage", lambda api: "past usage")
    monkeypatch.setattr(opening, "KubeWorld", Opened)


def opened(settings: KubeSettings | None = None) -> tuple[Any, list[bool]]:
    """Open and close a world. Return the world, and whether its task ran while the world was open, and afterwards."""
    running: list[bool] = []

    async def scene() -> Any:
        async with opening.open_world(None, informer, settings) as world:  # type: ignore[arg-type]  # unused
            await asyncio.sleep(0)
            assert isinstance(world, Opened)
            running.append(world.running and world.is_listed)
        running.append(world.running)
        return world

    return clockwork.run(scene()), running


def test_the_tasks_of_a_world_end_with_it() -> None:
    assert opened()[1] == [True, False]


def test_a_dialect_whose_kinds_are_served_in_another_version_is_left_out() -> None:
    world, _ = opened(KubeSettings(dialects=frozenset({"kueue", "volcano"})))
    assert world.settings.dialects == {"kueue"}
