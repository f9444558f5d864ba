"""Point 8 of the protocol: a victim is marked before any of its pods ends, keeps its nodes until its last pod is
deleted, and is then pending again with its age. Also gangs that only shrink."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from phalanx.client.kind import EVENTS, NODES
from phalanx.kube.gang.lifecycle import decisions
from phalanx.kube.read.labels import ADMITTED, PARALLELISM, PREEMPTED, REASON
from phalanx.model.job import Phase, Slot
from phalanx.model.plan import Preempt, Shrink
from phalanx.model.reason import Reason, ReasonCode
from tests import clockwork
from tests.kube.double import Object, job, node
from tests.kube.stage import Stage

WHY = Reason(code=ReasonCode.PREEMPTED, text="it gives way to default/b", numbers={"by": "default/b"})


def preempt(name: str, grace_s: float | None = None) -> Preempt:
    return Preempt(f"default/{name}", 1, "default/b", WHY, grace_s)


def words(stage: Stage, name: str) -> dict[str, str]:
    found: dict[str, str] = stage.api.job(name)["metadata"].get("annotations", {})
    return found


def running(stage: Stage, name: str) -> bool:
    return f"default/{name}" in stage.cluster.jobs and stage.phase(name) is Phase.RUNNING


def again(stage: Stage, name: str) -> bool:
    return stage.cluster.jobs[f"default/{name}"].attempt == 2


def test_a_job_is_marked_and_suspended_in_one_write_and_keeps_its_room_until_its_pods_are_gone() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1")])
        stage.put(job("a", 4))
        async with stage.scheduler():
            await stage.until(lambda: running(stage, "a"))
            age_s, writes = stage.cluster.jobs["default/a"].job.submitted_s, len(stage.api.writes)
            stage.controller.slow = True
            stage.put(job("b", 4))
            stage.decide(preempt("a"))
            for _ in range(10):
                await stage.turn()
            assert stage.api.writes[writes:] == ["patch jobs/a"]
            assert stage.api.job("a")["spec"]["suspend"] is True
            assert json.loads(words(stage, "a")[PREEMPTED])["by"] == "default/b"
            assert words(stage, "a")[REASON] == "Preempted: it gives way to default/b"
            assert ADMITTED not in words(stage, "a")
            assert stage.phase("a") is Phase.STOPPING
            assert stage.phase("b") is Phase.QUEUED
            stage.controller.slow = False
            await stage.until(lambda: again(stage, "a"))  # the older one: it comes first, without a rest
            assert stage.cluster.jobs["default/a"].job.submitted_s == age_s

    clockwork.run(scene())


def test_it_starts_again_and_the_mark_goes() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1")])
        stage.put(job("a", 4))
        async with stage.scheduler():
            await stage.until(lambda: running(stage, "a"))
            stage.decide(preempt("a"))
            await stage.until(lambda: again(stage, "a") and running(stage, "a"))
            assert PREEMPTED not in words(stage, "a")

    clockwork.run(scene())


def test_the_queue_may_give_pods_less_time_to_end_than_they_ask() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1")])
        stage.put(job("a", 2))
        async with stage.scheduler():
            await stage.until(lambda: running(stage, "a"))
            stage.controller.slow = True
            stage.decide(preempt("a", grace_s=5.0))
            for _ in range(6):
                await stage.turn()
            graces = {one["metadata"]["deletionGracePeriodSeconds"] for one in stage.api.pods("a")}
            assert graces == {5}

    clockwork.run(scene())


def test_all_jobs_of_a_gang_give_way_together() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1")])
        stage.put(job("ps", 1, job="t", job_roles="2"), job("w", 2, job="t", job_roles="2"))
        async with stage.scheduler():
            await stage.until(lambda: running(stage, "t"))
            stage.controller.slow = True
            stage.decide(preempt("t"))
            for _ in range(5):
                await stage.turn()
            assert all(stage.api.job(name)["spec"]["suspend"] for name in ("ps", "w"))
            assert stage.phase("t") is Phase.STOPPING
            stage.controller.slow = False
            await stage.until(lambda: again(stage, "t") and running(stage, "t"))

    clockwork.run(scene())


def test_a_decision_about_an_earlier_start_is_passed_over() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1")])
        stage.put(job("a", 4))
        async with stage.scheduler():
            await stage.until(lambda: running(stage, "a"))
            decisions.preempt(stage.world.gangs["default/a"], Preempt("default/a", 7, "default/b", WHY))
            for _ in range(5):
                await stage.turn()
            assert running(stage, "a")

    clockwork.run(scene())


def test_it_is_told_in_an_event() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1")])
        stage.put(job("a", 1))
        async with stage.scheduler():
            reporting = asyncio.ensure_future(stage.world.effects.reporter.run())
            await stage.until(lambda: running(stage, "a"))
            stage.decide(preempt("a"))
            await stage.until(lambda: again(stage, "a"))
            told = [event["reason"] for event in stage.world.effects.reporter._events]
            told += [event["reason"] for event in stage.api.objects[EVENTS].values()]
            assert "Preempted" in told
            reporting.cancel()

    clockwork.run(scene())


def elastic(name: str, pods: int, least: int) -> Object:
    return job(name, pods, min_available=str(least))


def pods_of(stage: Stage, name: str) -> list[Any]:
    return [one for one in stage.api.pods(name) if "deletionTimestamp" not in one["metadata"]]


def test_an_elastic_job_runs_as_many_pods_as_were_placed_and_grows_with_the_room() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 3)])
        stage.put(elastic("a", 6, 2))
        async with stage.scheduler():
            await stage.until(lambda: running(stage, "a"))
            assert stage.api.job("a")["spec"]["parallelism"] == 3
            assert words(stage, "a")[PARALLELISM] == "3 of 6"
            assert len(pods_of(stage, "a")) == 3
            stage.put_node(node("n2", 2))
            await stage.until(lambda: len(stage.api.bound()) == 5)
            assert stage.api.job("a")["spec"]["parallelism"] == 5
            stage.put_node(node("n3", 8))
            await stage.until(lambda: len(stage.api.bound()) == 6)
            assert PARALLELISM not in words(stage, "a")

    clockwork.run(scene())


def test_pods_that_lost_their_nodes_before_they_were_bound_are_taken_back() -> None:
    """It grew onto a node that went: the Job is not left with pods that only wait."""

    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 2)])
        stage.put(elastic("a", 4, 2))
        async with stage.scheduler():
            await stage.until(lambda: running(stage, "a"))
            stage.fault = lambda write: "it is full" if write.startswith("bind") else None
            stage.put_node(node("n2", 2))
            await stage.until(lambda: stage.api.job("a")["spec"]["parallelism"] == 4)
            stage.api.drop(NODES, "n2")
            for _ in range(10):
                await stage.turn()
                await asyncio.sleep(1.0)
            stage.now_s += stage.timeouts.place_s + 1.0
            await stage.until(lambda: stage.api.job("a")["spec"]["parallelism"] == 2)
            await stage.until(lambda: len(pods_of(stage, "a")) == 2)
            assert running(stage, "a")

    clockwork.run(scene())


def test_it_gives_up_what_is_above_its_minimum_and_asks_again_later() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 4)])
        stage.put(elastic("a", 4, 2))
        async with stage.scheduler():
            await stage.until(lambda: len(stage.api.bound()) == 4)
            await stage.until(lambda: running(stage, "a"))
            stage.decide(Shrink("default/a", (Slot(0, 3), Slot(0, 2)), "default/b", WHY))
            await stage.until(lambda: len(stage.cluster.jobs["default/a"].placements) == 2)
            assert stage.api.job("a")["spec"]["parallelism"] == 2
            assert not stage.cluster.jobs["default/a"].leaving
            assert stage.phase("a") is Phase.RUNNING
            for _ in range(5):
                await stage.turn()
            assert len(pods_of(stage, "a")) == 2
            stage.now_s += 61.0
            await stage.until(lambda: len(stage.api.bound()) == 4)

    clockwork.run(scene())


def test_a_smaller_job_is_smaller_after_a_restart_and_whole_again_when_it_waits() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 4)])
        stage.put(elastic("a", 4, 2))
        async with stage.scheduler():
            await stage.until(lambda: running(stage, "a"))
            stage.decide(Shrink("default/a", (Slot(0, 3), Slot(0, 2)), "default/b", WHY))
            await stage.until(lambda: len(stage.cluster.jobs["default/a"].placements) == 2)
        async with stage.scheduler():
            await stage.turn()
            assert len(stage.cluster.jobs["default/a"].placements) == 2
            stage.decide(preempt("a"))
            await stage.until(lambda: len(stage.api.bound()) == 4)
            assert stage.api.job("a")["spec"]["parallelism"] == 4

    clockwork.run(scene())
