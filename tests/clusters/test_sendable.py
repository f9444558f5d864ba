"""Each kind of jobs is sent by the same rule: whole, to one cluster, with its status back in three writes."""

from __future__ import annotations

import asyncio

import pytest

from phalanx.client.kind import EVENTS, JOB_SETS, JOBS, PODS, Kind
from phalanx.clusters.copies import content
from phalanx.clusters.copies.sendable import SENDABLE, Key, is_over
from phalanx.dialects.job_kinds.form import at
from phalanx.dialects.job_kinds.replica_types import PYTORCH_JOB
from phalanx.dialects.job_kinds.sent_volcano_job import VOLCANO_JOB
from phalanx.dialects.job_kinds.spark import SPARK
from phalanx.dialects.job_kinds.supported import FRAMEWORKS
from phalanx.dialects.kueue import kinds
from phalanx.kube.read.labels import ADMITTED, REASON
from tests.clusters.plays import OF_KIND, PLAYS, Play
from tests.clusters.several import Manager
from tests.clusters.test_job_reconciler import Once, faults, through
from tests.kube.double import Object
from tests.kube.test_bind_barrier import play

KEY = "default/one"
PREEMPTION = {"withinClusterQueue": "LowerPriority"}
every_kind = pytest.mark.parametrize("play_of", PLAYS, ids=[each.kind.name for each in PLAYS])


def written(here: Manager, each: Play) -> list[str]:
    """The writes to the job on the manager."""
    return [write for write in here.api.writes if f"{each.kind.plural}/" in write]


def test_an_invalid_edit_of_a_sent_job_is_logged_once_and_its_copy_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    kind, many = PYTORCH_JOB.kind, {"runPolicy": {"suspend": "many"}}

    async def scene() -> None:
        here = Manager(w1=4)
        here.put(OF_KIND[kind])
        async with here.process():
            await here.until(lambda: bool(here.where(KEY, kind)))
            obj, other = here.api.objects[kind][KEY], here.apis["w1"].objects[kind]
            here.api.put(kind, {**obj, "spec": {**obj["spec"], **many}})
            for _ in range(20):
                await here.turn()
                here.stage.now_s += 20
            assert here.where(KEY, kind) == ["w1"]
            assert is_over(Key(kind, KEY), {**other[KEY], "spec": many}) is False
        told = [one for one in caplog.records if "'many' is neither true nor false" in one.getMessage()]
        assert [one.name.rpartition(".")[2] for one in told] == ["fence", "job_reconciler"]
        assert not [one for one in caplog.records if one.exc_info]

    play(scene())


@pytest.mark.slow
@every_kind
def test_a_job_of_each_kind_is_sent_whole_and_its_status_comes_back_in_three_writes(play_of: Play) -> None:
    kind, sendable = play_of.kind, SENDABLE[play_of.kind]

    async def scene() -> None:
        here = Manager(w1=1, w2=4)
        here.put(play_of)
        async with here.process():
            await here.until(lambda: bool(here.where(KEY, kind)))
            assert here.where(KEY, kind) == ["w2"], "w1 has room for one pod, and a job is sent whole"
            assert kind is PODS or not play_of.waits(here.api.objects[kind][KEY])
            copied = here.apis["w2"].objects[kind][KEY]
            assert play_of.waits(copied), "the worker starts it"
            assert at(copied["spec"], sendable.managed) is None, "its own controller runs it there"
            assert ADMITTED not in copied["metadata"]["annotations"]
            assert not any(
                "ttlSecondsAfterFinished" in part for part in (copied["spec"], copied["spec"].get("runPolicy", {}))
            )
            assert {at(one, ("metadata", "labels", content.JOB)) for one in templates(play_of, copied)} == {
                content.uid_of(copied)
            }
            here.begin()
            await here.until(lambda: sendable.runs(here.api.objects[kind][KEY].get("status") or {}))
            assert len(written(here, play_of)) == 2
            if play_of.ends:
                here.finish()
                await here.until(lambda: sendable.is_over(here.api.objects[kind][KEY]))
                assert len(written(here, play_of)) == 3, written(here, play_of)
                assert here.where(KEY, kind) == ["w2"], "its logs can be read"
            here.api.drop(kind, KEY)
            await here.until(lambda: not here.where(KEY, kind))

    play(scene())


@pytest.mark.parametrize("kind", [JOBS, PYTORCH_JOB.kind, PODS])
def test_a_job_that_waits_long_has_events_and_costs_three_writes_too(kind: Kind) -> None:
    each, sendable = OF_KIND[kind], SENDABLE[kind]

    async def scene() -> None:
        here = Manager(2, w1=4)
        here.put(each, "first")
        async with here.process():
            reporting = asyncio.ensure_future(here.stage.world.effects.reporter.run())
            await here.until(lambda: here.where("default/first", kind) == ["w1"])
            here.put(each)
            for _ in range(30):
                here.stage.now_s += 60
                await here.turn()
            assert [text.partition(":")[0] for text in said(here, "one")] == ["QueueLimit"]
            assert written(here, each) == [write for write in written(here, each) if "first" in write]
            here.begin("first")
            here.finish("first")
            await here.until(lambda: here.where(KEY, kind) == ["w1"])
            here.begin()
            await here.until(lambda: sendable.runs(here.api.objects[kind][KEY].get("status") or {}))
            here.finish()
            await here.until(lambda: sendable.is_over(here.api.objects[kind][KEY]))
            assert len([write for write in written(here, each) if "one" in write]) == 3
            reporting.cancel()

    play(scene())


def said(here: Manager, name: str) -> list[str]:
    """The texts of the Events that say why an object waits."""
    events = here.api.objects[EVENTS].values()
    return [each["message"] for each in events if each["involvedObject"]["name"] == name and each["reason"] == "Queued"]


def templates(play_of: Play, copied: Object) -> list[Object]:
    """The pod templates of a copy."""
    if play_of.kind is PODS:
        return [copied]
    if play_of.kind is JOBS:
        return [copied["spec"]["template"]]
    if play_of.kind is VOLCANO_JOB.kind:  # roles are those of Jobs on the manager
        return [task["template"] for task in copied["spec"]["tasks"]]
    framework = FRAMEWORKS[play_of.kind]
    return [framework.view(copied, role, None)["spec"]["template"] for role in framework.roles(copied, None)]


@pytest.mark.parametrize("kind", [JOB_SETS, VOLCANO_JOB.kind], ids=["JobSet", "Volcano"])
@pytest.mark.parametrize(("number", "mode"), faults(4))
def test_killed_at_every_write_of_the_life_of_a_job(number: int, mode: str, kind: Kind) -> None:
    """The rule is the same for all kinds."""

    async def scene() -> None:
        here = Manager(w1=4, w2=4)
        here.fault = Once(number, mode)
        here.put(OF_KIND[kind])

        def work() -> None:
            here.begin()
            here.finish()

        await through(here, lambda: SENDABLE[kind].is_over(here.api.objects[kind][KEY]), work)
        created = [write for api in here.apis.values() for write in api.writes if write.startswith("create")]
        assert created == [f"create {kind.name}"]
        assert here.most == 1

    play(scene())


@pytest.mark.parametrize("kind", [PYTORCH_JOB.kind, VOLCANO_JOB.kind], ids=["PyTorchJob", "Volcano"])
def test_a_job_that_its_worker_evicts_is_tried_elsewhere_and_the_user_reads_why(kind: Kind) -> None:
    each = OF_KIND[kind]

    async def scene() -> None:
        here = Manager(w1=4, w2=4)
        here.put(each)
        async with here.process():
            await here.until(lambda: bool(here.where(KEY, each.kind)))
            [first] = here.where(KEY, each.kind)
            here.begin()
            await here.until(lambda: SENDABLE[kind].runs(here.api.objects[each.kind][KEY].get("status") or {}))
            api = here.apis[first]
            copied = {**api.objects[each.kind][KEY], "status": {}}
            policy = {**copied["spec"].get("runPolicy", {}), "suspend": True}
            api.put(each.kind, {**copied, "spec": {**copied["spec"], "runPolicy": policy}})
            await here.until(lambda: f"it was evicted on worker cluster {first}" in here.reason())
            here.stage.now_s += 60
            await here.until(lambda: here.where(KEY, each.kind) not in ([], [first]))
            assert here.most == 1
            status = here.api.objects[each.kind][KEY]["status"]
            assert not any(status.get(name) for name in ("startTime", "conditions")), status
            assert not SENDABLE[kind].runs(status)

    play(scene())


def test_a_volcano_job_that_a_policy_restarts_stays_in_its_cluster() -> None:
    kind = VOLCANO_JOB.kind

    async def scene() -> None:
        here = Manager(w1=4, w2=4)
        here.put(OF_KIND[kind])
        async with here.process():
            await here.until(lambda: bool(here.where(KEY, kind)))
            [first] = here.where(KEY, kind)
            here.begin()
            await here.until(lambda: SENDABLE[kind].runs(here.api.objects[kind][KEY].get("status") or {}))
            api = here.apis[first]
            for phase in ("Restarting", "Pending", "Running"):
                again = {"state": {"phase": phase}, "retryCount": 1, "minAvailable": 2}
                api.put(kind, {**api.objects[kind][KEY], "status": again})
                for _ in range(5):
                    await here.turn()
                    here.stage.now_s += 60
            assert here.where(KEY, kind) == [first]
            assert api.objects[kind][KEY]["status"]["retryCount"] == 1, "it is the same copy"

    play(scene())


def test_a_reason_of_a_return_to_the_queue_is_replaced_by_a_newer_one() -> None:
    each = OF_KIND[JOB_SETS]

    async def scene() -> None:
        here = Manager(2, w1=4)
        here.api.put(kinds.PRIORITY_CLASSES, {"metadata": {"name": "high"}, "value": 10})
        here.put(each)
        async with here.process():
            reporting = asyncio.ensure_future(here.stage.world.effects.reporter.run())
            await here.until(lambda: here.where(KEY, JOB_SETS) == ["w1"])
            here.begin()
            await here.until(lambda: bool(here.api.objects[JOB_SETS][KEY].get("status") or {}))
            api = here.apis["w1"]
            copied = api.objects[JOB_SETS][KEY]
            api.put(JOB_SETS, {**copied, "spec": {**copied["spec"], "suspend": True}, "status": {}})
            await here.until(lambda: "evicted" in here.reason())
            urgent = each.obj("two")
            urgent["metadata"]["labels"] |= {kinds.PRIORITY_LABEL: "high"}
            here.api.put(JOB_SETS, urgent)
            await here.until(lambda: here.where("default/two", JOB_SETS) == ["w1"])
            for _ in range(30):
                here.stage.now_s += 60
                await here.turn()
            written = here.api.objects[JOB_SETS][KEY]["metadata"]["annotations"][REASON]
            assert written.startswith("QueueLimit: ")
            reporting.cancel()

    play(scene())


@pytest.mark.parametrize("kind", [JOB_SETS, VOLCANO_JOB.kind], ids=["JobSet", "Volcano"])
def test_a_job_that_the_manager_preempts_leaves_its_worker_and_is_sent_again(kind: Kind) -> None:
    each = OF_KIND[kind]

    async def scene() -> None:
        here = Manager(2, w1=4)
        queue = here.api.objects[kinds.CLUSTER_QUEUES]["a"]
        here.api.put(kinds.CLUSTER_QUEUES, {**queue, "spec": {**queue["spec"], "preemption": PREEMPTION}})
        here.api.put(kinds.PRIORITY_CLASSES, {"metadata": {"name": "high"}, "value": 10})
        here.put(each)
        async with here.process():
            await here.until(lambda: here.where(KEY, kind) == ["w1"])
            here.begin()
            await here.until(lambda: bool(here.api.objects[kind][KEY].get("status") or {}))
            urgent = each.obj("two")
            urgent["metadata"]["labels"] |= {kinds.PRIORITY_LABEL: "high"}
            here.api.put(kind, urgent)
            await here.until(lambda: here.where("default/two", kind) == ["w1"])
            assert not here.where(KEY, kind), "its quota is given back"
            assert each.waits(here.api.objects[kind][KEY])
            here.begin("two")
            here.finish("two")
            await here.until(lambda: here.where(KEY, kind) == ["w1"])
            assert here.most == 1

    play(scene())


def test_a_volcano_job_of_a_lost_cluster_is_sent_to_another_one() -> None:
    kind = VOLCANO_JOB.kind

    async def scene() -> None:
        here = Manager(w1=4, w2=4)
        here.put(OF_KIND[kind])
        async with here.process():
            await here.until(lambda: bool(here.where(KEY, kind)))
            [first] = here.where(KEY, kind)
            here.begin()
            await here.until(lambda: bool(here.api.objects[kind][KEY].get("status") or {}))
            here.lose(first)
            here.stage.now_s += 910
            await here.until(lambda: "cannot be reached since" in here.reason())
            here.stage.now_s += 60
            await here.until(lambda: here.where(KEY, kind) == ["w1", "w2"])
            assert here.told[0].startswith(f"MayRunTwice: cluster {first} does not answer")
            here.find(first)
            await here.until(lambda: here.where(KEY, kind) != ["w1", "w2"])
            assert here.where(KEY, kind) != [first]

    play(scene())


def test_a_volcano_job_of_this_cluster_is_read_by_its_pod_group_alone() -> None:
    async def scene() -> None:
        here = Manager(w1=4)
        here.api.put(VOLCANO_JOB.kind, OF_KIND[VOLCANO_JOB.kind].obj(managed=False))
        async with here.process():
            for _ in range(5):
                await here.turn()
            assert not here.stage.world.gangs
            assert not here.where(KEY, VOLCANO_JOB.kind)

    play(scene())


def test_a_copy_that_somebody_deletes_in_the_worker_is_created_again() -> None:
    async def scene() -> None:
        here = Manager(w1=4)
        here.put(OF_KIND[JOB_SETS])
        async with here.process():
            await here.until(lambda: here.where(KEY, JOB_SETS) == ["w1"])
            here.apis["w1"].drop(JOB_SETS, KEY)
            await here.until(lambda: here.where(KEY, JOB_SETS) == ["w1"])

    play(scene())


GROUP = {"kueue.x-k8s.io/pod-group-name": "g"}


def submit_group(here: Manager, pods: int = 2) -> None:
    for number in range(pods):
        obj = OF_KIND[PODS].obj(f"g-{number}")
        obj["metadata"]["labels"] |= GROUP
        obj["metadata"]["annotations"] |= {"kueue.x-k8s.io/pod-group-total-count": str(pods)}
        here.api.put(PODS, obj)


@pytest.mark.parametrize(("number", "mode"), faults(7))
def test_a_group_of_pods_is_sent_whole_also_if_its_manager_is_killed_at_any_write(number: int, mode: str) -> None:
    async def scene() -> None:
        here = Manager(w1=3, w2=4)
        here.fault = Once(number, mode)
        submit_group(here)
        names = ("g-0", "g-1")

        def work() -> None:
            for name in names:
                here.begin(name)
                assert here.where(f"default/{name}", PODS) in ([], ["w2"]), "w1 has room for one of them"
                if all(here.where(f"default/{one}", PODS) for one in names):
                    here.finish(name)

        def over() -> bool:
            return all(SENDABLE[PODS].is_over(here.api.objects[PODS][f"default/{name}"]) for name in names)

        await through(here, over, work)
        created = [write for api in here.apis.values() for write in api.writes if write == "create Pod"]
        assert len(created) == 2
        assert here.most == 1
        assert not here.api.bound(), "no pod is bound on the manager"

    play(scene())


def test_a_pod_that_its_worker_evicts_is_evicted_on_the_manager() -> None:
    """A pod that has run is not started again, in one cluster or in several: its owner creates another one."""

    async def scene() -> None:
        here = Manager(w1=4)
        here.put(OF_KIND[PODS])
        async with here.process():
            await here.until(lambda: bool(here.where(KEY, PODS)))
            here.begin()
            await here.until(lambda: here.api.objects[PODS][KEY]["status"]["phase"] == "Running")
            here.apis["w1"].drop(PODS, KEY)
            await here.until(lambda: "deletionTimestamp" in here.api.objects[PODS][KEY]["metadata"])
            here.stage.controller.bury()
            await here.until(lambda: not here.where(KEY, PODS))

    play(scene())


def test_a_pod_that_waits_for_other_clusters_buys_no_node_in_this_one() -> None:
    async def scene() -> None:
        here = Manager(w1=1)
        here.put(OF_KIND[PODS])

        async with here.process():
            reporting = asyncio.ensure_future(here.stage.world.effects.reporter.run())
            for _ in range(60):
                here.stage.now_s += 5
                await here.turn()
                if said(here, "one"):
                    break
            assert "NeverFits" in said(here, "one")[0]
            assert not here.api.objects[PODS][KEY]["status"].get("conditions"), "an autoscaler looks for Unschedulable"
            reporting.cancel()

    play(scene())


def test_a_pod_that_does_not_start_is_tried_elsewhere_and_stays() -> None:
    async def scene() -> None:
        here = Manager(w1=4, w2=4)
        here.put(OF_KIND[PODS])
        async with here.process():
            await here.until(lambda: bool(here.where(KEY, PODS)))
            [first] = here.where(KEY, PODS)
            here.stage.now_s += 310
            await here.until(lambda: ADMITTED not in here.api.objects[PODS][KEY]["metadata"]["annotations"])
            here.stage.now_s += 60
            await here.until(lambda: here.where(KEY, PODS) not in ([], [first]))
            assert here.most == 1

    play(scene())


def test_a_worker_that_does_not_define_the_kind_is_left_for_another_one() -> None:
    async def scene() -> None:
        here = Manager(w1=4, w2=4)
        for kind in (JOB_SETS,):
            del here.apis["w1"].objects[kind]
        here.put(OF_KIND[JOB_SETS])
        async with here.process():
            for _ in range(60):
                await here.turn()
                here.stage.now_s += 30
                if here.where(KEY, JOB_SETS):
                    break
            assert here.where(KEY, JOB_SETS) == ["w2"]

    play(scene())


def test_a_spark_application_in_a_queue_that_sends_its_jobs_is_told_that_it_cannot_be_sent() -> None:
    async def scene() -> None:
        here = Manager(w1=4)
        meta = {"name": "one", "namespace": "default", "labels": OF_KIND[JOBS].obj("one")["metadata"]["labels"]}
        part = {"cores": 1, "memory": "512m", "instances": 1}
        here.api.put(SPARK.kind, {"metadata": meta, "spec": {"suspend": True, "driver": part, "executor": part}})
        async with here.process():
            for _ in range(10):
                await here.turn()
            assert "one is a SparkApplication, which cannot be sent to another cluster" in here.reason()
            assert not here.where(KEY, SPARK.kind)

    play(scene())
