"""Quota settings of Kueue's Configuration: the file as users write it, jobs, and the resulting statuses."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.client.kind import JOBS, NAMESPACES, NODES
from phalanx.client.quantity import parse
from phalanx.dialects.kueue import kinds
from phalanx.dialects.kueue.tree.configuration import CONFIGURATIONS
from phalanx.model.queue import QueueOrder
from tests.dialects.kueue.written import cluster_queue, group, local_queue, named
from tests.kube.double import Object, node
from tests.kube.stage import Stage
from tests.kube.test_bind_barrier import play
from tests.kube.test_kueue import ON, conditions, job, workload

MIG = "nvidia.com/mig-1g.5gb"
CREDITS = f"""
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
resources:
  transformations:
  - input: {MIG}
    strategy: Replace
    outputs: {{credits: 2}}
  - input: cpu
    outputs: {{credits: 500m}}
"""


def configured(text: str, queue: Object, *local_queues: Object) -> Stage:
    """Return a stage with a node of 8 cpu and 8 parts of GPUs, that Configuration, that ClusterQueue, and its
    LocalQueues."""
    stage = Stage(nodes=[node("n1", 8)], dialects=ON)
    stage.api.objects[NODES]["n1"]["status"]["allocatable"][MIG] = "8"
    stage.api.put(NAMESPACES, named("default"))
    stage.api.put(kinds.RESOURCE_FLAVORS, named("f", spec={}))
    stage.api.put(kinds.CLUSTER_QUEUES, queue)
    for one in local_queues:
        stage.api.put(kinds.LOCAL_QUEUES, one)
    data = {"controller_manager_config.yaml": text}
    stage.api.put(CONFIGURATIONS, named("kueue-manager-config", "kueue-system", data=data))
    return stage


def usage(stage: Stage, kind: Any, key: str) -> dict[str, str]:
    """Return the usage of the flavor `f` in a queue's status."""
    status = stage.api.objects[kind][key].get("status") or {}
    (flavor,) = status.get("flavorsUsage") or [{"resources": []}]
    return {one["name"]: one["total"] for one in flavor["resources"]}


def test_quota_counts_what_is_made_of_requests_and_nodes_see_the_requests() -> None:
    def with_part(name: str) -> Object:
        found = job(name, 1)
        found["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"][MIG] = "1"
        return found

    async def scene() -> None:
        queue = cluster_queue("a", group(f={"cpu": 8, "credits": 5}))
        stage = configured(CREDITS, queue, local_queue("l", "a"))
        stage.put(with_part("one"))
        async with stage.scheduler():
            await stage.until(lambda: conditions(stage, "one").get("Admitted") == "True Admitted")
            (given,) = workload(stage, "one")["status"]["admission"]["podSetAssignments"]
            assert given["resourceUsage"] == {"cpu": "1", "credits": "3"}
            assert given["flavors"] == {"cpu": "f", "credits": "f"}
            stage.put(with_part("two"))
            await stage.until(lambda: conditions(stage, "two").get("QuotaReserved") == "False WaitingForQuota")
            asked = workload(stage, "two")["status"]["resourceRequests"]
            assert asked == [{"name": "main", "resources": {"cpu": "1", "credits": "3"}}]
            assert "3 credits on resourceflavor/f of its limit of 5 credits" in stage.reason("two")
            for kind, key in ((kinds.CLUSTER_QUEUES, "a"), (kinds.LOCAL_QUEUES, "default/l")):
                await stage.until(lambda kind=kind, key=key: usage(stage, kind, key) == {"cpu": "1", "credits": "3"})
            assert stage.cluster.columns.allocatable[MIG][0] == 8
            assert stage.cluster.columns.free[MIG][0] == 7
        async with stage.scheduler():  # a new scheduler finds the running jobs
            await stage.until(lambda: "default/one" in stage.cluster.jobs)
            used = stage.cluster.tree.branch("clusterqueue/a").account.total
            assert used["resourceflavor/f", "credits"] == 3
            stage.api.drop(JOBS, "default/one")
            await stage.until(lambda: conditions(stage, "two").get("Admitted") == "True Admitted")

    play(scene())


def test_a_resource_that_is_excluded_uses_no_quota_though_its_queue_has_one() -> None:
    async def scene() -> None:
        queue = cluster_queue("a", group(f={"cpu": 1, "memory": "1Gi"}))
        stage = configured("resources: {excludeResourcePrefixes: [cpu]}", queue, local_queue("l", "a"))
        stage.put(job("one", 2))
        async with stage.scheduler():
            await stage.until(lambda: conditions(stage, "one").get("Admitted") == "True Admitted")
            (given,) = workload(stage, "one")["status"]["admission"]["podSetAssignments"]
            assert given["resourceUsage"] == {}

    play(scene())


BY_USAGE = """
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
admissionFairSharing:
  usageHalfLifeTime: 1h
  usageSamplingInterval: 5m
  resourceWeights: {cpu: 2}
"""
HALF_LIFE_S, INTERVAL_S = 3600.0, 300.0
SHARED = {"admissionScope": {"admissionMode": "UsageBasedAdmissionFairSharing"}}
PENDING = ("v1beta2", "clusterqueues", "a", "pendingworkloads")


def of(queue: str, name: str, pods: int, **labels: str) -> Object:
    found = job(name, pods, **labels)
    found["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = queue
    return found


def admission(stage: Stage, queue: str) -> Any:
    status = stage.api.objects[kinds.LOCAL_QUEUES][f"default/{queue}"].get("status") or {}
    return (status.get("fairSharing") or {}).get("admissionFairSharingStatus")


def listed(stage: Stage) -> list[str]:
    """Return the pending jobs in the visibility API."""
    answer = stage.world.answers.reports.view("visibility.kueue.x-k8s.io", PENDING, {})
    found: Any = answer() if answer is not None else {}
    return [one["metadata"]["ownerReferences"][0]["name"] for one in found["items"]]


def test_whose_local_queue_has_used_less_comes_first_whatever_the_priority() -> None:
    async def scene() -> None:
        queue = cluster_queue("a", group(f={"cpu": 2}), **SHARED)
        stage = configured(BY_USAGE, queue, local_queue("l", "a"), local_queue("m", "a"))
        stage.api.put(kinds.PRIORITY_CLASSES, named("high", value=10))
        stage.put(of("l", "ran", 2))
        async with stage.scheduler():
            await stage.until(lambda: conditions(stage, "ran").get("Admitted") == "True Admitted")
            await stage.until(lambda: admission(stage, "l") is not None)
            assert admission(stage, "l")["consumedResources"] == {}
            stage.put(of("l", "more", 2, priority_class="high"))
            await stage.until(lambda: conditions(stage, "more").get("QuotaReserved") == "False WaitingForQuota")
            stage.now_s += 600
            stage.put(of("m", "other", 2))
            await stage.until(lambda: conditions(stage, "other").get("QuotaReserved") == "False WaitingForQuota")
            await stage.until(lambda: bool(admission(stage, "l")["consumedResources"]))
            consumed = float(parse(admission(stage, "l")["consumedResources"]["cpu"]))
            assert consumed == pytest.approx(2 * (1 - 0.5 ** (INTERVAL_S / HALF_LIFE_S)))
            assert admission(stage, "m")["consumedResources"] == {}
            assert listed(stage) == ["other", "more"]
        async with stage.scheduler():  # a new scheduler finds the running jobs
            await stage.until(lambda: len(stage.cluster.jobs) == 3)
            assert stage.cluster.jobs["default/ran"].job.account == "default/l"
            stage.api.drop(JOBS, "default/ran")
            await stage.until(lambda: conditions(stage, "other").get("Admitted") == "True Admitted")
            assert conditions(stage, "more")["QuotaReserved"] == "False WaitingForQuota"

    play(scene())


def test_of_many_that_come_at_once_not_all_are_of_one_local_queue() -> None:
    """`m` may use twice as much as `l`, so two jobs of `m` are admitted for each job of `l`."""

    async def scene() -> None:
        queue = cluster_queue("a", group(f={"cpu": 6}), queueingStrategy="StrictFIFO", **SHARED)
        weighty = local_queue("m", "a", fairSharing={"weight": "2"})
        stage = configured(BY_USAGE, queue, local_queue("l", "a"), weighty)
        stage.put(*(of("l", f"l{number}", 1) for number in range(8)))
        stage.put(*(of("m", f"m{number}", 1) for number in range(8)))
        async with stage.scheduler():
            await stage.until(lambda: len(stage.api.bound()) == 6)
            assert sorted(pod[0] for pod in stage.api.bound()) == ["l", "l", "m", "m", "m", "m"]

    play(scene())


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("{}", SHARED),
        ("admissionFairSharing: {usageHalfLifeTime: 0s}", SHARED),
        (BY_USAGE, {"admissionScope": {"admissionMode": "NoAdmissionFairSharing"}}),
    ],
)
def test_without_admission_fair_sharing_past_usage_orders_nothing(text: str, spec: dict[str, Any]) -> None:
    async def scene() -> None:
        stage = configured(text, cluster_queue("a", group(f={"cpu": 2}), **spec), local_queue("l", "a"))
        stage.put(of("l", "one", 1))
        async with stage.scheduler():
            await stage.until(lambda: conditions(stage, "one").get("Admitted") == "True Admitted")
            assert stage.cluster.queues["clusterqueue/a"].order is QueueOrder.PRIORITY
            assert stage.cluster.jobs["default/one"].job.account == ""
            assert admission(stage, "l") is None

    play(scene())
