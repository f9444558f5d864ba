"""A decision that broke a promise: what it was decided on is listed again before anything of it is carried out."""

from __future__ import annotations

import asyncio
import logging

import pytest

from phalanx import loop
from phalanx.client.connection import ApiUnknown
from phalanx.kube.capacity.breaches import BreachRelist
from phalanx.model.policy import Policy
from tests import clockwork
from tests.kube.double import job, node, pod
from tests.kube.stage import Stage
from tests.kube.test_bind_barrier import play


def test_after_a_breach_nothing_is_bound_where_a_pod_is_that_the_watch_kept_from_us() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 4)])
        async with stage.scheduler():
            await stage.turn()
            watchers, stage.api.watchers[:] = list(stage.api.watchers), []
            stage.put(pod("theirs", "4", scheduler="default-scheduler", node="n1"))  # no watch tells it
            stage.api.watchers[:] = watchers
            stage.put(job("ours", 2))
            stage.caches.deliver(all=True)
            stage.cluster.breaches.append("as if more was placed than there is")
            loop.step(stage.cluster, stage.world.events(), Policy(), stage.now_s, stage.world)
            assert stage.api.writes == []  # it waits for the list
            await asyncio.wait_for(stage.world.wait(0.0), 10)
            await clockwork.settle(20)
            stage.cluster.breaches.clear()
            for _ in range(20):
                await stage.turn()
            assert stage.api.bound() == {"theirs": "n1"}

    play(scene())


def test_a_breach_in_each_cycle_is_not_a_list_in_each(caplog: pytest.LogCaptureFixture) -> None:
    async def scene() -> None:
        found, lists = 0, 0

        async def list_again() -> None:
            nonlocal lists
            lists += 1
            raise ApiUnknown("no answer")

        relist = BreachRelist(lambda: found)
        assert not relist.must_relist()
        for found in range(1, 5):
            assert relist.must_relist() is (found == 1)
            await relist.relist_if_due(list_again)
        assert lists == 1

    with caplog.at_level(logging.WARNING):
        asyncio.run(scene())
    assert [record.message for record in caplog.records] == [
        "a decision overcommits a node; all objects are listed again before the decision is carried out",
        "the objects could not be listed again: no answer",
    ]
