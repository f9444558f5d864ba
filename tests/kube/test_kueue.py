"""Jobs that name a LocalQueue, where Kueue's dialect is on: they start by its queues, and a Workload says so."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from phalanx.client.kind import JOBS, NAMESPACES, NODES, PODS
from phalanx.dialects.frame.dialect import Told
from phalanx.dialects.kueue import kinds
from phalanx.dialects.kueue.dialect import KUEUE
from phalanx.dialects.kueue.tree.configuration import CONFIGURATIONS
from phalanx.model.plan import Preempt
from phalanx.model.queue import QueueOrder, Strategy
from tests.dialects.kueue.written import cluster_queue, group, local_queue, named
from tests.kube import double
from tests.kube.double import Object, node
from tests.kube.stage import Stage
from tests.kube.test_bind_barrier import play, settle

ON = frozenset({kinds.NAME})


def stage_with(cpu: int = 3, **spec: Any) -> Stage:
    """A node of 8 cpu; the ClusterQueue `a` with a quota of `cpu`, and its LocalQueue `l`."""
    stage = Stage(nodes=[node("n1", 8)], dialects=ON)
    stage.api.put(NAMESPACES, named("default"))
    stage.api.put(kinds.RESOURCE_FLAVORS, named("f", spec={}))
    stage.api.put(kinds.CLUSTER_QUEUES, cluster_queue("a", group(f={"cpu": cpu}), **spec))
    stage.api.put(kinds.LOCAL_QUEUES, local_queue("l", "a"))
    return stage


def job(name: str, pods: int, **labels: str) -> Object:
    found = double.job(name, pods)
    found["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "l"} | {
        f"kueue.x-k8s.io/{key.replace('_', '-')}": value for key, value in labels.items()
    }
    return found


def workload(stage: Stage, job: str) -> Object:
    """The Workload that the Job owns; an empty object if there is none."""
    found = (
        one
        for one in stage.api.objects[kinds.WORKLOADS].values()
        if one["metadata"]["ownerReferences"][0]["name"] == job
    )
    return next(found, {})


def conditions(stage: Stage, job: str) -> dict[str, str]:
    """type -> `status reason`."""
    status = workload(stage, job).get("status") or {}
    return {one["type"]: f"{one['status']} {one['reason']}" for one in status.get("conditions") or ()}


def test_a_job_starts_within_its_cluster_queue_and_its_workload_says_so() -> None:
    async def scene() -> None:
        stage = stage_with(3)
        stage.put(job("one", 2))
        async with stage.scheduler():
            await stage.until(lambda: len(stage.api.bound()) == 2)
            await stage.until(lambda: conditions(stage, "one").get("Admitted") == "True Admitted")
            stage.put(job("two", 2))
            await stage.until(lambda: conditions(stage, "two").get("QuotaReserved") == "False WaitingForQuota")
            assert conditions(stage, "two")["Admitted"] == "False NoReservation"
            assert len(stage.api.bound()) == 2
            found = workload(stage, "one")
            assert found["spec"]["queueName"] == "l"
            assert found["status"]["admission"] == {
                "clusterQueue": "a",
                "podSetAssignments": [
                    {"name": "main", "count": 2, "flavors": {"cpu": "f"}, "resourceUsage": {"cpu": "2"}}
                ],
            }
            await stage.until(lambda: counts(stage) == (1, 1, 1))

    def counts(stage: Stage) -> tuple[int, ...]:
        status = stage.api.objects[kinds.CLUSTER_QUEUES]["a"].get("status") or {}
        return tuple(status.get(f"{name}Workloads") for name in ("pending", "reserving", "admitted"))

    play(scene())


def test_events_are_recorded_as_kueue_does() -> None:
    async def scene() -> None:
        stage = stage_with(2, preemption={"withinClusterQueue": "LowerPriority"})
        stage.api.put(kinds.PRIORITY_CLASSES, named("high", value=10))
        stage.put(job("low", 2))
        async with stage.scheduler():
            await stage.until(lambda: conditions(stage, "low").get("Admitted") == "True Admitted")
            stage.put(job("wide", 3))
            await stage.until(lambda: "Pending" in recorded(stage, "job-wide"))
            stage.put(job("urgent", 2, priority_class="high"))
            await stage.until(lambda: conditions(stage, "urgent").get("Admitted") == "True Admitted")
            await stage.until(lambda: "Pending" in recorded(stage, "job-low"))
            assert recorded(stage, "job-low") == [
                "QuotaReserved",
                "Admitted",
                "Preempted",
                "EvictedDueToPreempted",
                "Pending",
            ]
            assert [each for each in recorded(stage, "low") if each in ours] == [
                "CreatedWorkload",
                "Started",
                "Stopped",
            ]
            said = next(one for one in stage.world.effects.reporter._events if one["reason"] == "CreatedWorkload")
            assert said["message"].startswith("Created Workload: default/job-low-")

    def recorded(stage: Stage, name: str) -> list[str]:
        """Return the reasons of the events on objects of that name, or on Workloads whose names begin with it."""
        found = list(stage.world.effects.reporter._events)  # no task sends them in this test
        names = (one["involvedObject"]["name"] for one in found)
        return [one["reason"] for one, of in zip(found, names, strict=True) if of == name or of.startswith(f"{name}-")]

    ours = ("CreatedWorkload", "Started", "Stopped", "FinishedWorkload")
    play(scene())


def test_pods_are_given_a_flavor_of_each_resource_group_and_all_their_selectors() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 8), node("n2", 8)], dialects=ON)
        for name, arch in (("n1", "x86"), ("n2", "arm")):
            stage.api.objects[NODES][name]["metadata"]["labels"] = {"arch": arch, "memory": "fast"}
        stage.api.put(NAMESPACES, named("default"))
        pools = {"x86": {"arch": "x86"}, "arm": {"arch": "arm"}, "fast": {"memory": "fast"}}
        for name, labels in pools.items():
            stage.api.put(kinds.RESOURCE_FLAVORS, named(name, spec={"nodeLabels": labels}))
        groups = (group(x86={"cpu": 1}, arm={"cpu": 4}), group(fast={"memory": "8Gi"}))
        stage.api.put(kinds.CLUSTER_QUEUES, cluster_queue("a", *groups))
        stage.api.put(kinds.LOCAL_QUEUES, local_queue("l", "a"))
        found = job("one", 2)
        found["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["memory"] = "1Gi"
        stage.put(found)
        async with stage.scheduler():
            await stage.until(lambda: conditions(stage, "one").get("Admitted") == "True Admitted")
            (given,) = workload(stage, "one")["status"]["admission"]["podSetAssignments"]
            assert given["flavors"] == {"cpu": "arm", "memory": "fast"}
            template = stage.api.objects[JOBS]["default/one"]["spec"]["template"]
            assert template["spec"]["nodeSelector"] == {"arch": "arm", "memory": "fast"}
            await stage.until(lambda: usage(stage) == {"x86": "0", "arm": "2", "fast": "2Gi"})

    def usage(stage: Stage) -> dict[str, str]:
        status = stage.api.objects[kinds.CLUSTER_QUEUES]["a"].get("status") or {}
        return {each["name"]: each["resources"][0]["total"] for each in status.get("flavorsUsage") or ()}

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


def test_a_job_that_is_gated_waits_until_nobody_gates_it() -> None:
    async def scene() -> None:
        stage = stage_with(3)
        gated = job("one", 1)
        gated["metadata"]["annotations"] = {"kueue.x-k8s.io/admission-gated-by": "budget,quota.example/check"}
        stage.put(gated)
        stage.put(job("two", 1))
        async with stage.scheduler():
            await stage.until(lambda: conditions(stage, "one").get("QuotaReserved") == "False AdmissionGated")
            await stage.until(lambda: conditions(stage, "two").get("Admitted") == "True Admitted")
            assert "resourceRequests" not in workload(stage, "one")["status"], "its quota was not looked at"
            assert "Admission is gated by: budget, quota.example/check" in stage.reason("one")
            stage.change("one", {}, {"kueue.x-k8s.io/admission-gated-by": "budget"})
            await settle(stage)
            assert len(stage.api.bound()) == 1
            stage.change("one", {}, {"kueue.x-k8s.io/admission-gated-by": ""})
            await stage.until(lambda: conditions(stage, "one").get("Admitted") == "True Admitted")

    play(scene())


def test_a_class_called_default_is_that_of_jobs_that_name_none() -> None:
    async def scene() -> None:
        stage = stage_with(1)
        for name, value in (("default", 5), ("low", 1)):
            stage.api.put(kinds.PRIORITY_CLASSES, named(name, value=value))
        stage.put(job("runs", 1))
        async with stage.scheduler():
            await stage.until(lambda: conditions(stage, "runs").get("Admitted") == "True Admitted")
            stage.put(job("low", 1, priority_class="low"))
            await stage.until(lambda: bool(workload(stage, "low")))
            stage.put(job("plain", 1))
            await stage.until(lambda: bool(workload(stage, "plain")))
            spec = workload(stage, "plain")["spec"]
            named_by = {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "default"}
            assert (spec["priority"], spec["priorityClassRef"]) == (5, named_by)
            stage.api.drop(JOBS, "default/runs")
            await stage.until(lambda: conditions(stage, "plain").get("Admitted") == "True Admitted")

    play(scene())


def test_a_job_that_names_a_missing_class_has_no_workload_until_it_exists() -> None:
    async def scene() -> None:
        stage = stage_with()
        stage.put(job("j", 1, priority_class="late"))
        async with stage.scheduler():
            await settle(stage)
            assert not stage.api.bound()
            assert not stage.api.objects[kinds.WORKLOADS]
            stage.api.put(kinds.PRIORITY_CLASSES, named("late", value=7))
            await stage.until(lambda: conditions(stage, "j").get("Admitted") == "True Admitted")
            assert workload(stage, "j")["spec"]["priority"] == 7
            stage.api.drop(kinds.PRIORITY_CLASSES, "late")
            await settle(stage)
            assert conditions(stage, "j")["Admitted"] == "True Admitted"
            assert workload(stage, "j")["spec"]["priority"] == 7

    play(scene())


def test_definitions_that_come_late_let_go_what_waited_for_them() -> None:
    async def scene() -> None:
        stage = stage_with(3)
        stage.api.drop(kinds.RESOURCE_FLAVORS, "f")
        stage.put(job("one", 1))
        async with stage.scheduler():
            await stage.until(lambda: conditions(stage, "one").get("QuotaReserved") == "False Suspended")
            assert active(stage) == "FlavorNotFound"
            stage.api.put(kinds.RESOURCE_FLAVORS, named("f", spec={}))
            await stage.until(lambda: len(stage.api.bound()) == 1)
            await stage.until(lambda: active(stage) == "Ready")

    def active(stage: Stage) -> str:
        status = stage.api.objects[kinds.CLUSTER_QUEUES]["a"].get("status") or {}
        return str(status["conditions"][0]["reason"])

    play(scene())


def test_without_the_dialect_the_label_says_nothing() -> None:
    async def scene() -> None:
        stage = stage_with(3)
        stage.dialects = frozenset()
        stage.put(job("one", 1))
        async with stage.scheduler():
            await settle(stage)
            assert stage.api.bound() == {}
            assert stage.api.objects[kinds.WORKLOADS] == {}

    play(scene())


def test_an_answer_that_cannot_be_made_concerns_that_job_alone() -> None:
    async def scene() -> None:
        stage = stage_with(3)
        stage.put(job("odd", 1), job("well", 1))
        async with stage.scheduler():
            answer = KUEUE.answer
            stage.world.watch.capacity.dialects.dialects = {"kueue": Brittle(answer)}  # type: ignore[dict-item]  # one that fails
            await stage.until(lambda: conditions(stage, "well").get("PodsReady") == "False WaitForStart")
            assert workload(stage, "odd") == {}

    class Brittle:
        """Kueue, but that it cannot answer the job `odd`."""

        def __init__(self, answer: Any) -> None:
            self._answer = answer

        def __getattr__(self, name: str) -> Any:
            return getattr(KUEUE, name)

        def answer(self, defined: Any, told: Told, *more: Any) -> Any:
            if told.id == "default/odd":
                raise KeyError("odd")
            return self._answer(defined, told, *more)

    play(scene())


def test_pods_of_a_group_wait_for_all_of_it_and_have_one_workload() -> None:
    def pod(name: str, of: str, total: int) -> Object:
        found = double.pod(name)
        found["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "l", "kueue.x-k8s.io/pod-group-name": of}
        found["metadata"]["annotations"] = {"kueue.x-k8s.io/pod-group-total-count": str(total)}
        return found

    async def scene() -> None:
        stage = stage_with(3)
        stage.put(pod("a", "g", 2))
        async with stage.scheduler():
            await settle(stage)
            assert stage.api.bound() == {}
            stage.put(pod("b", "g", 2))
            await stage.until(lambda: len(stage.api.bound()) == 2)
            await stage.until(lambda: said(stage, "Admitted") == "Admitted")
            found = stage.api.objects[kinds.WORKLOADS]["default/g"]
            assert [one["name"] for one in found["metadata"]["ownerReferences"]] == ["a", "b"]
            assert found["status"]["admission"]["podSetAssignments"][0]["count"] == 2
            for name in "ab":
                stage.api.put(PODS, {**stage.api.objects[PODS][f"default/{name}"], "status": {"phase": "Succeeded"}})
            await stage.until(lambda: said(stage, "Finished") == "Succeeded")

    def said(stage: Stage, kind: str) -> str:
        status = stage.api.objects[kinds.WORKLOADS].get("default/g", {}).get("status") or {}
        return next((one["reason"] for one in status.get("conditions") or () if one["type"] == kind), "")

    play(scene())


def test_a_flavor_stays_while_a_cluster_queue_names_it() -> None:
    async def scene() -> None:
        stage = stage_with(3)
        async with stage.scheduler():
            await stage.until(lambda: finalizers(stage) == ["kueue.x-k8s.io/resource-in-use"])
            stage.api.drop(kinds.CLUSTER_QUEUES, "a")
            await stage.until(lambda: finalizers(stage) == [])

    play(scene())


def test_a_flavor_that_is_deleted_while_it_is_let_go_goes() -> None:
    """Its user's deletion reaches the server just before the write that lets go of it, which is refused then."""

    async def scene() -> None:
        stage = stage_with(3)

        def delete_first(write: str) -> None:
            found = stage.api.objects[kinds.RESOURCE_FLAVORS]["f"]
            if write == "patch resourceflavors/f" and "a" not in stage.api.objects[kinds.CLUSTER_QUEUES]:
                stage.fault = lambda write: None
                going = {**found["metadata"], "deletionTimestamp": "2026-01-01T01:00:00Z"}
                stage.api.put(kinds.RESOURCE_FLAVORS, {**found, "metadata": going})

        stage.fault = delete_first
        async with stage.scheduler():
            await stage.until(lambda: finalizers(stage) == ["kueue.x-k8s.io/resource-in-use"])
            stage.api.drop(kinds.CLUSTER_QUEUES, "a")
            await stage.until(lambda: finalizers(stage) == [])

    play(scene())


def finalizers(stage: Stage) -> list[str]:
    """Return the finalizers of the flavor."""
    return list(stage.api.objects[kinds.RESOURCE_FLAVORS]["f"]["metadata"].get("finalizers") or ())


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


def test_a_resource_that_needs_no_quota_is_not_in_the_admission() -> None:
    async def scene() -> None:
        stage = stage_with(3)
        stage.api.objects[NODES]["n1"]["status"]["allocatable"]["example.com/licence"] = "4"
        data = {"controller_manager_config.yaml": "resources: {quotaCheckStrategy: IgnoreUndeclared}"}
        stage.api.put(CONFIGURATIONS, named("kueue-manager-config", "kueue-system", data=data))
        one = job("one", 2)
        one["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["example.com/licence"] = "1"
        stage.put(one)
        async with stage.scheduler():
            await stage.until(lambda: conditions(stage, "one").get("Admitted") == "True Admitted")
            (given,) = workload(stage, "one")["status"]["admission"]["podSetAssignments"]
            assert (given["flavors"], given["resourceUsage"]) == ({"cpu": "f"}, {"cpu": "2"})

    play(scene())


def test_a_job_of_a_namespace_that_is_not_managed_starts_as_one_that_names_no_queue() -> None:
    async def scene() -> None:
        stage = stage_with(1)
        data = {"controller_manager_config.yaml": "managedJobsNamespaceSelector: {matchLabels: {team: other}}"}
        stage.api.put(CONFIGURATIONS, named("kueue-manager-config", "kueue-system", data=data))
        stage.put(job("one", 2))
        async with stage.scheduler():
            await stage.until(lambda: len(stage.api.bound()) == 2)
            assert stage.cluster.jobs["default/one"].job.queue == "default"
            assert workload(stage, "one") == {}

    play(scene())


def test_hold_and_drain_stops_what_runs_and_lets_it_go_on_afterwards() -> None:
    async def scene() -> None:
        stage = stage_with(3)
        stage.put(job("one", 2))
        async with stage.scheduler():
            await stage.until(lambda: len(stage.api.bound()) == 2)
            queue = stage.api.objects[kinds.CLUSTER_QUEUES]["a"]
            stage.api.put(kinds.CLUSTER_QUEUES, {**queue, "spec": {**queue["spec"], "stopPolicy": "HoldAndDrain"}})
            await stage.until(lambda: stage.api.job("one")["spec"]["suspend"] is True)
            await stage.until(lambda: conditions(stage, "one").get("QuotaReserved") == "False Suspended")
            said = conditions(stage, "one")
            assert (said["Evicted"], said["Requeued"]) == ("True ClusterQueueStopped", "False ClusterQueueStopped")
            stage.api.put(kinds.CLUSTER_QUEUES, queue)
            await stage.until(lambda: conditions(stage, "one").get("Admitted") == "True Admitted")
            assert conditions(stage, "one")["Requeued"] == "True ClusterQueueRestarted"

    play(scene())


def test_a_workload_that_is_deactivated_stops_its_job_until_it_is_active_again() -> None:
    async def scene() -> None:
        stage = stage_with(3)
        stage.put(job("one", 2))
        async with stage.scheduler():
            await stage.until(lambda: conditions(stage, "one").get("Admitted") == "True Admitted")
            activate(stage, False)
            await stage.until(lambda: conditions(stage, "one").get("QuotaReserved") == "False Deactivated")
            assert stage.api.job("one")["spec"]["suspend"] is True
            assert conditions(stage, "one")["Evicted"] == "True Deactivated"
            activate(stage, True)
            await stage.until(lambda: conditions(stage, "one").get("Admitted") == "True Admitted")
            assert conditions(stage, "one")["Requeued"] == "True Reactivated"

    def activate(stage: Stage, active: bool) -> None:
        found = workload(stage, "one")
        stage.api.put(kinds.WORKLOADS, {**found, "spec": {**found["spec"], "active": active}})

    play(scene())


def test_a_job_that_has_run_its_longest_time_is_deactivated() -> None:
    async def scene() -> None:
        stage = stage_with(3)
        stage.put(job("one", 2, max_exec_time_seconds="20"))
        async with stage.scheduler():
            await stage.until(lambda: conditions(stage, "one").get("Admitted") == "True Admitted")
            await settle(stage)
            assert workload(stage, "one")["spec"]["active"] is True
            stage.now_s += 21
            stage.world.answers.touch("default/one")
            await stage.until(lambda: conditions(stage, "one").get("QuotaReserved") == "False Deactivated")
            said = conditions(stage, "one")
            assert said["Evicted"] == "True DeactivatedDueToMaximumExecutionTimeExceeded"
            assert workload(stage, "one")["spec"]["active"] is False
            assert stage.api.job("one")["spec"]["suspend"] is True

    play(scene())


def test_a_definition_that_cannot_be_read_any_more_counts_as_it_was() -> None:
    async def scene() -> None:
        stage = stage_with(3, preemption={"borrowWithinCohort": {"maxPriorityThreshold": 1}})
        async with stage.scheduler():
            await settle(stage)
            queue = stage.api.objects[kinds.CLUSTER_QUEUES]["a"]
            odd = {**queue["spec"], "preemption": {"borrowWithinCohort": {"maxPriorityThreshold": "much"}}}
            stage.api.put(kinds.CLUSTER_QUEUES, {**queue, "spec": odd})
            stage.put(job("one", 2))
            await stage.until(lambda: len(stage.api.bound()) == 2)

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
