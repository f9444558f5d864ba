"""A dependency that is over is over for good: its job may be deleted, and the scheduler be another."""

from __future__ import annotations

import json

import pytest

from phalanx.client.kind import JOBS, NODES, PODS
from phalanx.kube.read.labels import AFTER_OUTCOMES
from tests.kube.double import Object, job, node, pod
from tests.kube.stage import Stage
from tests.kube.test_bind_barrier import play, settle

LATER = "2026-01-01T02:00:00Z"


def waiting(kind: str, **said: str) -> Object:
    return job("p4", 1, **said) if kind == "a Job" else pod("p4", queue="default", **said)


def key(kind: str) -> str:
    return "default/p4" if kind == "a Job" else "default/pod:p4"


def noted(stage: Stage, kind: str) -> dict[str, str]:
    found = stage.api.objects[JOBS if kind == "a Job" else PODS]["default/p4"]
    text = (found["metadata"].get("annotations") or {}).get(AFTER_OUTCOMES, "{}")
    return dict(json.loads(text))


def reason(stage: Stage, kind: str) -> str:
    found = stage.cluster.reason(key(kind))
    return "" if found is None else str(found.code)


@pytest.mark.parametrize("kind", ["a Job", "a pod"])
@pytest.mark.parametrize("end", ["Succeeded", "Failed"])
def test_how_a_dependency_ended_outlives_its_job_and_the_scheduler(kind: str, end: str) -> None:
    before = "BeginTime" if end == "Succeeded" else "DependencyNeverSatisfied"  # until its begin time

    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 4)])
        stage.now_s = 1_767_225_600.0
        stage.put(job("p3", 1))
        async with stage.scheduler():
            await stage.until(lambda: len(stage.api.bound()) == 1)
            stage.put(waiting(kind, after="p3", begin=LATER))
            await settle(stage)
            finish(stage, end)
            await stage.until(lambda: noted(stage, kind) == {"default/p3": end.lower()})
            stage.api.drop(JOBS, "default/p3")
            await settle(stage)
            assert reason(stage, kind) == before
        async with stage.scheduler():
            await settle(stage)
            assert reason(stage, kind) == before
            stage.now_s += 7200.0
            await settle(stage)
            assert ("p4" in " ".join(stage.api.bound())) == (end == "Succeeded")
            assert reason(stage, kind) == ("" if end == "Succeeded" else "DependencyNeverSatisfied")

    def finish(stage: Stage, end: str) -> None:
        if end == "Succeeded":
            stage.finish(next(name for name in stage.api.bound() if name.startswith("p3")))
        else:
            failed = {"conditions": [{"type": "Failed", "status": "True"}]}
            stage.api.put(JOBS, {**stage.api.job("p3"), "status": failed})

    play(scene())


def test_that_a_dependency_has_started_is_known_when_it_waits_again() -> None:
    """Its pods were bare, and are gone: nothing on its objects says that it ran."""

    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 4)])
        first = pod("p3-0", queue="default", job="p3", min_available="1")
        stage.put(first, job("p4", 1, after="p3:start", begin=LATER))
        stage.now_s = 1_767_225_600.0
        async with stage.scheduler():
            await stage.until(lambda: noted(stage, "a Job") == {"default/p3": "started"})
            stage.api.drop(NODES, "n1")
            stage.api.drop(PODS, "default/p3-0")
            stage.put(first)
            await settle(stage)
            stage.now_s += 7200.0
            await settle(stage)
            before = reason(stage, "a Job")
        async with stage.scheduler():
            await settle(stage)
            assert (before, reason(stage, "a Job")) == ("NoNodeMatches", "NoNodeMatches")

    play(scene())


def test_who_starts_when_its_dependency_is_over_costs_no_write_for_it() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 4)])
        stage.put(job("p3", 1), job("p4", 1, after="p3"))
        async with stage.scheduler():
            await stage.until(lambda: len(stage.api.bound()) == 1)
            stage.finish(next(iter(stage.api.bound())))
            await stage.until(lambda: stage.api.job("p4")["spec"]["suspend"] is False)
            assert [write for write in stage.api.writes if "jobs/p4" in write] == ["patch jobs/p4"]

    play(scene())


def test_a_job_that_is_submitted_when_its_dependency_is_over_knows_it_from_then_on() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 1)])
        stage.put(job("p3", 1))
        async with stage.scheduler():
            await stage.until(lambda: len(stage.api.bound()) == 1)
            stage.finish(next(iter(stage.api.bound())))
            await settle(stage)
            stage.put(job("p5", 1))
            await stage.until(lambda: any(name.startswith("p5") for name in stage.api.bound()))
            stage.put(job("p4", 1, after="p3"))
            await stage.until(lambda: noted(stage, "a Job") == {"default/p3": "succeeded"})
            stage.api.drop(JOBS, "default/p3")
        async with stage.scheduler():
            await settle(stage)
            assert reason(stage, "a Job") == "NoRoom"

    play(scene())


def test_another_job_of_that_name_is_waited_for_and_counts() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 4)])
        note = {AFTER_OUTCOMES: json.dumps({"default/p3": "failed", "default/else": "failed"})}
        after = job("p4", 1, after="p3")
        after["metadata"]["annotations"] = note
        stage.put(after, job("p3", 1))
        async with stage.scheduler():
            await stage.until(lambda: len(stage.api.bound()) == 1)
            assert reason(stage, "a Job") == "Dependency"
            stage.finish(next(iter(stage.api.bound())))
            await stage.until(lambda: any(name.startswith("p4") for name in stage.api.bound()))

    play(scene())


@pytest.mark.parametrize("text", ["", "[]", '{"default/p3": "perhaps"}', '{"default/p3": 1}', "{"])
def test_what_is_not_as_it_was_written_says_nothing(text: str) -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 4)])
        after = job("p4", 1, after="p3")
        after["metadata"]["annotations"] = {AFTER_OUTCOMES: text}
        stage.put(after)
        async with stage.scheduler():
            await settle(stage)
            assert reason(stage, "a Job") == "Dependency"

    play(scene())
