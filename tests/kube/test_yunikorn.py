"""Pods with `schedulerName: yunikorn`, where its dialect is on: they start in its queues, gangs whole."""

from __future__ import annotations

import json

from phalanx.client.kind import PODS
from phalanx.dialects.yunikorn.dialect import CONFIGURATIONS
from phalanx.model.plan import Wait
from tests.kube import double
from tests.kube.double import Object, node
from tests.kube.stage import Stage
from tests.kube.test_barrier import play, settle

ON = frozenset({"yunikorn"})
QUEUES = "partitions: [{queues: [{name: root, queues: [{name: a, resources: {max: {vcore: 3}}}, {name: default}]}]}]"


def stage_with(text: str | None = QUEUES) -> Stage:
    stage = Stage(nodes=[node("n1", 8)], dialects=ON)
    if text is not None:
        configure(stage, text)
    return stage


def configure(stage: Stage, text: str) -> None:
    meta = {"name": "yunikorn-configs", "namespace": "yunikorn"}
    stage.api.put(CONFIGURATIONS, {"metadata": meta, "data": {"queues.yaml": text}})


def pod(name: str, queue: str = "", **annotations: str) -> Object:
    found = double.pod(name, scheduler="yunikorn")
    found["metadata"]["labels"] = {"applicationId": "app"} | ({"queue": queue} if queue else {})
    found["metadata"]["annotations"] = {
        f"yunikorn.apache.org/{key.replace('_', '-')}": text for key, text in annotations.items()
    }
    return found


def reason(stage: Stage, gang: str) -> str:
    """Why it waits, as it was told last."""
    told = [action.reason for action in stage.actions if isinstance(action, Wait) and action.job == f"default/{gang}"]
    return str(told[-1]) if told else ""


def test_pods_start_within_the_queue_that_they_name() -> None:
    async def scene() -> None:
        stage = stage_with()
        for number in range(5):
            stage.put(pod(f"p{number}", "root.a"))
        stage.put(pod("other"))  # no rule: root.default
        async with stage.scheduler():
            await stage.until(lambda: len(stage.api.bound()) == 4)
            await stage.until(lambda: "QueueLimit" in reason(stage, "pod:p4"))
            assert "other" in stage.api.bound()
            configure(stage, QUEUES.replace("vcore: 3", "vcore: 4"))
            await stage.until(lambda: len(stage.api.bound()) == 5)

    play(scene())


def test_a_gang_of_task_groups_starts_when_all_of_it_has_a_place() -> None:
    groups = json.dumps([{"name": "work", "minMember": 4, "minResource": {"cpu": "1"}}])

    async def scene() -> None:
        stage = stage_with(QUEUES.replace("vcore: 3", "vcore: 5"))
        stage.put(pod("first", "root.a"), pod("second", "root.a"))
        async with stage.scheduler():
            await stage.until(lambda: len(stage.api.bound()) == 2)
            stage.put(pod("w0", "root.a", task_groups=groups, task_group_name="work"))
            await stage.until(lambda: "QueueLimit" in reason(stage, "app"))  # one would fit, four do not
            stage.api.drop(PODS, "default/first")
            await stage.until(lambda: "w0" in stage.api.bound())
            stage.put(pod("late", "root.a"))  # what is held for the gang is nobody else's
            await stage.until(lambda: "QueueLimit" in reason(stage, "pod:late"))
            for number in (1, 2, 3):
                stage.put(pod(f"w{number}", "root.a", task_group_name="work"))
            await stage.until(lambda: {"w0", "w1", "w2", "w3"} <= set(stage.api.bound()))
            assert "late" not in stage.api.bound()

    play(scene())


def test_without_a_config_map_everybody_is_in_the_default_queue() -> None:
    async def scene() -> None:
        stage = stage_with(None)
        stage.put(pod("p", "wherever"))
        async with stage.scheduler():
            await stage.until(lambda: "p" in stage.api.bound())
            assert stage.cluster.jobs["default/pod:p"].job.queue == "default"
            assert list(stage.cluster.queues) == ["default"]

    play(scene())


def test_a_configuration_that_yunikorn_refuses_starts_nothing_and_says_the_line() -> None:
    async def scene() -> None:
        stage = stage_with("partitions:\n  - colour: red")
        stage.put(pod("p"))
        stage.put(double.pod("ours"))
        async with stage.scheduler():
            await stage.until(lambda: "ours" in stage.api.bound())
            await stage.until(lambda: "line 2: there is no field 'colour'" in reason(stage, "pod:p"))
            await settle(stage)
            assert "p" not in stage.api.bound()
            configure(stage, QUEUES)
            await stage.until(lambda: "p" in stage.api.bound())

    play(scene())


def test_an_application_without_a_queue_waits_and_says_so() -> None:
    async def scene() -> None:
        stage = stage_with("partitions: [{queues: [{name: root, queues: [{name: a}]}]}]")
        stage.put(pod("p", "root.b"))
        async with stage.scheduler():
            await stage.until(lambda: "no placement rule" in reason(stage, "pod:p"))

    play(scene())


def test_what_runs_is_found_again_after_a_restart() -> None:
    async def scene() -> None:
        stage = stage_with()
        job = double.job("theirs", 0, scheduler="yunikorn")
        stage.put(
            job | {"metadata": {"name": "theirs", "namespace": "default"}, "spec": job["spec"] | {"suspend": False}}
        )
        for number in range(3):
            stage.put(of_a_job(pod(f"p{number}", "root.a"), stage.api.job("theirs")["metadata"]["uid"]))
        async with stage.scheduler():
            await stage.until(lambda: len(stage.api.bound()) == 3)
        stage.put(pod("p3", "root.a"))
        async with stage.scheduler():
            await stage.until(lambda: "QueueLimit" in reason(stage, "pod:p3"))
            await settle(stage)
            assert {f"default/pod:p{number}" for number in range(4)} <= set(stage.cluster.jobs)
            assert len(stage.api.bound()) == 3

    def of_a_job(obj: Object, uid: str) -> Object:
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "theirs", "uid": uid, "controller": True}
        return obj | {"metadata": obj["metadata"] | {"ownerReferences": [owner]}}

    play(scene())
