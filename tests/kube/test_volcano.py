"""Pods that name Volcano's scheduler, its PodGroups and its queues, where that dialect is enabled."""

from __future__ import annotations

from typing import Any

from phalanx.dialects.volcano.kinds import QUEUES as VOLCANO_QUEUES
from phalanx.dialects.volcano.reader import SCHEDULER_NAME
from phalanx.kube.install.definitions import QUEUES
from phalanx.kube.read.pod_group import POD_GROUPS
from tests.kube import double
from tests.kube.double import Object, node
from tests.kube.stage import Stage
from tests.kube.test_barrier import play, settle

NOW_S = 1_780_272_000.0  # June 2026, after the double's objects were created
ON = frozenset({SCHEDULER_NAME})


def member(name: str, group: str, cpu: str = "1", **annotations: str) -> Object:
    found = double.pod(name, cpu, scheduler=SCHEDULER_NAME)
    task = {f"volcano.sh/{key.replace('_', '-')}": value for key, value in annotations.items()}
    found["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": group, **task}
    return found


def group(stage: Stage, name: str, **spec: Any) -> None:
    stage.api.put(POD_GROUPS, {"metadata": {"name": name, "namespace": "default"}, "spec": spec})


def status(stage: Stage, name: str) -> Any:
    return stage.api.objects[POD_GROUPS][f"default/{name}"].get("status") or {}


def reason(stage: Stage, name: str) -> str:
    return stage.reason(f"podgroup:{name}")


def test_the_members_of_a_group_start_together() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 3)], dialects=ON)
        group(stage, "g", minMember=3)
        stage.put(member("a", "g"), member("b", "g"))
        async with stage.scheduler():
            await settle(stage)
            assert (stage.api.bound(), reason(stage, "g")) == (
                {},
                "WaitingForMembers: waiting for members: 2 of 3 pods exist",
            )
            stage.put(member("c", "g"))
            await stage.until(lambda: len(stage.api.bound()) == 3)

    play(scene())


def test_without_its_group_a_pod_waits_for_it() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 3)], dialects=ON)
        stage.put(member("a", "late"))
        async with stage.scheduler():
            await settle(stage)
            assert reason(stage, "late") == (
                "WaitingForMembers: the PodGroup late of its pods does not exist yet: create it"
            )
            group(stage, "late")
            await stage.until(lambda: "a" in stage.api.bound())

    play(scene())


def test_six_drivers_whose_groups_say_what_all_of_it_needs() -> None:
    """Spark's own feature step: minMember 1, and minResources of driver and executors together."""

    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 6)], dialects=ON)
        for number in range(6):
            group(stage, f"g{number}", minMember=1, minResources={"cpu": 3})
            stage.put(member(f"driver-{number}", f"g{number}"))
        async with stage.scheduler():
            await settle(stage)
            assert len(stage.api.bound()) == 2
            first = min(stage.api.bound())
            app = first.replace("driver-", "g")
            stage.put(member(f"{app}-1", app), member(f"{app}-2", app))
            await stage.until(lambda: len(stage.api.bound()) == 4)
            for name in (first, f"{app}-1", f"{app}-2"):
                stage.finish(name)
            await stage.until(lambda: sum(name.startswith("driver") for name in stage.api.bound()) == 3)
            await stage.until(lambda: status(stage, app).get("phase") == "Completed")

    play(scene())


def test_of_each_task_so_many_must_be_there() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 6)], dialects=ON)
        group(stage, "g", minMember=3, minTaskMember={"ps": 1, "worker": 2})
        stage.put(member("w1", "g", task_spec="worker"), member("w2", "g", task_spec="worker"))
        async with stage.scheduler():
            await settle(stage)
            assert reason(stage, "g") == "WaitingForMembers: waiting for members: 0 of 1 pods of the task ps exist"
            stage.put(member("ps", "g", "3", task_spec="ps"))
            await stage.until(lambda: len(stage.api.bound()) == 3)
            roles = stage.cluster.jobs["default/podgroup:g"].job.roles
            assert sorted((role.name, role.minimum) for role in roles) == [("ps", 1), ("worker", 2)]

    play(scene())


def test_the_group_tells_how_it_goes() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 1)], dialects=ON)
        group(stage, "g", minMember=2)
        stage.put(member("a", "g"), member("b", "g"))
        async with stage.scheduler():
            await stage.until(lambda: "conditions" in status(stage, "g"))
            (condition,) = status(stage, "g")["conditions"]
            assert (status(stage, "g")["phase"], condition["type"], condition["reason"]) == (
                "Pending",
                "Unschedulable",
                "NotEnoughResources",
            )
            assert condition["message"] == f"2/2 tasks in gang unschedulable: {reason(stage, 'g')}"
            stage.put_node(node("n2", 1))
            await stage.until(lambda: status(stage, "g").get("phase") == "Running")
            stage.finish("a", "Running")
            await stage.until(lambda: status(stage, "g").get("running") == 1)
            stage.finish("a")
            stage.finish("b", "Failed")
            await stage.until(lambda: status(stage, "g").get("phase") == "Completed")
            assert (status(stage, "g")["succeeded"], status(stage, "g")["failed"]) == (1, 1)

    play(scene())


def test_a_restart_finds_the_group_running() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 3)], dialects=ON)
        group(stage, "g", minMember=1, minResources={"cpu": 3})
        stage.put(member("driver", "g"))
        async with stage.scheduler():
            await stage.until(lambda: "driver" in stage.api.bound())
        async with stage.scheduler():
            stage.put(double.job("other", 1), member("exec-1", "g"), member("exec-2", "g"))
            await stage.until(lambda: len(stage.api.bound()) == 3)
            assert set(stage.api.bound()) == {"driver", "exec-1", "exec-2"}

    play(scene())


def test_queues_of_volcano_count_where_there_is_none_of_ours() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 6)], dialects=ON)
        stage.api.put(VOLCANO_QUEUES, {"metadata": {"name": "narrow"}, "spec": {"capability": {"cpu": 2}}})
        group(stage, "small", minMember=1, queue="narrow")
        group(stage, "large", minMember=3, queue="narrow")
        stage.put(member("s", "small"), *(member(f"l{number}", "large") for number in range(3)))
        async with stage.scheduler():
            await stage.until(lambda: "s" in stage.api.bound())
            await settle(stage)
            assert set(stage.api.bound()) == {"s"}
            assert reason(stage, "large").startswith("NeverWithinLimit: ")
            stage.api.put(QUEUES, {"metadata": {"name": "narrow"}, "spec": {"gang": True}})
            await stage.until(lambda: len(stage.api.bound()) == 4)
            stage.api.drop(QUEUES, "narrow")
            await settle(stage)
            assert stage.cluster.queues["narrow"].quotas

    play(scene())


def test_a_queue_that_is_closing_starts_nothing_and_what_runs_goes_on() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 1)], dialects=ON)
        closing = {"metadata": {"name": "ends"}, "spec": {}, "status": {"state": "Open"}}
        stage.api.put(VOLCANO_QUEUES, closing)
        for name in ("first", "second"):
            group(stage, name, queue="ends")
        stage.now_s = NOW_S
        stage.put(member("a", "first"), member("b", "second"))
        async with stage.scheduler():
            await stage.until(lambda: "a" in stage.api.bound())
            stage.api.put(VOLCANO_QUEUES, {**closing, "status": {"state": "Closing"}})
            await settle(stage)
            assert set(stage.api.bound()) == {"a"}
            stage.finish("a")
            await settle(stage)
            assert "b" not in stage.api.bound()
            stage.api.put(VOLCANO_QUEUES, {**closing, "status": {"state": "Open"}})
            await stage.until(lambda: "b" in stage.api.bound())

    play(scene())


def test_a_queue_that_cannot_be_read_is_held_and_said_so() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 1)], dialects=ON)
        stage.api.put(VOLCANO_QUEUES, {"metadata": {"name": "odd"}, "spec": {"weight": "much"}})
        group(stage, "g", queue="odd")
        stage.put(member("a", "g"))
        async with stage.scheduler():
            await settle(stage)
            assert stage.world.queues.wrong == {"odd": "spec.weight: 'much' is no whole number from 0 to 2147483647"}
            assert reason(stage, "g").startswith("QueueHeld")

    play(scene())


def test_words_on_pods_without_a_group() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 6)], dialects=ON)
        alone = double.pod("alone", scheduler=SCHEDULER_NAME)
        alone["metadata"]["annotations"] = {
            "scheduling.volcano.sh/queue-name": "default",
            "volcano.sh/preemptable": "false",
        }
        stage.put(alone)
        async with stage.scheduler():
            await stage.until(lambda: "alone" in stage.api.bound())
            job = stage.cluster.jobs["default/pod:alone"].job
            assert (job.queue, job.preemptible) == ("default", False)

    play(scene())


def test_a_group_that_cannot_be_read_is_said_so() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 6)], dialects=ON)
        group(stage, "g", minResources={"cpu": "three"})
        stage.put(member("a", "g"))
        async with stage.scheduler():
            await settle(stage)
            assert reason(stage, "g").startswith("Invalid: the PodGroup g: spec.minResources.cpu: ")

    play(scene())


def test_where_it_is_not_enabled_such_pods_are_others() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 6)])
        group(stage, "g", minMember=1)
        stage.put(member("a", "g"))
        async with stage.scheduler():
            await settle(stage)
            assert (stage.api.bound(), stage.cluster.jobs) == ({}, {})

    play(scene())
