"""Jobs that name a LocalQueue, where Kueue's dialect is on: they start by its queues, and a Workload says so."""

from __future__ import annotations

from typing import Any

from phalanx.client.kind import JOBS, NAMESPACES, PODS
from phalanx.dialects.frame.dialect import GangView
from phalanx.dialects.kueue import kinds
from phalanx.dialects.kueue.dialect import KUEUE
from phalanx.dialects.kueue.tree.configuration import CONFIGURATIONS
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

        def answer(self, defined: Any, told: GangView, *more: Any) -> Any:
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
