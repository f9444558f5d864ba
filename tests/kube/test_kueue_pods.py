"""Bare pods of Kueue's queues: pods that Kueue would end are ended, and their status states the reason before."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from phalanx.client.kind import PODS, Kind
from phalanx.dialects.kueue import kinds
from tests.dialects.kueue.written import named
from tests.kube import double
from tests.kube.double import Object
from tests.kube.stage import Stage
from tests.kube.test_bind_barrier import play
from tests.kube.test_kueue import stage_with

PREFIX = "kueue.x-k8s.io"


def pod(name: str, group: str = "", **labels: str) -> Object:
    found = double.pod(name)
    found["metadata"]["labels"] = {f"{PREFIX}/queue-name": "l"}
    found["metadata"]["labels"] |= {f"{PREFIX}/{key.replace('_', '-')}": text for key, text in labels.items()}
    if group:
        found["metadata"]["labels"][f"{PREFIX}/pod-group-name"] = group
        found["metadata"]["annotations"] = {f"{PREFIX}/pod-group-total-count": "2"}
    return found


def drain(stage: Stage) -> None:
    queue = stage.api.objects[kinds.CLUSTER_QUEUES]["a"]
    stage.api.put(kinds.CLUSTER_QUEUES, {**queue, "spec": {**queue["spec"], "stopPolicy": "HoldAndDrain"}})


def drain_locally(stage: Stage) -> None:
    queue = stage.api.objects[kinds.LOCAL_QUEUES]["default/l"]
    stage.api.put(kinds.LOCAL_QUEUES, {**queue, "spec": {**queue["spec"], "stopPolicy": "HoldAndDrain"}})


def deactivate(stage: Stage) -> None:
    for found in list(stage.api.objects[kinds.WORKLOADS].values()):
        stage.api.put(kinds.WORKLOADS, {**found, "spec": {**found["spec"], "active": False}})


def wait_too_long(stage: Stage) -> None:
    stage.now_s += 1001
    for gang in ("default/g", "default/pod:a"):
        stage.world.answers.touch(gang)


def preempt(stage: Stage) -> None:
    stage.api.put(kinds.PRIORITY_CLASSES, named("high", value=10))
    stage.put(pod("urgent", priority_class="high"))


def endings(stage: Stage) -> dict[str, str]:
    """Return a mapping that collects, for each deleted pod, `reason: message` of its condition at that time."""
    found, put = dict[str, str](), stage.api.put

    def seen(kind: Kind, obj: Object) -> Object:
        if kind is PODS and "deletionTimestamp" in obj["metadata"]:
            said = [one for one in obj["status"].get("conditions") or () if one["type"] == "TerminationTarget"]
            found[obj["metadata"]["name"]] = "; ".join(f"{one['reason']}: {one['message']}" for one in said)
        return put(kind, obj)

    stage.api.put = seen  # type: ignore[method-assign]  # to look on
    return found


def evicted(stage: Stage) -> set[str]:
    found = stage.api.objects[kinds.WORKLOADS].values()
    said = [one for each in found for one in (each.get("status") or {}).get("conditions") or ()]
    return {one["reason"] for one in said if one["type"] == "Evicted" and one["status"] == "True"}


@pytest.mark.parametrize(
    ("happens", "why", "text"),
    [
        (drain, "ClusterQueueStopped", "is stopped"),
        (drain_locally, "LocalQueueStopped", "is stopped"),
        (deactivate, "Deactivated", "is deactivated"),
        (wait_too_long, "DeactivatedDueToMaximumExecutionTimeExceeded", "is deactivated"),
        (preempt, "Preempted", "urgent"),
    ],
)
@pytest.mark.parametrize("group", ["", "g"])
def test_pods_that_kueue_evicts_end(happens: Callable[[Stage], None], why: str, text: str, group: str) -> None:
    async def scene() -> None:
        names = ["a", "b"] if group else ["a"]
        stage = stage_with(len(names), preemption={"withinClusterQueue": "LowerPriority"})
        ended = endings(stage)
        stage.put(*(pod(name, group, max_exec_time_seconds="1000") for name in names))
        async with stage.scheduler():
            await stage.until(lambda: len(stage.api.bound()) == len(names))
            await stage.until(lambda: any("admission" in one.get("status", {}) for one in workloads(stage)))
            happens(stage)
            await stage.until(lambda: sorted(ended) == names and evicted(stage) == {why})
            assert all(said.startswith("WorkloadEvicted: ") and text in said for said in ended.values())

    def workloads(stage: Stage) -> list[Object]:
        return list(stage.api.objects[kinds.WORKLOADS].values())

    play(scene())


@pytest.mark.parametrize("group", ["", "g"])
def test_pods_that_cannot_be_read_have_no_workload(group: str) -> None:
    """It would have no pod sets, which its definition refuses. The pods say what is wrong, and others go on."""

    async def scene() -> None:
        stage = stage_with(3)
        for name in ("a", "b") if group else ("a",):
            one = pod(name, group)
            one["metadata"].setdefault("annotations", {})[f"{PREFIX}/podset-slice-size"] = "2"
            stage.put(one)
        stage.put(pod("well"))
        async with stage.scheduler():
            await stage.until(lambda: [*stage.api.bound()] == ["well"])
            owners = [one["metadata"]["ownerReferences"] for one in stage.api.objects[kinds.WORKLOADS].values()]
            assert [one["name"] for listed in owners for one in listed] == ["well"]
            assert stage.reason(group or "pod:a").startswith("Invalid: a sets phalanx.dev/role-slice to '2@'")

    play(scene())
