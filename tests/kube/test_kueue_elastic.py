"""Jobs whose parallelism changes while they run: their Workload follows, and no queue tells of more than is used."""

from __future__ import annotations

import copy

from phalanx.client.kind import JOBS, PODS
from phalanx.dialects.kueue import kinds
from tests.dialects.kueue.written import cluster_queue, group, named
from tests.kube.double import Object
from tests.kube.stage import Stage
from tests.kube.test_bind_barrier import play, settle
from tests.kube.test_kueue import conditions, job, stage_with, workload


def elastic(name: str, pods: int) -> Object:
    found = job(name, pods)
    found["spec"]["completions"] = 20
    found["metadata"]["annotations"] = {"kueue.x-k8s.io/elastic-job": "true"}
    return found


def sizes(stage: Stage, name: str) -> tuple[int, int, str]:
    """Return the number of pods that the Workload requests, the number of admitted pods, and their usage."""
    found = workload(stage, name)
    (given,) = found["status"]["admission"]["podSetAssignments"]
    return found["spec"]["podSets"][0]["count"], given["count"], given["resourceUsage"]["cpu"]


def queue(stage: Stage) -> tuple[int, int, str, str]:
    """Workloads that wait and are admitted, and what is reserved and used."""
    status = stage.api.objects[kinds.CLUSTER_QUEUES]["a"].get("status") or {}
    (reserved,), (used,) = status["flavorsReservation"], status["flavorsUsage"]
    totals = (each["resources"][0]["total"] for each in (reserved, used))
    return status["pendingWorkloads"], status["admittedWorkloads"], *totals


def test_a_workload_follows_the_size_of_its_job() -> None:
    async def scene() -> None:
        stage = stage_with(4)
        stage.put(elastic("one", 2))
        async with stage.scheduler():
            await stage.until(lambda: conditions(stage, "one").get("Admitted") == "True Admitted")
            stage.change("one", {"parallelism": 3})
            await stage.until(lambda: sizes(stage, "one") == (3, 3, "3"))
            await stage.until(lambda: queue(stage) == (0, 1, "3", "3"))
            stage.change("one", {"parallelism": 6})
            await stage.until(lambda: queue(stage) == (1, 1, "3", "3"))
            assert sizes(stage, "one") == (3, 3, "3"), "all of it or nothing"
            stage.change("one", {"parallelism": 4})
            await stage.until(lambda: sizes(stage, "one") == (4, 4, "4"))
            await stage.until(lambda: queue(stage) == (0, 1, "4", "4"))
            stage.change("one", {"parallelism": 1})
            await stage.until(lambda: sizes(stage, "one") == (1, 1, "1"))
            await stage.until(lambda: queue(stage) == (0, 1, "1", "1"))
            stage.put(job("two", 3))
            await stage.until(lambda: conditions(stage, "two").get("Admitted") == "True Admitted")
            said = conditions(stage, "one")
            assert said["QuotaReserved"] == "True QuotaReserved"
            assert "Evicted" not in said

    play(scene())


def test_a_job_that_is_not_elastic_is_queued_anew_when_it_is_resized() -> None:
    async def scene() -> None:
        stage = stage_with(4)
        rigid = job("one", 2)
        rigid["spec"]["completions"] = 20
        stage.put(rigid)
        async with stage.scheduler():
            await stage.until(lambda: conditions(stage, "one").get("Admitted") == "True Admitted")
            stage.change("one", {"parallelism": 5})
            await stage.until(lambda: stage.api.objects[JOBS]["default/one"]["spec"]["suspend"])
            await stage.until(lambda: conditions(stage, "one").get("QuotaReserved") == "False ExceedsMaxQuota")
            assert "Evicted" not in conditions(stage, "one"), "Kueue makes another Workload"
            assert workload(stage, "one")["spec"]["podSets"][0]["count"] == 5
            stage.change("one", {"parallelism": 3})
            await stage.until(lambda: conditions(stage, "one").get("Admitted") == "True Admitted")
            await stage.until(lambda: queue(stage) == (0, 1, "3", "3"))

    play(scene())


def test_a_pod_that_is_seen_before_the_new_size_of_its_job_waits_for_the_whole_step() -> None:
    async def scene() -> None:
        stage = stage_with(4)
        stage.put(elastic("one", 2))
        async with stage.scheduler():
            await stage.until(lambda: conditions(stage, "one").get("Admitted") == "True Admitted")
            await stage.until(lambda: len(stage.api.bound()) == 2)
            early = copy.deepcopy(next(iter(stage.api.objects[PODS].values())))
            early["metadata"] = {**early["metadata"], "name": "one-early", "uid": "uid-early", "annotations": {}}
            early["spec"].pop("nodeName")
            stage.api.put(PODS, early)
            await settle(stage)
            assert len(stage.api.bound()) == 2, "one more would fit, but nobody knows yet how many are to come"
            stage.change("one", {"parallelism": 5})
            await stage.until(lambda: queue(stage) == (1, 1, "2", "2"))
            assert len(stage.api.bound()) == 2, "all of it or nothing"
            stage.change("one", {"parallelism": 4})
            await stage.until(lambda: len(stage.api.bound()) == 4)

    play(scene())


def test_what_gives_quota_back_lets_the_rest_come() -> None:
    async def scene() -> None:
        stage = stage_with(4)
        stage.put(elastic("two", 2))
        stage.put(elastic("one", 2))
        async with stage.scheduler():
            await stage.until(lambda: len(stage.api.bound()) == 4)
            stage.change("one", {"parallelism": 4})
            await stage.until(lambda: queue(stage) == (1, 2, "4", "4"))
            assert sizes(stage, "one") == (2, 2, "2")
            stage.change("two", {"parallelism": 1})
            stage.api.drop(PODS, "default/two-3")
            await stage.until(lambda: queue(stage) == (1, 2, "3", "3"))
            assert sizes(stage, "one") == (2, 2, "2"), "it lacks two pods, and there is room for one"
            stage.api.drop(JOBS, "default/two")
            for key in [key for key in stage.api.objects[PODS] if key.startswith("default/two-")]:
                stage.api.drop(PODS, key)
            await stage.until(lambda: sizes(stage, "one") == (4, 4, "4"))

    play(scene())


def test_a_pod_that_is_made_anew_changes_no_size() -> None:
    """While it has no node, its job holds the quota of it."""

    async def scene() -> None:
        stage = stage_with(2)
        stage.put(elastic("one", 2))
        async with stage.scheduler():
            await stage.until(lambda: conditions(stage, "one").get("Admitted") == "True Admitted")
            writes = len(stage.api.writes)
            stage.finish("one-1", "Failed")
            await stage.until(lambda: "one-3" in stage.api.bound())
            await settle(stage)
            assert sizes(stage, "one") == (2, 2, "2")
            assert not [one for one in stage.api.writes[writes:] if "workloads" in str(one)]

    play(scene())


def test_a_job_that_started_with_fewer_stays_as_it_was_asked_for() -> None:
    async def scene() -> None:
        stage = stage_with(2)
        some = elastic("one", 4)
        some["metadata"]["annotations"] = {"kueue.x-k8s.io/job-min-parallelism": "1"}
        stage.put(some)
        async with stage.scheduler():
            await stage.until(lambda: conditions(stage, "one").get("Admitted") == "True Admitted")
            await stage.until(lambda: queue(stage) == (0, 1, "2", "2"))
            assert sizes(stage, "one") == (4, 2, "2")

    play(scene())


def test_completions_that_equal_parallelism_follow_it_and_come_back() -> None:
    """The Job that was given two of four pods is over with two; when it starts anew it may have all four."""

    async def scene() -> None:
        stage = stage_with(2, preemption={"withinClusterQueue": "LowerPriority"})
        stage.api.put(kinds.PRIORITY_CLASSES, named("high", value=10))
        some = job("one", 4)
        some["spec"] |= {"completions": 4, "completionMode": "Indexed"}
        words = {"job-min-parallelism": "1", "job-completions-equal-parallelism": "true"}
        some["metadata"]["annotations"] = {f"kueue.x-k8s.io/{key}": text for key, text in words.items()}
        stage.put(some)
        async with stage.scheduler():
            await stage.until(lambda: conditions(stage, "one").get("Admitted") == "True Admitted")
            assert asked(stage) == (2, 2)
            assert sizes(stage, "one") == (4, 2, "2")
            stage.put(job("urgent", 2, priority_class="high"))
            await stage.until(lambda: conditions(stage, "urgent").get("Admitted") == "True Admitted")
            stage.api.put(kinds.CLUSTER_QUEUES, cluster_queue("a", group(f={"cpu": 6})))
            await stage.until(lambda: asked(stage) == (4, 4))
            await stage.until(lambda: sizes(stage, "one") == (4, 4, "4"))

    def asked(stage: Stage) -> tuple[int, int]:
        spec = stage.api.objects[JOBS]["default/one"]["spec"]
        return spec["parallelism"], spec["completions"]

    play(scene())


def test_a_job_that_waits_may_ask_for_other_pods_and_another_class() -> None:
    """Kueue writes its Workload anew in place: UpdatedWorkload."""

    async def scene() -> None:
        stage = stage_with(2)
        for name, value in (("low", 1), ("high", 10)):
            stage.api.put(kinds.PRIORITY_CLASSES, named(name, value=value))
        stage.put(job("one", 4, priority_class="low"))
        async with stage.scheduler():
            await stage.until(lambda: conditions(stage, "one").get("QuotaReserved", "").startswith("False"))
            found = stage.api.objects[JOBS]["default/one"]
            labels = {**found["metadata"]["labels"], "kueue.x-k8s.io/priority-class": "high"}
            stage.api.put(JOBS, {**found, "metadata": {**found["metadata"], "labels": labels}})
            stage.change("one", {"parallelism": 3, "completions": 3})
            await stage.until(lambda: workload(stage, "one")["spec"]["podSets"][0]["count"] == 3)
            await stage.until(lambda: workload(stage, "one")["spec"]["priority"] == 10)
            assert workload(stage, "one")["spec"]["priorityClassRef"]["name"] == "high"
            writes = len(stage.api.writes)
            stage.change("one", {"parallelism": 2, "completions": 2})
            await stage.until(lambda: conditions(stage, "one").get("Admitted") == "True Admitted")
            assert sizes(stage, "one") == (2, 2, "2")
            await settle(stage)
            written = [one for one in stage.api.writes[writes:] if "workloads" in one]
            assert len(written) <= 3, "its size, its admission, and that its pods are ready"

    play(scene())
