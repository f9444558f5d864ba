"""The order of the requests when a scheduler starts: the long lists do not wait for anything else."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from phalanx.client.informer import Informer
from phalanx.client.kind import JOBS, NODES, PODS, Kind
from phalanx.dialects.enabled import RIVALS
from phalanx.kube.install.rivals import refuse_beside_rivals
from phalanx.kube.world.opening import open_world


class Stopped(Exception):
    """The part of the start that a test is about is over."""


class Waiting:
    """An API that answers no call before `ready` is set, and then stops the start. `enough`: it is ready when this
    number of calls wait."""

    def __init__(self, enough: int = 0) -> None:
        self.ready = asyncio.Event()
        self.asked: list[str] = []
        self._enough = enough

    async def get(self, kind: Kind, name: str, namespace: str = "") -> Any:
        self.asked.append(name)
        if len(self.asked) == self._enough:
            self.ready.set()
        async with asyncio.timeout(60):
            await self.ready.wait()
        raise Stopped


def test_pods_jobs_and_nodes_are_listed_while_definitions_are_installed() -> None:
    async def play() -> list[Kind]:
        api, listed = Waiting(), list[Kind]()

        def informers(kind: Kind) -> Informer:
            listed.append(kind)
            if {PODS, JOBS, NODES} <= set(listed):
                api.ready.set()
            return Informer(api, kind)  # type: ignore[arg-type]  # never runs

        with pytest.raises(Stopped):
            async with open_world(api, informers):  # type: ignore[arg-type]  # it answers as one does
                pass
        assert "queues.phalanx.dev" in api.asked
        return listed

    assert asyncio.run(play()) == [PODS, JOBS, NODES]


def test_schedulers_that_dialects_replace_are_looked_for_at_the_same_time() -> None:
    api = Waiting(enough=len(RIVALS))
    with pytest.raises(Stopped):
        asyncio.run(refuse_beside_rivals(api, RIVALS, now_s=0.0))  # type: ignore[arg-type]  # it answers as one does
    assert len(api.asked) == len(RIVALS)
