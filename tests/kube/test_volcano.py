"""Pods that name Volcano's scheduler, its PodGroups and its queues, where that dialect is enabled."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.dialects.enabled import DIALECTS
from phalanx.dialects.volcano.kinds import HYPER_NODES, NUMA_TOPOLOGIES, POD_GROUPS, SCHEDULER_NAME
from phalanx.dialects.volcano.kinds import QUEUES as VOLCANO_QUEUES
from phalanx.kube.capacity.dialect_watch import DIALECT, DialectWatch
from phalanx.kube.install.definitions import QUEUES
from phalanx.kube.read.queue import QueueCache
from tests.kube import double
from tests.kube.double import Object, node
from tests.kube.stage import Stage
from tests.kube.test_bind_barrier import play, settle

NOW_S = 1_780_272_000.0  # June 2026, after the double's objects were created
ON = frozenset({SCHEDULER_NAME})


def member(name: str, group: str, cpu: str = "1", **annotations: str) -> Object:
    found = double.pod(name, cpu, scheduler=SCHEDULER_NAME)
    task = {f"volcano.sh/{key.replace('_', '-')}": value for key, value in annotations.items()}
    found["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": group, **task}
    return found


def group(stage: Stage, name: str, **spec: Any) -> None:
    stage.api.put(POD_GROUPS, {"metadata": {"name": name, "namespace": "default"}, "spec": spec})


def status(stage: Stage, name: str) -> Any:
    return stage.api.objects[POD_GROUPS][f"default/{name}"].get("status") or {}


def reason(stage: Stage, name: str) -> str:
    return stage.reason(f"podgroup:{name}")


def test_the_members_of_a_group_start_together() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 3)], dialects=ON)
        group(stage, "g", minMember=3)
        stage.put(member("a", "g"), member("b", "g"))
        async with stage.scheduler():
            await settle(stage)
            assert (stage.api.bound(), reason(stage, "g")) == (
                {},
                "WaitingForMembers: waiting for members: 2 of 3 pods exist",
            )
            stage.put(member("c", "g"))
            await stage.until(lambda: len(stage.api.bound()) == 3)

    play(scene())


@pytest.mark.parametrize(("minimum", "cpus"), [(1, 1), (2, 2), (2, 3)])
def test_pods_of_higher_priority_are_the_first_of_their_group(minimum: int, cpus: int) -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", cpus)], dialects=ON)
        group(stage, "g", minMember=minimum)
        for number in range(6):
            task, priority = (("low", 1), ("high", 10))[number % 2]
            pod = member(f"{task}-{number}", "g", task_spec=task)
            pod["spec"]["priority"] = priority
            stage.put(pod)
        async with stage.scheduler():
            await stage.until(lambda: len(stage.api.bound()) == cpus)
            assert {name.partition("-")[0] for name in stage.api.bound()} == {"high"}

    play(scene())


def test_without_its_group_a_pod_waits_for_it() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 3)], dialects=ON)
        stage.put(member("a", "late"))
        async with stage.scheduler():
            await settle(stage)
            assert reason(stage, "late") == (
                "WaitingForMembers: the PodGroup late of its pods does not exist yet: create it"
            )
            group(stage, "late")
            await stage.until(lambda: "a" in stage.api.bound())

    play(scene())


def test_six_drivers_whose_groups_say_what_all_of_it_needs() -> None:
    """Spark's own feature step: minMember 1, and minResources of driver and executors together."""

    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 6)], dialects=ON)
        for number in range(6):
            group(stage, f"g{number}", minMember=1, minResources={"cpu": 3})
            stage.put(member(f"driver-{number}", f"g{number}"))
        async with stage.scheduler():
            await settle(stage)
            assert len(stage.api.bound()) == 2
            first = min(stage.api.bound())
            app = first.replace("driver-", "g")
            stage.put(member(f"{app}-1", app), member(f"{app}-2", app))
            await stage.until(lambda: len(stage.api.bound()) == 4)
            for name in (first, f"{app}-1", f"{app}-2"):
                stage.finish(name)
            await stage.until(lambda: sum(name.startswith("driver") for name in stage.api.bound()) == 3)
            await stage.until(lambda: status(stage, app).get("phase") == "Completed")

    play(scene())


def test_of_each_task_so_many_must_be_there() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 6)], dialects=ON)
        group(stage, "g", minMember=3, minTaskMember={"ps": 1, "worker": 2})
        stage.put(member("w1", "g", task_spec="worker"), member("w2", "g", task_spec="worker"))
        async with stage.scheduler():
            await settle(stage)
            assert reason(stage, "g") == "WaitingForMembers: waiting for members: 0 of 1 pods of the task ps exist"
            stage.put(member("ps", "g", "3", task_spec="ps"))
            await stage.until(lambda: len(stage.api.bound()) == 3)
            roles = stage.cluster.jobs["default/podgroup:g"].job.roles
            assert sorted((role.name, role.minimum) for role in roles) == [("ps", 1), ("worker", 2)]

    play(scene())


def test_where_one_pod_is_enough_it_is_any_one() -> None:
    """The oldest fits nowhere: the gang starts with another, and the oldest joins when there is a node for it."""

    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 2)], dialects=ON)
        group(stage, "g", minMember=1, minTaskMember={"big": 1, "small": 1})
        stage.put(member("big", "g", "4", task_spec="big"), member("small", "g", task_spec="small"))
        async with stage.scheduler():
            await stage.until(lambda: set(stage.api.bound()) == {"small"})
            stage.put_node(node("n2", 4))
            await stage.until(lambda: set(stage.api.bound()) == {"small", "big"})

    play(scene())


def test_the_group_tells_how_it_goes() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 1)], dialects=ON)
        group(stage, "g", minMember=2)
        stage.put(member("a", "g"), member("b", "g"))
        async with stage.scheduler():
            await stage.until(lambda: "conditions" in status(stage, "g"))
            (condition,) = status(stage, "g")["conditions"]
            assert (status(stage, "g")["phase"], condition["type"], condition["reason"]) == (
                "Inqueue",  # it asks for nothing in minResources
                "Unschedulable",
                "NotEnoughResources",
            )
            assert condition["message"] == f"2/2 tasks in gang unschedulable: {reason(stage, 'g')}"
            stage.put_node(node("n2", 1))
            await stage.until(lambda: status(stage, "g").get("phase") == "Running")
            stage.finish("a", "Running")
            await stage.until(lambda: status(stage, "g").get("running") == 1)
            stage.finish("a")
            stage.finish("b", "Failed")
            await stage.until(lambda: status(stage, "g").get("phase") == "Completed")
            assert (status(stage, "g")["succeeded"], status(stage, "g")["failed"]) == (1, 1)

    play(scene())


def test_a_restart_finds_the_group_running() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 3)], dialects=ON)
        group(stage, "g", minMember=1, minResources={"cpu": 3})
        stage.put(member("driver", "g"))
        async with stage.scheduler():
            await stage.until(lambda: "driver" in stage.api.bound())
        async with stage.scheduler():
            stage.put(double.job("other", 1), member("exec-1", "g"), member("exec-2", "g"))
            await stage.until(lambda: len(stage.api.bound()) == 3)
            assert set(stage.api.bound()) == {"driver", "exec-1", "exec-2"}

    play(scene())


def test_queues_of_volcano_count_where_there_is_none_of_ours() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 6)], dialects=ON)
        stage.api.put(VOLCANO_QUEUES, {"metadata": {"name": "narrow"}, "spec": {"capability": {"cpu": 2}}})
        group(stage, "small", minMember=1, queue="narrow")
        group(stage, "large", minMember=3, queue="narrow")
        stage.put(member("s", "small"), *(member(f"l{number}", "large") for number in range(3)))
        async with stage.scheduler():
            await stage.until(lambda: "s" in stage.api.bound())
            await settle(stage)
            assert set(stage.api.bound()) == {"s"}
            assert reason(stage, "large").startswith("NeverWithinLimit: ")
            stage.api.put(QUEUES, {"metadata": {"name": "narrow"}, "spec": {"gang": True}})
            await stage.until(lambda: len(stage.api.bound()) == 4)
            stage.api.drop(QUEUES, "narrow")
            await settle(stage)
            assert stage.cluster.queues["narrow"].quotas

    play(scene())


def test_a_queue_that_is_closing_starts_nothing_and_what_runs_goes_on() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 1)], dialects=ON)
        closing = {"metadata": {"name": "ends"}, "spec": {}, "status": {"state": "Open"}}
        stage.api.put(VOLCANO_QUEUES, closing)
        for name in ("first", "second"):
            group(stage, name, queue="ends")
        stage.now_s = NOW_S
        stage.put(member("a", "first"), member("b", "second"))
        async with stage.scheduler():
            await stage.until(lambda: "a" in stage.api.bound())
            stage.api.put(VOLCANO_QUEUES, {**closing, "status": {"state": "Closing"}})
            await settle(stage)
            assert set(stage.api.bound()) == {"a"}
            stage.finish("a")
            await settle(stage)
            assert "b" not in stage.api.bound()
            stage.api.put(VOLCANO_QUEUES, {**closing, "status": {"state": "Open"}})
            await stage.until(lambda: "b" in stage.api.bound())

    play(scene())


def test_a_queue_tells_what_its_jobs_hold_and_keeps_its_state() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 6)], dialects=ON)
        stage.api.put(VOLCANO_QUEUES, {"metadata": {"name": "lab"}, "spec": {}})
        stage.api.put(VOLCANO_QUEUES, {"metadata": {"name": "vision"}, "spec": {"parent": "lab"}})
        group(stage, "g", queue="vision")
        native = double.pod("native", "1")
        native["metadata"]["labels"] = {"phalanx.dev/queue": "vision"}
        stage.put(member("a", "g", "2"), native)
        async with stage.scheduler():
            await stage.until(lambda: len(stage.api.bound()) == 2)
            for name in ("vision", "lab"):
                await stage.until(
                    lambda name=name: (
                        stage.api.objects[VOLCANO_QUEUES][name].get("status")
                        == {"state": "Open", "allocated": {"cpu": "3", "memory": "0", "pods": "2"}}
                    )
                )
            stage.finish("a")
            await stage.until(lambda: stage.api.objects[VOLCANO_QUEUES]["vision"]["status"]["allocated"]["cpu"] == "1")
            stage.finish("native")
            none = {"cpu": "0", "memory": "0"}  # what is not used any more is no longer named
            await stage.until(lambda: stage.api.objects[VOLCANO_QUEUES]["vision"]["status"]["allocated"] == none)

    play(scene())


def test_a_queue_that_is_closed_while_its_status_is_begun_stays_closed() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 6)], dialects=ON)
        stage.api.put(VOLCANO_QUEUES, {"metadata": {"name": "lab"}, "spec": {}})

        def closing(write: str) -> None:  # another is quicker
            lab = stage.api.objects[VOLCANO_QUEUES]["lab"]
            if write == "patch queues/lab" and "status" not in lab:
                stage.api.put(VOLCANO_QUEUES, {**lab, "status": {"state": "Closed"}})

        stage.fault = closing
        async with stage.scheduler():
            await stage.until(lambda: "allocated" in stage.api.objects[VOLCANO_QUEUES]["lab"].get("status", {}))
        assert stage.api.objects[VOLCANO_QUEUES]["lab"]["status"]["state"] == "Closed"

    play(scene())


def test_a_queue_that_is_closed_while_another_ones_status_is_written_stays_closed() -> None:
    """The statuses of both queues are computed together; when the second is written, it is known to be closed."""

    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 6)], dialects=ON)
        for name in ("first", "second"):
            stage.api.put(VOLCANO_QUEUES, {"metadata": {"name": name}, "spec": {}})
        queues = stage.api.objects[VOLCANO_QUEUES]

        def closing(write: str) -> None:
            if write == "patch queues/first" and "status" not in queues["second"]:
                stage.api.put(VOLCANO_QUEUES, {**queues["second"], "status": {"state": "Closed"}})
                stage.caches(VOLCANO_QUEUES).observe(queues["second"])

        stage.fault = closing
        async with stage.scheduler():
            await stage.until(lambda: "allocated" in queues["second"].get("status", {}))
        assert queues["second"]["status"]["state"] == "Closed"

    play(scene())


def test_of_two_dialects_that_claim_a_pod_its_scheduler_decides() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 6)], dialects=frozenset({"kueue", SCHEDULER_NAME}))
        group(stage, "g")
        both = member("a", "g")
        both["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "nowhere"}
        stage.put(both)
        async with stage.scheduler():
            await stage.until(lambda: "a" in stage.api.bound())
            assert "default/podgroup:g" in stage.cluster.jobs

    play(scene())


def test_what_another_dialect_would_say_is_said_on_the_pod() -> None:
    said = list[str]()
    watch = DialectWatch(
        (DIALECTS["kueue"], DIALECTS["volcano"]),
        QueueCache(),
        objects=lambda kind: None,
        mark=lambda gang: None,
        note=lambda kind, obj, text: said.append(f"{kind.name} {obj['metadata']['name']}: {text}"),
    )
    both = member("a", "g")["metadata"] | {"labels": {"kueue.x-k8s.io/queue-name": "q"}, "uid": "u", "name": "a"}
    assert watch.options_of("Pod", both, "volcano")[DIALECT] == "volcano"
    assert said == [
        "Pod a: it has settings of several schedulers: those of volcano are used, because its scheduler is volcano; "
        "those of kueue have no effect"
    ]
    assert watch.options_of("Pod", both, "phalanx")[DIALECT] == "kueue"
    assert "those of kueue are used, because it is first; " in said[1]
    assert watch.options_of("Pod", {"name": "a"}, "volcano") == {}


def test_a_queue_that_cannot_be_read_is_held_and_said_so() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 1)], dialects=ON)
        stage.api.put(VOLCANO_QUEUES, {"metadata": {"name": "odd"}, "spec": {"weight": "much"}})
        group(stage, "g", queue="odd")
        stage.put(member("a", "g"))
        async with stage.scheduler():
            await settle(stage)
            assert reason(stage, "g").startswith("QueueHeld")

    play(scene())


def test_words_on_pods_without_a_group() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 6)], dialects=ON)
        alone = double.pod("alone", scheduler=SCHEDULER_NAME)
        alone["metadata"]["annotations"] = {
            "scheduling.volcano.sh/queue-name": "default",
            "volcano.sh/preemptable": "false",
        }
        stage.put(alone)
        async with stage.scheduler():
            await stage.until(lambda: "alone" in stage.api.bound())
            job = stage.cluster.jobs["default/pod:alone"].job
            assert (job.queue, job.preemptible) == ("volcano/default", False)

    play(scene())


def test_a_group_that_cannot_be_read_is_said_so() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 6)], dialects=ON)
        group(stage, "g", minResources={"cpu": "three"})
        stage.put(member("a", "g"))
        async with stage.scheduler():
            await settle(stage)
            assert reason(stage, "g").startswith("Invalid: the PodGroup g: spec.minResources.cpu: ")

    play(scene())


def test_where_it_is_not_enabled_such_pods_are_others() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 6)])
        group(stage, "g", minMember=1)
        stage.put(member("a", "g"))
        async with stage.scheduler():
            await settle(stage)
            assert (stage.api.bound(), stage.cluster.jobs) == ({}, {})

    play(scene())


def hyper_node(stage: Stage, name: str, tier: int, kind: str, *members: str) -> None:
    listed = [{"type": kind, "selector": {"exactMatch": {"name": each}}} for each in members]
    stage.api.put(HYPER_NODES, {"metadata": {"name": name}, "spec": {"tier": tier, "members": listed}})


def fabric(size: int) -> Stage:
    """Two leaves of two nodes each, below one spine."""
    stage = Stage(nodes=[node(f"n{number}", size) for number in range(4)], dialects=ON)
    hyper_node(stage, "s0", 1, "Node", "n0", "n1")
    hyper_node(stage, "s1", 1, "Node", "n2", "n3")
    hyper_node(stage, "spine", 2, "HyperNode", "s0", "s1")
    return stage


def test_a_hard_topology_keeps_a_gang_below_one_hyper_node() -> None:
    async def scene() -> None:
        stage = fabric(1)
        group(stage, "wide", minMember=3, networkTopology={"mode": "hard", "highestTierAllowed": 1})
        stage.put(*(member(f"w{number}", "wide") for number in range(3)))
        async with stage.scheduler():
            await settle(stage)
            assert reason(stage, "wide").startswith(
                "NeverFits: no domain of topology.volcano.sh/tier-1 could ever hold"
            )
            assert stage.api.objects[HYPER_NODES]["spine"]["status"] == {"nodeCount": 4}
            group(stage, "wide", minMember=3, networkTopology={"mode": "hard", "highestTierAllowed": 2})
            await stage.until(lambda: len(stage.api.bound()) == 3)

    play(scene())


def test_a_soft_topology_is_as_close_as_can_be() -> None:
    async def scene() -> None:
        stage = fabric(2)
        group(stage, "first", minMember=1)
        stage.put(member("f", "first", "2"))
        async with stage.scheduler():
            await stage.until(lambda: "f" in stage.api.bound())
            group(stage, "pair", minMember=2, networkTopology={"mode": "soft"})
            stage.put(member("a", "pair", "2"), member("b", "pair", "2"))
            await stage.until(lambda: len(stage.api.bound()) == 3)
            taken = {stage.api.bound()["a"], stage.api.bound()["b"]}
            assert taken in ({"n0", "n1"}, {"n2", "n3"})

    play(scene())


def test_nodes_that_move_to_another_hyper_node_are_known_there() -> None:
    async def scene() -> None:
        stage = fabric(1)
        group(stage, "wide", minMember=3, networkTopology={"mode": "hard", "highestTierAllowed": 1})
        stage.put(*(member(f"w{number}", "wide") for number in range(3)))
        async with stage.scheduler():
            await settle(stage)
            assert stage.api.bound() == {}
            hyper_node(stage, "s1", 1, "Node", "n1", "n2", "n3")
            hyper_node(stage, "s0", 1, "Node", "n0")
            await stage.until(lambda: len(stage.api.bound()) == 3)
            assert set(stage.api.bound().values()) == {"n1", "n2", "n3"}

    play(scene())


def test_each_partition_of_a_task_is_below_one_hyper_node() -> None:
    """The PodGroup as the Job controller makes it of a partitionPolicy: two partitions of two pods."""

    async def scene() -> None:
        stage = fabric(1)
        policy = {
            "name": "worker",
            "subGroupSize": 2,
            "minSubGroups": 2,
            "labelSelector": {"matchLabels": {"volcano.sh/task-spec": "worker"}},
            "matchLabelKeys": ["volcano.sh/partition-id"],
            "networkTopology": {"mode": "hard", "highestTierAllowed": 1},
        }
        group(stage, "g", minMember=4, minTaskMember={"worker": 4}, subGroupPolicy=[policy])
        pods = [member(f"p{number}", "g", task_spec="worker") for number in range(4)]
        for number, pod in enumerate(pods):
            pod["metadata"]["labels"] = {"volcano.sh/partition-id": str(number % 2)}
        stage.put(*pods[:3])
        async with stage.scheduler():
            await settle(stage)
            assert reason(stage, "g") == "WaitingForMembers: waiting for members: 3 of 4 pods exist"
            stage.put(pods[3])
            await stage.until(lambda: len(stage.api.bound()) == 4)
            at = stage.api.bound()
            assert {at["p0"], at["p2"]} in ({"n0", "n1"}, {"n2", "n3"})

    play(scene())


def test_a_pod_of_one_numa_zone_goes_where_a_zone_holds_it() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("split", 4), node("whole", 4)], dialects=ON)
        for name, parted in (("split", 2), ("whole", 3)):
            detail = {str(cpu): {"numa": cpu // parted} for cpu in range(4)}
            spec = {"numares": {"cpu": {"allocatable": "0-3", "capacity": 4}}, "cpuDetail": detail}
            stage.api.put(NUMA_TOPOLOGIES, {"metadata": {"name": name}, "spec": spec})
        for name in ("first", "second", "third"):
            group(stage, name)
        strict = member("strict", "third", "3")
        strict["metadata"]["annotations"]["phalanx.dev/numa-alignment"] = "required"
        async with stage.scheduler():
            stage.put(member("a", "first", "3", numa_topology_policy="single-numa-node"))
            await stage.until(lambda: stage.api.bound() == {"a": "whole"})
            stage.put(strict)
            await settle(stage)
            assert "strict" not in stage.api.bound()
            stage.put(member("b", "second", "3", numa_topology_policy="single-numa-node"))
            await stage.until(lambda: stage.api.bound() == {"a": "whole", "b": "split"})
            group(stage, "odd")
            odd = member("odd", "odd")
            odd["metadata"]["annotations"]["phalanx.dev/numa-alignment"] = "always"
            stage.put(odd)
            await settle(stage)
            assert "phalanx.dev/numa-alignment is 'always': write required or preferred" in reason(stage, "odd")

    play(scene())


def test_pods_of_a_group_may_differ_in_who_is_preemptable() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 6)], dialects=ON)
        group(stage, "g", minMember=2)
        stage.put(member("a", "g", preemptable="true"), member("b", "g", preemptable="false"))
        async with stage.scheduler():
            await stage.until(lambda: len(stage.api.bound()) == 2)
            assert stage.cluster.jobs["default/podgroup:g"].job.preemptible is False

    play(scene())
