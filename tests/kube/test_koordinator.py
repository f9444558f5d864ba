"""Pods with `schedulerName: koord-scheduler`, with the Koordinator dialect enabled: gangs, and quotas of its tree."""

from __future__ import annotations

import json
from typing import Any

import pytest

from phalanx.client.kind import PODS
from phalanx.dialects.kube_scheduler.koordinator import kinds
from phalanx.dialects.kube_scheduler.koordinator.definitions import cpus
from phalanx.model.plan import Wait
from tests.kube import double
from tests.kube.double import Object, node
from tests.kube.stage import Stage
from tests.kube.test_bind_barrier import play, settle

ON = frozenset({kinds.NAME, "scheduler-plugins"})
LABEL = "pod-group.scheduling.sigs.k8s.io"
GANG = "gang.scheduling.koordinator.sh"
QUOTA = "quota.scheduling.koordinator.sh"
GPU_MEMORY = "koordinator.sh/gpu-memory"


def stage_with(cpu: int = 8) -> Stage:
    return Stage(nodes=[node("n1", cpu)], dialects=ON)


def pod(name: str, cpu: str = "1", *, labels: Object | None = None, notes: Object | None = None) -> Object:
    found = double.pod(name, cpu, scheduler=kinds.SCHEDULER_NAME)
    found["metadata"]["labels"] |= labels or {}
    found["metadata"]["annotations"] |= notes or {}
    return found


def group(stage: Stage, name: str, minimum: int) -> None:
    meta = {"name": name, "namespace": "default"}
    stage.api.put(kinds.POD_GROUPS, {"metadata": meta, "spec": {"minMember": minimum}})


def quota(stage: Stage, name: str, *, least: int = 0, most: int, parent: str = "", **labels: str) -> None:
    said = {f"{QUOTA}/{key.replace('_', '-')}": text for key, text in labels.items()}
    said |= {f"{QUOTA}/parent": parent} if parent else {}
    meta = {"name": name, "namespace": "kube-system", "labels": said, "annotations": {}}
    stage.api.put(kinds.ELASTIC_QUOTAS, {"metadata": meta, "spec": {"min": {"cpu": least}, "max": {"cpu": most}}})


def in_quota(name: str, of: str, cpu: str = "1", **labels: str) -> Object:
    return pod(name, cpu, labels={f"{QUOTA}/name": of} | {f"{QUOTA}/{key}": text for key, text in labels.items()})


def status(stage: Stage, name: str) -> Object:
    return dict(stage.api.objects[kinds.POD_GROUPS][f"default/{name}"].get("status") or {})


def blocked(stage: Stage, gang: str) -> str:
    job = stage.cluster.jobs.get(f"default/{gang}")
    return str(job.job.blocked.text) if job is not None and job.job.blocked is not None else ""


def reason(stage: Stage, gang: str) -> str:
    told = [action.reason for action in stage.actions if isinstance(action, Wait) and action.job == f"default/{gang}"]
    return f"{told[-1].code}: {told[-1].text}" if told else ""


def said_of(stage: Stage, name: str, word: str) -> Any:
    notes = stage.api.objects[kinds.ELASTIC_QUOTAS][f"kube-system/{name}"]["metadata"].get("annotations") or {}
    return json.loads(notes.get(f"{QUOTA}/{word}", "null"))


def test_a_pod_group_goes_through_koordinators_phases() -> None:
    async def scene() -> None:
        stage = stage_with()
        stage.put(double.pod("other", "7"))
        stage.put(pod("p0", labels={LABEL: "g"}), pod("p1", labels={LABEL: "g"}))
        async with stage.scheduler():
            await stage.until(lambda: "other" in stage.api.bound())
            await stage.until(lambda: "PodGroup g of its pods does not exist" in blocked(stage, f"{kinds.SIGS}:g"))
            group(stage, "g", 2)
            await stage.until(lambda: status(stage, "g").get("phase") in ("PreScheduling", "Scheduling"))
            await settle(stage)
            assert set(stage.api.bound()) == {"other"}  # only one of the two pods would fit
            stage.finish("other")
            await stage.until(lambda: status(stage, "g").get("phase") == "Scheduled")
            assert status(stage, "g")["scheduled"] == 2
            assert "scheduleStartTime" in status(stage, "g")
            stage.finish("p0", "Running")
            stage.finish("p1", "Failed")
            await stage.until(lambda: status(stage, "g").get("phase") == "Failed")
            stage.api.drop(PODS, "default/p0")
            stage.api.drop(PODS, "default/p1")
            await stage.until(lambda: status(stage, "g") == {"phase": "Pending"})

    play(scene())


def test_a_gang_by_annotations_is_what_its_oldest_pod_says() -> None:
    async def scene() -> None:
        stage = stage_with()
        stage.put(pod("p0", notes={f"{GANG}/name": "g", f"{GANG}/min-available": "2"}))
        stage.put(pod("odd", notes={f"{GANG}/name": "h", f"{GANG}/min-available": "some"}))
        async with stage.scheduler():
            await stage.until(lambda: "gang has not init" in blocked(stage, "koordinator:h"))
            await stage.until(lambda: "1 of 2 pods exist" in blocked(stage, "koordinator:g"))
            stage.put(pod("p1", notes={f"{GANG}/name": "g", f"{GANG}/min-available": "9"}))
            await stage.until(lambda: {"p0", "p1"} <= set(stage.api.bound()))

    play(scene())


def test_pods_stay_within_their_quota_and_those_above() -> None:
    async def scene() -> None:
        stage = stage_with(20)
        quota(stage, "all", least=4, most=5, is_parent="true")
        quota(stage, "a", least=2, most=4, parent="all")
        quota(stage, "b", least=2, most=4, parent="all")
        stage.put(*(in_quota(f"a{number}", "a") for number in range(5)))
        stage.put(in_quota("above", "all"))
        async with stage.scheduler():
            await stage.until(lambda: len(stage.api.bound()) == 4)
            await stage.until(lambda: "QueueLimit" in reason(stage, "pod:a4"))
            await stage.until(lambda: "is a parent" in blocked(stage, "pod:above"))
            # the quota's min was lent to another quota, and is not taken back
            stage.put(in_quota("b0", "b"), in_quota("b1", "b"))
            await stage.until(lambda: len(stage.api.bound()) == 5)
            await stage.until(lambda: "b1" not in stage.api.bound() and "a0" in stage.api.bound())
            await stage.until(lambda: said_of(stage, "b", "request") == {"cpu": "2"})
            await stage.until(lambda: said_of(stage, "a", "runtime") == {"cpu": "3"})
            assert said_of(stage, "all", "child-request") == {"cpu": "7"}  # the sum of the requests of its children
            assert said_of(stage, "a", "child-request") == said_of(stage, "a", "request") == {"cpu": "5"}
            whole = stage.api.objects[kinds.ELASTIC_QUOTAS]
            await stage.until(lambda: whole["kube-system/all"]["status"] == {"used": {"cpu": "5"}})

    play(scene())


def test_an_unknown_quota_is_the_default_one_and_a_namespaces_own_is_found() -> None:
    async def scene() -> None:
        stage = stage_with(20)
        quota(stage, kinds.DEFAULT, most=1)
        stage.put(in_quota("p0", "nowhere"), in_quota("p1", "nowhere"))
        async with stage.scheduler():
            await stage.until(lambda: len(stage.api.bound()) == 1)
            await stage.until(
                lambda: "QueueLimit" in reason(stage, "pod:p1") or "QueueLimit" in reason(stage, "pod:p0")
            )
            meta = {"name": "default", "namespace": "default"}
            stage.api.put(kinds.ELASTIC_QUOTAS, {"metadata": meta, "spec": {"max": {"cpu": 8}}})
            await stage.until(lambda: len(stage.api.bound()) == 2)

    play(scene())


def test_what_may_not_be_preempted_stays_within_min() -> None:
    async def scene() -> None:
        stage = stage_with(20)
        quota(stage, "a", least=2, most=8)
        stage.put(*(in_quota(f"p{number}", "a", preemptible="false") for number in range(4)))
        async with stage.scheduler():
            await stage.until(lambda: len(stage.api.bound()) == 2)
            await settle(stage)
            assert len(stage.api.bound()) == 2
            stage.put(in_quota("soft", "a"))
            await stage.until(lambda: "soft" in stage.api.bound())
            await stage.until(lambda: said_of(stage, "a", "non-preemptible-used") == {"cpu": "2"})
            assert said_of(stage, "a", "non-preemptible-request") == {"cpu": "4"}

    play(scene())


def test_a_changed_annotation_counts_and_our_own_do_not_disturb() -> None:
    async def scene() -> None:
        stage = stage_with(20)
        quota(stage, "a", most=8)
        stage.put(*(in_quota(f"p{number}", "a") for number in range(3)))
        async with stage.scheduler():
            await stage.until(lambda: said_of(stage, "a", "request") == {"cpu": "3"})
            await stage.until(lambda: len(stage.api.bound()) == 3)
            dialects = stage.world.watch.capacity.dialects
            await settle(stage)
            before = dialects.defined[kinds.NAME]
            stage.put(in_quota("more", "a"))
            await stage.until(lambda: said_of(stage, "a", "request") == {"cpu": "4"})
            await settle(stage)
            assert dialects.defined[kinds.NAME] is before
            found = stage.api.objects[kinds.ELASTIC_QUOTAS]["kube-system/a"]
            notes = found["metadata"]["annotations"] | {f"{QUOTA}/admission": '{"cpu": 4}'}
            stage.api.put(kinds.ELASTIC_QUOTAS, found | {"metadata": found["metadata"] | {"annotations": notes}})
            await stage.until(lambda: dialects.defined[kinds.NAME] is not before)
            stage.put(in_quota("fifth", "a"))
            await stage.until(lambda: "QueueLimit" in reason(stage, "pod:fifth"))

    play(scene())


def test_the_scheduler_name_decides_between_two_dialects() -> None:
    async def scene() -> None:
        stage = stage_with()
        group(stage, "g", 1)
        stage.put(pod("theirs", labels={LABEL: "g"}))
        other = double.pod("others", scheduler="scheduler-plugins-scheduler")
        other["metadata"]["labels"][LABEL] = "g"
        stage.put(other)
        async with stage.scheduler():
            await stage.until(lambda: "theirs" in stage.api.bound())
            await stage.until(lambda: "does not exist" in blocked(stage, "scheduling.x-k8s.io:g"))
            assert "others" not in stage.api.bound()

    play(scene())


def test_gangs_of_a_group_start_together_or_not_at_all() -> None:
    def member(name: str, gang: str, least: str, groups: str = '["default/a", "default/b"]') -> Object:
        return pod(name, notes={f"{GANG}/name": gang, f"{GANG}/min-available": least, f"{GANG}/groups": groups})

    async def scene() -> None:
        stage = stage_with(4)
        stage.put(double.pod("other", "2"))
        stage.put(member("a0", "a", "1"), member("a1", "a", "1"))
        stage.put(member("odd", "a", "1", groups="{"), member("far", "c", "1", groups='["default/c", "else/d"]'))
        group = "koordinator-group:a,b"
        async with stage.scheduler():
            await stage.until(lambda: "the gang b of its group" in blocked(stage, group))
            # these pods are in no group, so each starts by itself
            await stage.until(lambda: {"odd", "far"} <= set(stage.api.bound()))
            stage.put(member("b0", "b", "2"))
            await stage.until(lambda: "1 of 2 pods of b exist" in blocked(stage, group))
            stage.put(member("b1", "b", "2"))
            stage.finish("odd")
            await settle(stage)
            # one pod has capacity, and three must start together
            assert not {"a0", "a1", "b0", "b1"} & set(stage.api.bound())
            stage.finish("other")
            await stage.until(lambda: {"b0", "b1"} <= set(stage.api.bound()))
            await stage.until(lambda: {"a0", "a1"} & set(stage.api.bound()) != set())

    play(scene())


def test_pod_groups_of_a_group_start_together_or_not_at_all() -> None:
    async def scene() -> None:
        stage = stage_with(4)
        stage.put(double.pod("other", "2"))

        def grouped(name: str, minimum: int) -> None:
            notes = {f"{GANG}/groups": '["default/a", "default/b"]'}
            meta = {"name": name, "namespace": "default", "annotations": notes}
            stage.api.put(kinds.POD_GROUPS, {"metadata": meta, "spec": {"minMember": minimum}})

        joined = f"koordinator-group:{kinds.SIGS}:a,{kinds.SIGS}:b"
        stage.put(*(pod(name, labels={LABEL: "a"}) for name in ("a0", "a1")))
        async with stage.scheduler():
            await stage.until(lambda: "other" in stage.api.bound())
            grouped("a", 2)
            await stage.until(lambda: "the gang b of its group [a, b] has no PodGroup yet" in blocked(stage, joined))
            grouped("b", 1)
            await stage.until(lambda: "0 of 1 pods of b exist" in blocked(stage, joined))
            stage.put(pod("b0", labels={LABEL: "b"}))
            await settle(stage)
            assert set(stage.api.bound()) == {"other"}  # two pods have capacity, and three must start together
            assert {status(stage, name)["phase"] for name in "ab"} <= {"PreScheduling", "Scheduling"}
        async with stage.scheduler():
            stage.finish("other")
            await stage.until(lambda: {"a0", "a1", "b0"} <= set(stage.api.bound()))
            await stage.until(lambda: [status(stage, name).get("scheduled") for name in "ab"] == [2, 1])

    play(scene())


def test_parts_of_gpus_are_given_by_name_and_said_to_the_hooks_of_nodes() -> None:
    async def scene() -> None:
        stage = stage_with()
        gpus = [{"type": "gpu", "minor": minor, "health": True, "resources": {GPU_MEMORY: "16Gi"}} for minor in (0, 1)]
        stage.api.put(kinds.DEVICES, {"metadata": {"name": "n1"}, "spec": {"devices": gpus}})

        def asking(name: str, **asks: int) -> Object:
            found = pod(name)
            requests = found["spec"]["containers"][0]["resources"]["requests"]
            requests |= {f"koordinator.sh/{key.replace('_', '-')}": amount for key, amount in asks.items()}
            return found

        stage.put(asking("half", gpu=50), asking("third", gpu=30), asking("alone", gpu_core=50))
        async with stage.scheduler():
            await stage.until(lambda: {"half", "third"} <= set(stage.api.bound()))
            stage.put(asking("whole", gpu=100), asking("late", gpu=100))
            await stage.until(lambda: "whole" in stage.api.bound() or "late" in stage.api.bound())
            await stage.until(lambda: "invalid resource device requests" in reason(stage, "pod:alone"))
            await settle(stage)
        assert len(stage.api.bound()) == 3
        minors = {name: given(stage, name) for name in stage.api.bound()}
        assert minors["half"] == minors["third"]
        assert set(map(str, minors.values())) == {"[0]", "[1]"}
        async with stage.scheduler():
            await settle(stage)
            assert len(stage.api.bound()) == 3  # the new scheduler knows which pod holds which device
            stage.finish("half")
            stage.finish("third")
            await stage.until(lambda: len(stage.api.bound()) == 4)

    play(scene())


def given(stage: Stage, name: str) -> list[int]:
    notes = stage.api.objects[PODS][f"default/{name}"]["metadata"]["annotations"]
    return [int(one["minor"]) for one in json.loads(notes[f"{kinds.SCHEDULING}/device-allocated"])["gpu"]]


def described(stage: Stage, name: str, cores: int) -> None:
    """Add a node of `cores` cores with two threads each, in two zones."""
    detail = [
        {"id": core + thread * cores, "core": core, "node": core * 2 // cores}
        for thread in (0, 1)
        for core in range(cores)
    ]
    notes = {"node.koordinator.sh/cpu-topology": json.dumps({"detail": detail})}
    stage.api.put(kinds.NODE_TOPOLOGIES, {"metadata": {"name": name, "annotations": notes}})


def bound_pod(name: str, cpu: str, **notes: Object) -> Object:
    words = {f"{kinds.SCHEDULING}/{key.replace('_', '-')}": json.dumps(said) for key, said in notes.items()}
    found = pod(name, cpu, labels={kinds.QOS: "LSR"}, notes=words)
    found["spec"]["priority"] = 9000
    return found


def told_cpus(stage: Stage, name: str) -> Object:
    notes = stage.api.objects[PODS][f"default/{name}"]["metadata"]["annotations"]
    found: Object = json.loads(notes[f"{kinds.SCHEDULING}/resource-status"])
    return found


def test_pods_have_cores_of_their_own_that_the_node_agent_is_told() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 16), node("plain", 32)], dialects=ON)
        described(stage, "n1", 8)
        before = bound_pod("before", "2", resource_status={"cpuset": "1,9"})
        before["spec"]["nodeName"] = "n1"  # bound by Koordinator's own scheduler
        stage.put(before, bound_pod("a", "2"))
        async with stage.scheduler():
            await stage.until(lambda: "a" in stage.api.bound())
            assert stage.api.bound()["a"] == "n1"  # the annotations of the other pod name no CPUs
            assert told_cpus(stage, "a") == {"cpuset": "0,8"}
            one_zone = {"numaTopologyPolicy": "SingleNUMANode"}
            stage.put(bound_pod("b", "4", numa_topology_spec=one_zone))
            await stage.until(lambda: "b" in stage.api.bound())
            zone = {"node": 0, "resources": {"cpu": "4"}}
            assert told_cpus(stage, "b") == {"cpuset": "2-3,10-11", "numaNodeResources": [zone]}
            stage.put(bound_pod("c", "10"))
            await stage.until(lambda: f"has 4 of the 5 {cpus.CORES} asked" in reason(stage, "pod:c"))
        async with stage.scheduler():
            await settle(stage)
            assert "c" not in stage.api.bound()  # the new scheduler knows which pod holds which CPUs
            stage.finish("before")
            await stage.until(lambda: "c" in stage.api.bound())
            assert told_cpus(stage, "c") == {"cpuset": "1,4-7,9,12-15"}

    play(scene())


def test_what_pods_with_cores_hold_is_known_by_zone() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 8)], dialects=ON)
        described(stage, "n1", 4)
        stage.put(bound_pod("a", "2"))
        async with stage.scheduler():
            await stage.until(lambda: "a" in stage.api.bound())
            stage.put(bound_pod("b", "4", numa_topology_spec={"numaTopologyPolicy": "SingleNUMANode"}))
            # pod b gets a whole zone, although pod a holds half of the other zone
            await stage.until(lambda: "b" in stage.api.bound())
            assert (told_cpus(stage, "a")["cpuset"], told_cpus(stage, "b")["cpuset"]) == ("0,4", "2-3,6-7")

    play(scene())


@pytest.mark.parametrize("percent", [100, 50])
def test_devices_that_another_scheduler_gave_are_not_given_again(percent: int) -> None:
    async def scene() -> None:
        stage = stage_with()
        gpus = [{"type": "gpu", "minor": minor, "health": True, "resources": {GPU_MEMORY: "16Gi"}} for minor in (0, 1)]
        stage.api.put(kinds.DEVICES, {"metadata": {"name": "n1"}, "spec": {"devices": gpus}})
        for name, asked in (("before", percent), ("next", 50)):
            found = pod(name)
            found["spec"]["containers"][0]["resources"]["requests"]["koordinator.sh/gpu"] = asked
            if name == "before":
                found["spec"]["nodeName"] = "n1"
                notes = {f"{kinds.SCHEDULING}/device-allocated": json.dumps({"gpu": [{"minor": 0}]})}
                found["metadata"]["annotations"] |= notes
            stage.put(found)
        async with stage.scheduler():
            await stage.until(lambda: "next" in stage.api.bound())
            assert given(stage, "next") == [1]

    play(scene())


def test_batch_resources_are_placed_and_counted_like_any_others() -> None:
    async def scene() -> None:
        batch_cpu = "kubernetes.io/batch-cpu"
        colocated = node("n1", 4)
        colocated["status"]["allocatable"][batch_cpu] = "8k"
        stage = Stage(nodes=[node("plain", 64), colocated], dialects=ON)
        meta = {"name": "a", "namespace": "kube-system"}
        stage.api.put(kinds.ELASTIC_QUOTAS, {"metadata": meta, "spec": {"max": {batch_cpu: "5000"}}})
        for number in range(3):
            found = in_quota(f"p{number}", "a")
            found["spec"]["containers"][0]["resources"]["requests"] = {batch_cpu: "2k"}  # two cores
            stage.put(found)
        async with stage.scheduler():
            await stage.until(lambda: len(stage.api.bound()) == 2)
            assert set(stage.api.bound().values()) == {"n1"}
            await stage.until(lambda: any("QueueLimit" in reason(stage, f"pod:p{number}") for number in range(3)))
            await stage.until(lambda: said_of(stage, "a", "request") == {batch_cpu: "6000"})
            await stage.until(lambda: said_of(stage, "a", "runtime") == {batch_cpu: "5000"})
            now = stage.api.objects[kinds.ELASTIC_QUOTAS]
            await stage.until(lambda: now["kube-system/a"]["status"] == {"used": {batch_cpu: "4000"}})

    play(scene())
