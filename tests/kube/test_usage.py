"""Point 19 of the protocol: what users have used outlives the scheduler."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from phalanx.client.kind import CONFIG_MAPS
from phalanx.kube.status.usage import NAME, NAMESPACE, keep_usage, load_usage, save_usage, to_save
from phalanx.model.job import Phase
from phalanx.state.usage import DecayedUsage
from tests import clockwork
from tests.kube.double import Api, Client, job, node
from tests.kube.stage import Stage


def client(api: Api) -> Any:
    return Client(api)


def written(api: Api) -> int:
    return sum("configmaps" in write or "ConfigMap" in write for write in api.writes)


def used(*users: tuple[str, str, float]) -> DecayedUsage:
    found = DecayedUsage()
    found.price((("cpu", 0.001),), 0.0, 0.0)
    for queue, user, amount in users:
        found.tell(queue, user, amount, 100.0, 100.0)
    return found


def test_what_was_used_is_known_to_the_next_scheduler_and_what_runs_is_added() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1")])
        stage.put(job("a", 2))
        stage.change("a", {}, {"phalanx.dev/user": "alice"})
        async with stage.scheduler():
            await stage.until(lambda: "default/a" in stage.cluster.jobs and stage.phase("a") is Phase.RUNNING)
            stage.now_s += 1000.0
            await stage.turn()
            assert await save_usage(client(stage.api), stage.cluster.usage, stage.now_s)
        before = stage.cluster.usage.of("default", "alice", stage.now_s)
        assert before == pytest.approx(2 * 1000.0, rel=0.01)
        stage.now_s += 500.0  # nobody schedules, and the job runs on
        async with stage.scheduler():
            await stage.turn()
            after = stage.cluster.usage.of("default", "alice", stage.now_s)
            assert after == pytest.approx(before + 2 * 500.0, rel=0.01)

    clockwork.run(scene())


def test_who_has_used_least_is_forgotten_first() -> None:
    users = used(("q", "bob", 1.0), ("q", "alice", 3.0), ("p", "carol", 2.0), ("p", "nobody", 0.0))
    assert [user for _, user, _ in to_save(users, 100.0).used] == ["alice", "carol", "bob"]
    assert [user for _, user, _ in to_save(users, 100.0, most_bytes=45).used] == ["alice", "carol"]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"at_s": 1, "used": [["q", "u", "much"]]}'])
def test_what_cannot_be_read_counts_as_nothing(text: str) -> None:
    api = Api()
    api.put(CONFIG_MAPS, {"metadata": {"name": NAME, "namespace": NAMESPACE}, "data": {"usage": text}})
    assert clockwork.run(load_usage(client(api))) == []


def test_it_is_written_again_only_while_somebody_holds_something_and_when_it_is_stopped() -> None:
    async def scene() -> None:
        api, usage = Api(), used(("q", "alice", 3.0))
        keeping = asyncio.ensure_future(keep_usage(client(api), usage, lambda: 100.0, pause_s=0.0))
        for _ in range(20):
            await asyncio.sleep(0)
        assert written(api) == 0
        usage.hold("q", "alice", (("cpu", 1000),), 1, 100.0)
        for _ in range(20):
            await asyncio.sleep(0)
        assert written(api) > 2
        usage.hold("q", "alice", (("cpu", 1000),), -1, 100.0)
        for _ in range(20):
            await asyncio.sleep(0)
        at_rest = written(api)
        for _ in range(20):
            await asyncio.sleep(0)
        assert written(api) == at_rest
        keeping.cancel()
        await asyncio.wait([keeping])
        assert written(api) == at_rest + 1
        assert [told.usage for told in await load_usage(client(api))] == [3.0]

    clockwork.run(scene())


def test_who_may_lead_no_more_writes_nothing() -> None:
    api = Api()
    assert not clockwork.run(save_usage(client(api), used(("q", "alice", 3.0)), 100.0, may_write=lambda: False))
    assert written(api) == 0
