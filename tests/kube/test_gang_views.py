"""Dialects get no deleted pods: however a gang ended, its pods are neither counted nor remembered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from phalanx.client.kind import JOBS, PODS
from phalanx.dialects.enabled import YUNIKORN_REST
from phalanx.dialects.kai.kinds import NAME as KAI
from phalanx.dialects.kube_scheduler.koordinator.kinds import NAME as KOORDINATOR
from phalanx.dialects.kube_scheduler.scheduler_plugins.kinds import NAME as PLUGINS
from phalanx.dialects.volcano.kinds import SCHEDULER_NAME as VOLCANO
from tests.kube import double, test_kai, test_koordinator, test_scheduler_plugins, test_volcano, test_yunikorn
from tests.kube.double import Object
from tests.kube.stage import Stage
from tests.kube.test_bind_barrier import play, settle

COUNT = 3


def of_yunikorn() -> tuple[Stage, list[Object]]:
    return test_yunikorn.stage_with(), [test_yunikorn.pod(f"p{number}", "root.a") for number in range(COUNT)]


def of_volcano() -> tuple[Stage, list[Object]]:
    stage = Stage(nodes=[double.node("n1", 8)], dialects=frozenset({VOLCANO}))
    test_volcano.group(stage, "g", minMember=COUNT)
    return stage, [test_volcano.member(f"p{number}", "g") for number in range(COUNT)]


def of_kai() -> tuple[Stage, list[Object]]:
    stage = test_kai.stage_with()
    test_kai.pod_group(stage, "g", minMember=COUNT)
    return stage, [test_kai.pod(f"p{number}", group="g") for number in range(COUNT)]


def of_koordinator() -> tuple[Stage, list[Object]]:
    stage = test_koordinator.stage_with()
    test_koordinator.group(stage, "g", COUNT)
    return stage, [test_koordinator.pod(f"p{at}", labels={test_koordinator.LABEL: "g"}) for at in range(COUNT)]


def of_scheduler_plugins() -> tuple[Stage, list[Object]]:
    stage = test_scheduler_plugins.stage_with()
    test_scheduler_plugins.group(stage, "g", COUNT)
    return stage, [test_scheduler_plugins.pod(f"p{number}", "g") for number in range(COUNT)]


OF = {
    "yunikorn": of_yunikorn,
    VOLCANO: of_volcano,
    KAI: of_kai,
    KOORDINATOR: of_koordinator,
    PLUGINS: of_scheduler_plugins,
}


def of_a_job(stage: Stage, pods: list[Object]) -> None:
    """Add the pods as those of a foreign Job that creates no others."""
    job = double.job("theirs", 0, scheduler="default-scheduler")
    meta = {"name": "theirs", "namespace": "default"}
    uid = stage.api.put(JOBS, {**job, "metadata": meta, "spec": {**job["spec"], "suspend": False}})["metadata"]["uid"]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "theirs", "uid": uid, "controller": True}
    stage.put(*({**pod, "metadata": {**pod["metadata"], "ownerReferences": [owner]}} for pod in pods))
    stage.controller.collects, stage.controller.slow = False, True  # the test deletes


def change(stage: Stage, alter: Callable[[Object], Object]) -> None:
    for pod in list(stage.api.pods()):
        stage.api.put(PODS, {**pod, "metadata": alter(pod["metadata"])})


def remembered(stage: Stage) -> set[str]:
    return set(stage.world.watch.capacity.dialects.claims.claimed)


def counted(stage: Stage) -> tuple[int, int]:
    """Applications and containers, as YuniKorn's dashboards have them."""
    found = stage.world.answers.reports.view(YUNIKORN_REST, ("v1", "partitions"), {})
    assert found is not None
    shown: Any = found()
    partition = shown[0]
    return partition["applications"]["total"], partition["totalContainers"]


async def deleted(stage: Stage) -> None:
    """The Job goes first, then its pods terminate, then they are gone."""
    stage.api.drop(JOBS, "default/theirs")
    await settle(stage)
    change(stage, lambda meta: {**meta, "deletionTimestamp": "2026-01-01T01:00:00Z"})
    await settle(stage)
    gone(stage)


async def orphaned(stage: Stage) -> None:
    """The pods lose their owner and run on; then each is deleted by its user."""
    change(stage, lambda meta: {key: value for key, value in meta.items() if key != "ownerReferences"})
    stage.api.drop(JOBS, "default/theirs")
    await settle(stage)
    assert remembered(stage)
    assert len(stage.api.bound()) == COUNT
    gone(stage)


async def completed(stage: Stage) -> None:
    """The pods end, and are deleted when their gang has long been done."""
    for number in range(COUNT):
        stage.finish(f"p{number}")
    await settle(stage)
    gone(stage)


async def killed(stage: Stage) -> None:
    """The Job and the pods vanish at once, with no word before."""
    stage.api.drop(JOBS, "default/theirs")
    gone(stage)


async def completed_and_touched(stage: Stage) -> None:
    """The pods end, their Job goes, and its controller takes its finalizer from them before they are gone."""
    for number in range(COUNT):
        stage.finish(f"p{number}")
    stage.api.drop(JOBS, "default/theirs")
    await settle(stage)
    change(stage, lambda meta: {**meta, "finalizers": []})
    await settle(stage)
    gone(stage)


def gone(stage: Stage) -> None:
    for pod in list(stage.api.pods()):
        stage.api.drop(PODS, f"default/{pod['metadata']['name']}")


@pytest.mark.parametrize("go", [deleted, orphaned, completed, completed_and_touched, killed])
@pytest.mark.parametrize("dialect", OF)
def test_pods_that_went_are_not_remembered(dialect: str, go: Callable[[Stage], Any]) -> None:
    async def scene() -> None:
        stage, pods = OF[dialect]()
        of_a_job(stage, pods)
        async with stage.scheduler():
            await stage.until(lambda: len(stage.api.bound()) == COUNT and bool(remembered(stage)))
            await settle(stage)
            await go(stage)
            await stage.until(lambda: not remembered(stage))

    play(scene())


def test_pods_of_a_job_that_was_deleted_are_counted_no_more() -> None:
    async def scene() -> None:
        stage, pods = of_yunikorn()
        of_a_job(stage, pods)
        async with stage.scheduler():
            await stage.until(lambda: counted(stage) == (1, COUNT))
            await deleted(stage)
            await stage.until(lambda: counted(stage) == (0, 0))

    play(scene())


def test_of_an_application_that_goes_on_the_pods_that_went_are_counted_no_more() -> None:
    """One pod of its own runs on; those of the Job go."""

    async def scene() -> None:
        stage, pods = of_yunikorn()
        stage.put(pods[0])
        of_a_job(stage, pods[1:])
        async with stage.scheduler():
            await stage.until(lambda: counted(stage) == (1, COUNT))
            stage.api.drop(JOBS, "default/theirs")
            await settle(stage)
            for number in range(1, COUNT):
                stage.api.drop(PODS, f"default/p{number}")
            await stage.until(lambda: counted(stage) == (1, 1))

    play(scene())


def test_a_group_whose_pods_went_with_their_job_waits_again() -> None:
    async def scene() -> None:
        stage, pods = of_volcano()
        of_a_job(stage, pods)
        async with stage.scheduler():
            await stage.until(lambda: test_volcano.status(stage, "g").get("phase") == "Running")
            await deleted(stage)
            await stage.until(lambda: test_volcano.status(stage, "g").get("phase") == "Inqueue")

    play(scene())
