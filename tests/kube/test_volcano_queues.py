"""The effect of Volcano's queues and of its scheduler's configuration on running jobs: victims and preemptors."""

from __future__ import annotations

import pytest
import yaml

from phalanx.client.kind import PRIORITY_CLASSES
from phalanx.dialects.volcano.definitions.configuration import CONFIGURATIONS
from phalanx.dialects.volcano.kinds import POD_GROUPS
from phalanx.dialects.volcano.kinds import QUEUES as VOLCANO_QUEUES
from tests.kube.double import Object, node
from tests.kube.stage import Stage
from tests.kube.test_bind_barrier import play, settle
from tests.kube.test_volcano import ON, group, member, reason


def configure(stage: Stage, actions: str, plugins: str) -> None:
    tiers = [{"plugins": [{"name": name} for name in plugins.split()]}]
    text = yaml.safe_dump({"actions": actions, "tiers": tiers})
    meta = {"name": "volcano-scheduler-configmap", "namespace": "volcano-system"}
    stage.api.put(CONFIGURATIONS, {"metadata": meta, "data": {"volcano-scheduler.conf": text}})


def priority_class(stage: Stage, name: str, value: int) -> None:
    stage.api.put(PRIORITY_CLASSES, {"metadata": {"name": name}, "value": value})


def priority(pod: Object, value: int) -> Object:
    return {**pod, "spec": {**pod["spec"], "priority": value}}


def test_within_a_queue_jobs_give_way_where_the_configuration_says_so() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 1)], dialects=ON)
        stage.api.put(VOLCANO_QUEUES, {"metadata": {"name": "q"}, "spec": {}})
        for name, value in (("low", 1), ("high", 9)):
            priority_class(stage, name, value)
            group(stage, name, queue="q", priorityClassName=name)
        stage.put(member("l", "low"))
        async with stage.scheduler():
            await stage.until(lambda: "l" in stage.api.bound())
            stage.put(member("h", "high"))
            await settle(stage)
            assert "h" not in stage.api.bound()
            configure(stage, "enqueue, allocate, preempt", "priority gang capacity")
            await stage.until(lambda: "h" in stage.api.bound())

    play(scene())


def test_the_configuration_counts_in_volcanos_own_default_queue() -> None:
    """Phalanx's Queue `default` does not replace it: the surplus pod is preempted, and the Queue shows its pods."""

    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 2)], dialects=ON)
        configure(stage, "enqueue, allocate, preempt", "priority gang proportion")
        priority_class(stage, "high", 1000)
        group(stage, "low", minMember=1)
        group(stage, "high", minMember=1, priorityClassName="high")
        stage.put(member("l0", "low"), member("l1", "low"))
        async with stage.scheduler():
            await stage.until(lambda: set(stage.api.bound()) == {"l0", "l1"})
            await stage.until(lambda: "default" in stage.api.objects[VOLCANO_QUEUES])
            stage.put(member("h", "high"))
            await stage.until(lambda: set(stage.api.bound()) == {"l0", "h"})
            held = {"cpu": "2", "memory": "0", "pods": "2"}
            for name in ("default", "root"):
                await stage.until(
                    lambda name=name: stage.api.objects[VOLCANO_QUEUES][name]["status"]["allocated"] == held
                )

    play(scene())


def test_of_a_queue_that_is_not_reclaimable_only_its_own_jobs_take() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 1)], dialects=ON)
        configure(stage, "enqueue, allocate, preempt, reclaim", "priority gang capacity")
        stage.api.put(VOLCANO_QUEUES, {"metadata": {"name": "kept"}, "spec": {"reclaimable": False}})
        stage.api.put(VOLCANO_QUEUES, {"metadata": {"name": "owed"}, "spec": {"deserved": {"cpu": "1"}}})
        for name, queue, value in (("low", "kept", 1), ("high", "kept", 9), ("other", "owed", 99)):
            priority_class(stage, name, value)
            group(stage, name, queue=queue, priorityClassName=name)
        stage.put(member("l", "low"))
        async with stage.scheduler():
            await stage.until(lambda: set(stage.api.bound()) == {"l"})
            stage.put(member("o", "other"))
            await settle(stage)
            assert set(stage.api.bound()) == {"l"}
            stage.put(member("h", "high"))
            await stage.until(lambda: set(stage.api.bound()) == {"h"})

    play(scene())


@pytest.mark.parametrize(("namespace", "value"), [("kube-system", 1), ("default", 2_000_000_000)])
def test_nobody_preempts_what_is_of_the_system(namespace: str, value: int) -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 1)], dialects=ON)
        configure(stage, "enqueue, allocate, preempt", "priority gang conformance capacity")
        stage.api.put(VOLCANO_QUEUES, {"metadata": {"name": "q"}, "spec": {}})
        stage.api.put(POD_GROUPS, {"metadata": {"name": "dns", "namespace": namespace}, "spec": {"queue": "q"}})
        system = priority(member("system", "dns"), value)
        system["metadata"]["namespace"] = namespace
        group(stage, "high", queue="q")
        stage.put(system)
        async with stage.scheduler():
            await stage.until(lambda: set(stage.api.bound()) == {"system"})
            stage.put(priority(member("h", "high"), value + 1))
            await settle(stage)
            assert set(stage.api.bound()) == {"system"}
            assert "NoRoom" in reason(stage, "high")

    play(scene())


def test_weights_divide_the_cluster_where_the_configuration_says_so() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 6)], dialects=ON)
        configure(stage, "enqueue, allocate, reclaim", "priority gang proportion")
        for name, weight in (("one", 1), ("two", 2)):
            stage.api.put(VOLCANO_QUEUES, {"metadata": {"name": name}, "spec": {"weight": weight}})
        for number in range(6):
            group(stage, f"g{number}", queue="one")
            stage.put(member(f"a{number}", f"g{number}"))
        async with stage.scheduler():
            await stage.until(lambda: len(stage.api.bound()) == 6)
            for number in range(6):
                group(stage, f"h{number}", queue="two")
                stage.put(member(f"b{number}", f"h{number}"))
            await stage.until(lambda: sum(name.startswith("b") for name in stage.api.bound()) == 4)
            await settle(stage)
            assert sum(name.startswith("a") for name in stage.api.bound()) == 2

    play(scene())


def test_a_queue_uses_the_node_groups_that_it_requires() -> None:
    async def scene() -> None:
        gold = node("n2", 1)
        gold["metadata"]["labels"] = {"volcano.sh/nodegroup-name": "gold"}
        stage = Stage(nodes=[node("n1", 4), gold], dialects=ON)
        required = {"requiredDuringSchedulingIgnoredDuringExecution": ["gold"]}
        spec = {"capability": {"cpu": 8}, "affinity": {"nodeGroupAffinity": required}}
        stage.api.put(VOLCANO_QUEUES, {"metadata": {"name": "q"}, "spec": spec})
        for name in ("a", "b"):
            group(stage, name, queue="q")
            stage.put(member(name, name))
        async with stage.scheduler():
            await stage.until(lambda: len(stage.api.bound()) == 1)
            await settle(stage)
            assert set(stage.api.bound().values()) == {"n2"}

    play(scene())
