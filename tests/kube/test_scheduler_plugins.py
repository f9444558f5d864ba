"""Pods of PodGroups and namespaces with an ElasticQuota, where the dialect of scheduler-plugins is on."""

from __future__ import annotations

from typing import Any

from phalanx.client.kind import PODS
from phalanx.dialects.kube_scheduler.scheduler_plugins import kinds
from phalanx.model.plan import Wait
from tests.kube import double
from tests.kube.double import Object, node
from tests.kube.stage import Stage
from tests.kube.test_bind_barrier import play, settle

ON = frozenset({kinds.NAME})
NEW, OLD = "scheduling.x-k8s.io/pod-group", "pod-group.scheduling.sigs.k8s.io"


def stage_with(cpu: int = 8, **quota: Any) -> Stage:
    """A node with `cpu` cpus, and an ElasticQuota of the namespace if `min` or `max` is given."""
    stage = Stage(nodes=[node("n1", cpu)], dialects=ON)
    if quota:
        stage.api.put(kinds.ELASTIC_QUOTAS, {"metadata": {"name": "q", "namespace": "default"}, "spec": quota})
    return stage


def group(stage: Stage, name: str, minimum: int, **more: Any) -> None:
    meta = {"name": name, "namespace": "default"}
    stage.api.put(kinds.POD_GROUPS, {"metadata": meta, "spec": {"minMember": minimum, **more}})


def pod(name: str, group: str = "", *, label: str = NEW, scheduler: str = kinds.SCHEDULER_NAME, **more: str) -> Object:
    found = double.pod(name, scheduler=scheduler)
    found["metadata"]["labels"] |= {label: group} if group else {}
    found["metadata"]["labels"] |= more
    return found


def status(stage: Stage, name: str) -> Object:
    return dict(stage.api.objects[kinds.POD_GROUPS][f"default/{name}"].get("status") or {})


def reason(stage: Stage, gang: str) -> str:
    """Why it waits, as it was told last."""
    told = [action.reason for action in stage.actions if isinstance(action, Wait) and action.job == f"default/{gang}"]
    return f"{told[-1].code}: {told[-1].text}" if told else ""


def blocked(stage: Stage, gang: str) -> str:
    job = stage.cluster.jobs.get(f"default/{gang}")
    return str(job.job.blocked.text) if job is not None and job.job.blocked is not None else ""


def test_a_group_starts_when_all_of_it_exists_and_fits() -> None:
    async def scene() -> None:
        stage = stage_with(4)
        stage.put(double.pod("other", "2"))
        group(stage, "g", 3)
        stage.put(pod("p0", "g"), pod("p1", "g"))
        async with stage.scheduler():
            await stage.until(lambda: stage.api.bound() == {"other": "n1"})
            await stage.until(lambda: status(stage, "g") == {"phase": "Pending"})
            assert "2 of 3 pods exist" in blocked(stage, "scheduling.x-k8s.io:g")
            stage.put(pod("p2", "g"))
            await stage.until(lambda: status(stage, "g").get("phase") == "Scheduling")
            await settle(stage)
            assert set(stage.api.bound()) == {"other"}  # two of the three would fit
            stage.finish("other")
            await stage.until(lambda: {"p0", "p1", "p2"} <= set(stage.api.bound()))
            stage.put(pod("p3", "g"))  # beyond the minimum: by itself
            await stage.until(lambda: "p3" in stage.api.bound())

    play(scene())


def test_a_group_waits_until_its_minimum_resources_are_free() -> None:
    async def scene() -> None:
        stage = stage_with(4)
        group(stage, "g", 2, minResources={"cpu": "4"})
        stage.put(double.pod("other", "1"))
        async with stage.scheduler():
            await stage.until(lambda: set(stage.api.bound()) == {"other"})
            stage.put(pod("p0", "g"), pod("p1", "g"))
            await settle(stage)
            assert set(stage.api.bound()) == {"other"}  # both would fit, four cpu do not
            stage.finish("other")
            await stage.until(lambda: {"p0", "p1"} <= set(stage.api.bound()))
            assert status(stage, "g")["scheduleStartTime"]

    play(scene())


def test_of_two_groups_the_one_that_was_made_first_comes_first() -> None:
    """Whenever their pods were made."""

    async def scene() -> None:
        stage = stage_with(2)
        stage.put(double.pod("other", "2"))
        for name, at in (("older", 1), ("newer", 2)):
            group(stage, name, 2)
            made = stage.api.objects[kinds.POD_GROUPS][f"default/{name}"]
            made["metadata"]["creationTimestamp"] = f"2026-01-01T00:00:0{at}Z"
        async with stage.scheduler():
            await stage.until(lambda: set(stage.api.bound()) == {"other"})
            stage.put(*(pod(f"{name}-{number}", name) for name in ("newer", "older") for number in range(2)))
            await settle(stage)
            stage.finish("other")
            await stage.until(lambda: len(stage.api.bound()) == 3)
            assert set(stage.api.bound()) == {"other", "older-0", "older-1"}

    play(scene())


def test_a_group_without_its_object_waits_for_it() -> None:
    async def scene() -> None:
        stage = stage_with()
        stage.put(pod("p", "g"), pod("alone"))
        async with stage.scheduler():
            await stage.until(lambda: "alone" in stage.api.bound())
            await stage.until(lambda: "PodGroup g of its pods does not exist" in blocked(stage, f"{kinds.GROUP}:g"))
            group(stage, "g", 1)
            await stage.until(lambda: "p" in stage.api.bound())

    play(scene())


def test_both_spellings_of_the_label_and_groups_without_an_object() -> None:
    async def scene() -> None:
        stage = stage_with()
        group(stage, "old", 2)
        stage.put(pod("o0", "old", label=OLD), pod("l0", "light", label=f"{OLD}/name", **{f"{OLD}/min-available": "2"}))
        stage.put(pod("ours", "old", scheduler="phalanx"))
        async with stage.scheduler():
            await stage.until(lambda: {"o0", "ours"} <= set(stage.api.bound()))
            await settle(stage)
            assert "l0" not in stage.api.bound()
            stage.put(pod("l1", "light", label=f"{OLD}/name", **{f"{OLD}/min-available": "2"}))
            await stage.until(lambda: {"l0", "l1"} <= set(stage.api.bound()))

    play(scene())


def test_a_status_goes_through_the_phases_and_ends() -> None:
    async def scene() -> None:
        stage = stage_with()
        stage.controller.collects = False  # the set is not there
        group(stage, "g", 2)
        async with stage.scheduler():
            await stage.until(lambda: status(stage, "g") == {"phase": "Pending"})
            stage.put(*(owned(pod(f"p{number}", "g")) for number in range(2)))
            await stage.until(lambda: len(stage.api.bound()) == 2)
            for name in ("p0", "p1"):
                stage.finish(name, "Running")
            running = {"phase": "Running", "running": 2, "occupiedBy": "default/their-set"}
            await stage.until(lambda: running.items() <= status(stage, "g").items())
            since = status(stage, "g")["scheduleStartTime"]
            stage.finish("p0")
            stage.finish("p1")
            done = {"phase": "Finished", "succeeded": 2, "occupiedBy": "default/their-set", "scheduleStartTime": since}
            await stage.until(lambda: status(stage, "g") == done)
            stage.api.drop(PODS, "default/p0")
            stage.api.drop(PODS, "default/p1")
            await settle(stage)
            assert status(stage, "g") == done

    def owned(obj: Object) -> Object:
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "their-set", "uid": "u"}
        return obj | {"metadata": obj["metadata"] | {"ownerReferences": [owner]}}

    play(scene())


def test_pods_of_a_job_that_names_its_scheduler_are_counted() -> None:
    async def scene() -> None:
        stage = stage_with(min={"cpu": 4}, max={"cpu": 4})
        group(stage, "g", 2)
        job = double.job("theirs", 0, scheduler=kinds.SCHEDULER_NAME)
        meta = {"name": "theirs", "namespace": "default"}
        stage.put(job | {"metadata": meta, "spec": job["spec"] | {"suspend": False}})
        uid = stage.api.job("theirs")["metadata"]["uid"]
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "theirs", "uid": uid, "controller": True}
        for number in range(2):
            one = pod(f"p{number}", "g")
            stage.put(one | {"metadata": one["metadata"] | {"ownerReferences": [owner]}})
        async with stage.scheduler():
            await stage.until(lambda: len(stage.api.bound()) == 2)
            stage.finish("p0", "Running")
            await stage.until(lambda: status(stage, "g").get("running") == 1)
            quota = stage.api.objects[kinds.ELASTIC_QUOTAS]
            await stage.until(lambda: quota["default/q"].get("status") == {"used": {"cpu": "1"}})

    play(scene())


def test_pods_of_a_namespace_stay_within_its_quota() -> None:
    async def scene() -> None:
        stage = stage_with(min={"cpu": 3}, max={"cpu": 2})
        stage.put(*(pod(f"p{number}") for number in range(3)))
        async with stage.scheduler():
            await stage.until(lambda: len(stage.api.bound()) == 2)
            await stage.until(lambda: "QueueLimit" in reason(stage, "pod:p2"))

    play(scene())


def test_what_is_within_min_is_taken_back_whatever_the_priority() -> None:
    """And no more than that: above its own `min` a namespace takes nothing of another."""

    async def scene() -> None:
        stage = stage_with(4)
        for namespace in ("a", "b"):
            meta = {"name": "q", "namespace": namespace}
            stage.api.put(kinds.ELASTIC_QUOTAS, {"metadata": meta, "spec": {"min": {"cpu": 2}}})
        stage.put(*(of(f"a{number}", "a", 100) for number in range(4)))
        async with stage.scheduler():
            await stage.until(lambda: len(stage.api.bound()) == 4)
            stage.put(*(of(f"b{number}", "b", 0) for number in range(3)))
            await stage.until(lambda: sorted(name[0] for name in stage.api.bound()) == ["a", "a", "b", "b"])
            await settle(stage)
            assert sorted(name[0] for name in stage.api.bound()) == ["a", "a", "b", "b"]

    play(scene())


def of(name: str, namespace: str, priority: int) -> Object:
    found = pod(name)
    found["metadata"]["namespace"] = namespace
    found["spec"]["priority"] = priority
    return found


def test_pods_without_quota_and_group_are_answered_nothing_until_there_is_a_quota() -> None:
    async def scene() -> None:
        stage = stage_with()
        stage.put(pod("p"), pod("gone"))
        async with stage.scheduler():
            watch = stage.world.watch.capacity.dialects
            await stage.until(lambda: {"p", "gone"} <= set(stage.api.bound()))
            assert watch.claims.silent == {"default/pod:p", "default/pod:gone"}
            stage.api.drop(PODS, "default/gone")
            await stage.until(lambda: set(watch.claims.claimed) == watch.claims.silent == {"default/pod:p"})
            stage.api.put(
                kinds.ELASTIC_QUOTAS, {"metadata": {"name": "q", "namespace": "default"}, "spec": {"min": {"cpu": 1}}}
            )
            quota = stage.api.objects[kinds.ELASTIC_QUOTAS]
            await stage.until(lambda: quota["default/q"].get("status") == {"used": {"cpu": "0"}})
            stage.put(pod("later"))  # what ran before the quota came is not in it
            await stage.until(lambda: "later" in stage.api.bound())
            stage.finish("later", "Running")
            await stage.until(lambda: quota["default/q"].get("status") == {"used": {"cpu": "1"}})
            assert watch.claims.silent == {"default/pod:p"}

    play(scene())


def test_a_gpu_that_no_quota_names_may_not_be_asked_for() -> None:
    async def scene() -> None:
        stage = stage_with(min={"cpu": 3})
        asks = pod("p")
        asks["spec"]["containers"][0]["resources"]["requests"]["nvidia.com/gpu"] = "1"
        stage.put(asks)
        async with stage.scheduler():
            await stage.until(lambda: "the min of no ElasticQuota names nvidia.com/gpu" in blocked(stage, "pod:p"))

    play(scene())
