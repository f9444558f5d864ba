"""Pods of a PodGroup of scheduling.k8s.io are one gang, in the shapes of Kubernetes 1.35, 1.36 and 1.37."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.client.kind import Kind
from phalanx.dialects.kube_scheduler.kubernetes import kinds
from tests.kube import double
from tests.kube.double import Object, node
from tests.kube.stage import Stage
from tests.kube.test_bind_barrier import play, settle
from tests.kube.test_scheduler_plugins import blocked

ON = frozenset({kinds.NAME})
SHAPES = pytest.mark.parametrize("kind", [kinds.POD_GROUPS_1_36, kinds.POD_GROUPS_1_37], ids=["1.36", "1.37"])
GANG = "scheduling.k8s.io:g"


def stage_with(*nodes: Object, served: Kind = kinds.POD_GROUPS_1_36) -> Stage:
    stage = Stage(nodes=list(nodes) or [node("n1", 4)], dialects=ON)
    for kind in {*kinds.POD_GROUPS, kinds.WORKLOADS_1_35} - {served}:
        del stage.api.objects[kind]
    return stage


def group(stage: Stage, kind: Kind, count: int | None, name: str = "g", **spec: Any) -> None:
    policy: Object = {"basic": {}} if count is None else {"gang": {"minCount": count}}
    meta = {"name": name, "namespace": "default", "generation": 1}
    stage.api.put(kind, {"metadata": meta, "spec": {"schedulingPolicy": policy, **spec}})


def pod(name: str, group: str = "g", cpu: str = "1", **more: Any) -> Object:
    found = double.pod(name, cpu)
    found["spec"] |= {"schedulingGroup": {"podGroupName": group}, **more}
    return found


def conditions(stage: Stage, kind: Kind, name: str = "g") -> dict[str, str]:
    status = stage.api.objects[kind][f"default/{name}"].get("status") or {}
    return {one["type"]: f"{one['status']} {one['reason']}" for one in status.get("conditions") or ()}


@SHAPES
def test_a_group_starts_when_its_minimum_exists_and_fits(kind: Kind) -> None:
    async def scene() -> None:
        stage = stage_with(served=kind)
        stage.put(double.pod("other", "2"), pod("p0"), pod("p1"))
        async with stage.scheduler():
            await stage.until(lambda: stage.api.bound() == {"other": "n1"})
            assert "PodGroup g, which its pods name, does not exist yet" in blocked(stage, GANG)
            group(stage, kind, 3)
            await stage.until(lambda: "2 of 3 pods exist" in blocked(stage, GANG))
            assert conditions(stage, kind) == {}
            stage.put(pod("p2"))
            await stage.until(lambda: conditions(stage, kind) == {kinds.SCHEDULED[kind]: "False Unschedulable"})
            await settle(stage)
            assert set(stage.api.bound()) == {"other"}, "two of the three would fit"
            stage.finish("other")
            await stage.until(lambda: {"p0", "p1", "p2"} <= set(stage.api.bound()))
            await stage.until(lambda: conditions(stage, kind) == {kinds.SCHEDULED[kind]: "True Scheduled"})
            stage.put(pod("p3"), pod("p4"))  # beyond the minimum: each as there is room
            await stage.until(lambda: "p3" in stage.api.bound())
            stage.finish("p0")
            await stage.until(lambda: "p4" in stage.api.bound())
            assert conditions(stage, kind) == {kinds.SCHEDULED[kind]: "True Scheduled"}, "it stays"

    play(scene())


def test_pods_of_a_basic_group_start_as_there_is_room() -> None:
    async def scene() -> None:
        stage = stage_with()
        group(stage, kinds.POD_GROUPS_1_36, None)
        stage.put(*(pod(f"p{number}") for number in range(6)))
        async with stage.scheduler():
            await stage.until(lambda: len(stage.api.bound()) == 4)
            stage.finish(next(iter(stage.api.bound())))
            await stage.until(lambda: len(stage.api.bound()) == 5)

    play(scene())


def test_a_group_keeps_to_one_domain_and_its_priority_counts() -> None:
    async def scene() -> None:
        nodes = [node(name, cpu) for name, cpu in (("n0", 2), ("n1", 1), ("n2", 2), ("n3", 2))]
        for one, rack in zip(nodes, "aabb", strict=True):
            one["metadata"]["labels"] = {"rack": rack}
        stage = stage_with(*nodes)
        rack = {"schedulingConstraints": {"topology": [{"key": "rack"}]}}
        group(stage, kinds.POD_GROUPS_1_36, 4, "low", **rack)
        group(stage, kinds.POD_GROUPS_1_36, 4, "high", priority=7, **rack)
        stage.put(*(pod(f"{name}-{number}", name) for name in ("low", "high") for number in range(4)))
        async with stage.scheduler():
            await stage.until(lambda: len(stage.api.bound()) == 4)
            assert set(stage.api.bound()) == {f"high-{number}" for number in range(4)}
            assert set(stage.api.bound().values()) == {"n2", "n3"}
            await settle(stage)
            assert len(stage.api.bound()) == 4, "the other rack has room for three"

    play(scene())


def of_1_35(name: str, replica: str) -> Object:
    found = double.pod(name)
    found["spec"]["workloadRef"] = {"name": "w", "podGroup": "g", "podGroupReplicaKey": replica}
    return found


def test_in_1_35_pods_name_a_group_of_their_workload_and_its_replica() -> None:
    async def scene() -> None:
        stage = stage_with(served=kinds.WORKLOADS_1_35)
        stage.put(of_1_35("a0", "a"), of_1_35("a1", "a"), of_1_35("b0", "b"))
        async with stage.scheduler():
            await stage.until(lambda: "does not exist yet" in blocked(stage, "scheduling.k8s.io:w:g:a"))
            groups = [{"name": "other", "policy": {"basic": {}}}, {"name": "g", "policy": {"gang": {"minCount": 2}}}]
            meta = {"name": "w", "namespace": "default"}
            stage.api.put(kinds.WORKLOADS_1_35, {"metadata": meta, "spec": {"podGroups": groups}})
            await stage.until(lambda: set(stage.api.bound()) == {"a0", "a1"})
            assert "1 of 2 pods exist" in blocked(stage, "scheduling.k8s.io:w:g:b")
            stage.put(of_1_35("b1", "b"))
            await stage.until(lambda: len(stage.api.bound()) == 4)

    play(scene())


def test_two_jobs_whose_pods_name_one_group_are_one_gang() -> None:
    """So the samples of JobSet are written, before it makes its groups itself."""

    async def scene() -> None:
        stage = stage_with(node("n1", 3))
        group(stage, kinds.POD_GROUPS_1_36, 4)
        for name in ("js-0", "js-1"):
            one = double.job(name, 2)
            one["spec"]["suspend"] = False
            one["metadata"]["labels"] = {}
            one["spec"]["template"]["spec"]["schedulingGroup"] = {"podGroupName": "g"}
            stage.put(one)
        async with stage.scheduler():
            await stage.until(lambda: len(stage.api.pods()) == 4)
            await settle(stage)
            assert not stage.api.bound(), "one of the two alone would fit"
            stage.put_node(node("n2", 1))
            await stage.until(lambda: len(stage.api.bound()) == 4)

    play(scene())


def test_pods_of_another_scheduler_and_without_the_dialect_are_left_alone() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 4)])
        group(stage, kinds.POD_GROUPS_1_36, 3)
        stage.put(pod("p0"))
        async with stage.scheduler():
            await stage.until(lambda: stage.api.bound() == {"p0": "n1"})
        other = stage_with()
        group(other, kinds.POD_GROUPS_1_36, 3)
        theirs = double.pod("p1", scheduler="volcano")
        theirs["spec"]["schedulingGroup"] = {"podGroupName": "g"}
        other.put(theirs)
        async with other.scheduler():
            await settle(other)
            assert not other.api.bound()
            assert conditions(other, kinds.POD_GROUPS_1_36) == {}

    play(scene())
