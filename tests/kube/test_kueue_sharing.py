"""How ClusterQueues and Cohorts share: fair sharing, lending, borrowing, and shares that stay with lost pods."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from phalanx.client.kind import NAMESPACES, PODS
from phalanx.dialects.kueue import kinds
from phalanx.dialects.kueue.tree.configuration import CONFIGURATIONS
from phalanx.model.plan import Preempt
from phalanx.model.queue import QueueOrder, Strategy
from tests.dialects.kueue.written import cluster_queue, group, local_queue, named
from tests.kube import double
from tests.kube.double import Object, node
from tests.kube.stage import Stage
from tests.kube.test_bind_barrier import play, settle
from tests.kube.test_kueue import ON, conditions, job, stage_with, workload


def test_fair_sharing_of_kueues_own_configuration() -> None:
    async def scene() -> None:
        stage = stage_with(3, cohortName="all")
        text = "fairSharing: {preemptionStrategies: [LessThanInitialShare]}"
        data = {"controller_manager_config.yaml": text}
        stage.api.put(CONFIGURATIONS, named("kueue-manager-config", "kueue-system", data=data))
        async with stage.scheduler():
            await stage.until(lambda: "clusterqueue/a" in stage.cluster.queues)
            assert stage.cluster.queues["cohort/all"].order is QueueOrder.FAIR
            assert stage.cluster.queues["clusterqueue/a"].preemption.strategy is Strategy.INITIAL_SHARE
            await stage.until(lambda: share(stage) == {"weightedShare": 0})

    def share(stage: Stage) -> Any:
        return (stage.api.objects[kinds.CLUSTER_QUEUES]["a"].get("status") or {}).get("fairSharing")

    play(scene())


@pytest.mark.parametrize("restarted", [False, True])
def test_the_share_of_a_pod_that_failed_is_kept_for_its_replacement(restarted: bool) -> None:
    def pod(name: str, **group: str) -> Object:
        found = double.pod(name)
        found["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "l"}
        words = {"kueue.x-k8s.io/pod-group-total-count": "2"} if group else {}
        found["metadata"]["annotations"] = words
        found["metadata"]["labels"] |= {f"kueue.x-k8s.io/{key.replace('_', '-')}": text for key, text in group.items()}
        return found

    async def scene() -> None:
        stage = stage_with(2)
        stage.put(pod("a", pod_group_name="g"), pod("b", pod_group_name="g"))
        async with stage.scheduler():
            await stage.until(lambda: len(stage.api.bound()) == 2)
            end(stage, "a", "Failed")
            await settle(stage)
            if not restarted:
                await others_wait(stage)
                return
            stage.api.drop(PODS, "default/a")
        async with stage.scheduler():  # which sees neither the pod that failed nor the one to come
            await others_wait(stage)

    async def others_wait(stage: Stage) -> None:
        stage.put(pod("other"))
        await settle(stage)
        assert "other" not in stage.api.bound()
        stage.put(pod("c", pod_group_name="g"))
        await stage.until(lambda: "c" in stage.api.bound())
        end(stage, "b", "Succeeded")
        await stage.until(lambda: "other" in stage.api.bound())

    def end(stage: Stage, name: str, phase: str) -> None:
        stage.api.put(PODS, {**stage.api.objects[PODS][f"default/{name}"], "status": {"phase": phase}})

    play(scene())


def test_a_cohort_says_its_share_where_fair_sharing_is_on() -> None:
    """`b` uses 4 cpus with a quota of 1: its cohort `inner` exceeds its quota by 3, of the 8 that `outer` has in
    total."""

    async def scene() -> None:
        text = "fairSharing: {preemptionStrategies: [LessThanOrEqualToFinalShare]}"
        stage = stage_with(7, cohortName="outer")
        configuration = named("kueue-manager-config", "kueue-system", data={"controller_manager_config.yaml": text})
        stage.api.put(CONFIGURATIONS, configuration)
        stage.api.put(kinds.COHORTS, named("inner", spec={"parentName": "outer"}))
        stage.api.put(kinds.COHORTS, named("outer", spec={}))
        stage.api.put(kinds.CLUSTER_QUEUES, cluster_queue("b", group(f={"cpu": 1}), cohortName="inner"))
        stage.api.put(kinds.LOCAL_QUEUES, local_queue("m", "b"))
        found = job("one", 4)
        found["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "m"}
        stage.put(found)

        def share(name: str) -> Any:
            status = stage.api.objects[kinds.COHORTS][name].get("status") or {}
            return (status.get("fairSharing") or {}).get("weightedShare")

        async with stage.scheduler():
            await stage.until(lambda: len(stage.api.bound()) == 4)
            await stage.until(lambda: share("inner") == 375)
            assert share("outer") == 0

    play(scene())


@pytest.mark.parametrize("lender", ["a ClusterQueue", "a Cohort"])
def test_what_others_do_not_lend_is_kept_and_the_rest_is_there(lender: str) -> None:
    """Their flavor has no labels, so it includes every node. It is created after the nodes, so its capacity is
    known."""

    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 8)], dialects=ON)
        stage.api.put(NAMESPACES, named("default"))
        async with stage.scheduler():
            await settle(stage, 2)
            stage.api.put(kinds.RESOURCE_FLAVORS, named("f", spec={}))
            lent = group(f={"cpu": {"nominalQuota": 4, "lendingLimit": 1}})
            if lender == "a Cohort":
                stage.api.put(kinds.COHORTS, named("y", spec={"parentName": "c", "resourceGroups": [lent]}))
            else:
                stage.api.put(kinds.CLUSTER_QUEUES, cluster_queue("y", lent, cohortName="c"))
            stage.api.put(kinds.CLUSTER_QUEUES, cluster_queue("x", group(f={"cpu": 2}), cohortName="c"))
            stage.api.put(kinds.LOCAL_QUEUES, local_queue("l", "x"))
            stage.put(job("own", 2))
            await stage.until(lambda: len(stage.api.bound()) == 2)
            stage.put(job("lent", 1), job("kept", 1))
            await stage.until(lambda: len(stage.api.bound()) == 3)
            await settle(stage)
            assert len(stage.api.bound()) == 3

    play(scene())


@pytest.mark.slow
def test_borrowing_and_reclaiming_queues_do_not_preempt_each_other_without_end() -> None:
    """One ClusterQueue preempts while it borrows, another reclaims: no job is preempted twice, and one runs."""

    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 12)], dialects=ON)
        stage.api.put(NAMESPACES, named("default"))
        stage.api.put(kinds.RESOURCE_FLAVORS, named("f", spec={}))
        lower = {"policy": "LowerPriority", "maxPriorityThreshold": 1}
        borrows = {"reclaimWithinCohort": "LowerPriority", "borrowWithinCohort": lower}
        for name, cpu, preemption in (("q1", 0, borrows), ("q2", 2, {"reclaimWithinCohort": "Any"}), ("spare", 10, {})):
            spec = {"cohort": "co", "preemption": preemption}
            stage.api.put(kinds.CLUSTER_QUEUES, cluster_queue(name, group(f={"cpu": cpu}), **spec))
            stage.api.put(kinds.LOCAL_QUEUES, local_queue(name, name))
        for name, value in (("high", 5), ("mid", 1)):
            stage.api.put(kinds.PRIORITY_CLASSES, named(name, value=value))
        async with stage.scheduler():
            for name, queue, pods, cpu, level in (
                ("j1", "q2", 2, "1", ""),
                ("j2", "q1", 6, "2", "high"),
                ("j4", "q2", 3, "1", "mid"),
            ):
                found = double.job(name, pods, cpu)
                found["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": queue}
                if level:
                    found["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] = level
                stage.put(found)
                await settle(stage, 40)
            await settle(stage, 200)
            preempted = Counter(action.job for action in stage.actions if isinstance(action, Preempt))
            assert max(preempted.values(), default=0) <= 1
            assert stage.api.bound()

    play(scene())


def test_what_runs_gives_way_to_a_higher_class_and_its_workload_says_why() -> None:
    async def scene() -> None:
        stage = stage_with(2, preemption={"withinClusterQueue": "LowerPriority"})
        stage.api.put(kinds.PRIORITY_CLASSES, named("high", value=10))
        stage.put(job("low", 2))
        async with stage.scheduler():
            await stage.until(lambda: conditions(stage, "low").get("Admitted") == "True Admitted")
            stage.put(job("urgent", 2, priority_class="high"))
            await stage.until(lambda: conditions(stage, "urgent").get("Admitted") == "True Admitted")
            await stage.until(lambda: conditions(stage, "low").get("QuotaReserved") == "False WaitingForQuota")
            said = conditions(stage, "low")
            assert (said["Evicted"], said["Preempted"]) == ("True Preempted", "True InClusterQueue")
            assert said["Requeued"] == "True Preempted"
            assert workload(stage, "low")["status"]["schedulingStats"]["evictions"][0]["count"] == 1
            assert "admission" not in workload(stage, "low")["status"]
            assert workload(stage, "urgent")["spec"]["priority"] == 10

    play(scene())
