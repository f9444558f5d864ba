"""Jobs for other clusters: exactly one cluster runs each, whatever dies between two writes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from phalanx.client.kind import JOBS
from phalanx.clusters import dispatch
from phalanx.clusters.choice.question import PRICE
from phalanx.clusters.copies import content
from phalanx.clusters.copies.content import waits_elsewhere
from phalanx.clusters.workers import fleet
from phalanx.dialects.kueue import kinds
from phalanx.dialects.kueue.tree.configuration import CONFIGURATIONS
from phalanx.kube.install.definitions import FLAVORS, QUEUES
from phalanx.kube.read.labels import ADMITTED
from tests.clusters.several import ACTIVE, Manager
from tests.dialects.kueue.written import named
from tests.kube.double import Client, Object, job
from tests.kube.test_bind_barrier import play
from tests.kube.test_kueue import conditions, workload


def jobs_written(here: Manager) -> list[str]:
    return [write for write in here.api.writes if "jobs/" in write]


def test_a_job_is_sent_to_a_cluster_with_room_and_its_status_comes_back_in_three_writes() -> None:
    async def scene() -> None:
        here = Manager(w1=1, w2=4)
        here.submit("one")
        async with here.process():
            await here.until(lambda: bool(here.where("default/one")))
            assert here.where("default/one") == ["w2"], "w1 has no room"
            copied = here.apis["w2"].job("one")
            assert copied["spec"]["suspend"]
            assert "managedBy" not in copied["spec"]
            assert copied["metadata"]["labels"][kinds.QUEUE_LABEL] == "l"
            assert copied["metadata"]["labels"]["kueue.x-k8s.io/multikueue-origin"] == "multikueue"
            assert ADMITTED not in copied["metadata"]["annotations"]
            assert not here.api.pods()
            gang = here.stage.world.gangs["default/one"]
            assert waits_elsewhere(gang, here.api.objects), "people are told that it starts, and not that it runs"
            here.begin()
            await here.until(lambda: "startTime" in here.api.job("one")["status"])
            assert not waits_elsewhere(gang, here.api.objects)
            status = workload(here.stage, "one")["status"]
            assert status["clusterName"] == "w2"
            assert status["admissionChecks"][0]["message"] == 'The workload was admitted on "w2"'
            here.finish()
            await here.until(here.over)
            await here.until(lambda: conditions(here.stage, "one").get("Finished") == "True Succeeded")
            assert here.api.job("one")["status"]["succeeded"] == 2
            assert len(jobs_written(here)) == 3, jobs_written(here)
            assert here.where("default/one") == ["w2"], "its logs can be read"
            here.api.drop(JOBS, "default/one")
            await here.until(lambda: not here.where("default/one"))

    play(scene())


def test_quota_of_the_manager_holds_and_no_worker_gets_a_job_that_must_wait() -> None:
    async def scene() -> None:
        here = Manager(3, w1=8)
        here.submit("one")
        here.submit("two")
        async with here.process():
            await here.until(lambda: here.where("default/one") == ["w1"])
            await here.until(lambda: conditions(here.stage, "two").get("QuotaReserved") == "False WaitingForQuota")
            assert not here.where("default/two")
            here.begin()
            here.finish()
            await here.until(lambda: here.where("default/two") == ["w1"])

    play(scene())


def test_a_job_that_stays_in_this_cluster_is_told_how_to_be_sent() -> None:
    async def scene() -> None:
        here = Manager(w1=8)
        kept = job("kept", 1)
        kept["metadata"]["labels"] = {kinds.QUEUE_LABEL: "l"}
        here.api.put(JOBS, kept)
        async with here.process():
            await here.until(lambda: "create it with spec.managedBy" in here.reason("kept"))
            assert not here.api.pods()

    play(scene())


def test_a_job_of_this_cluster_is_never_placed_on_nodes_of_others_whatever_it_tolerates() -> None:
    async def scene() -> None:
        here = Manager(w1=100)
        kept = job("kept", 8, cpu="6")
        kept["spec"]["template"]["spec"]["tolerations"] = [{"operator": "Exists"}]
        here.api.put(JOBS, kept)
        async with here.process():
            await here.until(lambda: "NoRoom" in here.reason("kept") or "NeverFits" in here.reason("kept"))
            assert not here.api.bound()

    play(scene())


def test_a_cluster_that_refuses_a_job_is_left_for_another_one() -> None:
    async def scene() -> None:
        here = Manager(w1=4, w2=4)
        here.fault = lambda write: "namespaces default not found" if write == "w1: create Job" else None
        here.submit("one")
        async with here.process():
            for _ in range(60):
                await here.turn()
                here.stage.now_s += 30
                if here.where("default/one"):
                    break
            assert here.where("default/one") == ["w2"]

    play(scene())


def test_a_foreign_job_of_the_same_name_is_left_alone() -> None:
    async def scene() -> None:
        here = Manager(w1=4)
        here.apis["w1"].put(JOBS, job("one", 1))
        here.submit("one")
        async with here.process():
            await here.until(lambda: "did not send" in here.reason("one"))
            assert here.apis["w1"].writes == []

    play(scene())


def test_copies_without_a_job_are_deleted_and_those_of_another_manager_are_not() -> None:
    async def scene() -> None:
        here = Manager(w1=4)
        for name, manager in (("ours", "manager"), ("theirs", "another")):
            copied = job(name, 1)
            copied["metadata"]["labels"] |= {content.MANAGER: manager, content.JOB: "gone", content.START: "1-0"}
            here.apis["w1"].put(JOBS, copied)
        async with here.process():
            await here.until(lambda: not here.where("default/ours"))
            assert here.where("default/theirs") == ["w1"]

    play(scene())


def test_jobs_of_a_lost_cluster_are_sent_again_after_the_stated_time_and_the_user_is_told() -> None:
    async def scene() -> None:
        here = Manager(w1=4, w2=4)
        here.submit("one")
        async with here.process():
            await here.until(lambda: bool(here.where("default/one")))
            [first] = here.where("default/one")
            [second] = {"w1", "w2"} - {first}
            here.begin()
            await here.until(lambda: "startTime" in here.api.job("one")["status"])
            here.lose(first)
            here.stage.now_s += 880
            for _ in range(5):
                await here.turn()
            assert not here.api.job("one")["spec"]["suspend"], "15 minutes are not over"
            here.stage.now_s += 30
            await here.until(lambda: f"cluster {first} cannot be reached since" in here.reason())
            assert "the job may still run there" in here.reason()
            here.stage.now_s += 60
            await here.until(lambda: here.where("default/one") == ["w1", "w2"])
            assert here.told == [
                f"MayRunTwice: cluster {first} does not answer, so a copy of this job that it may still run could not "
                f"be stopped: until {first} is back, the job may run there and in {second}"
            ]
            here.find(first)
            await here.until(lambda: here.where("default/one") == [second])

    play(scene())


@pytest.mark.parametrize("nominated", ["w1", "w2"])
def test_an_external_dispatcher_nominates_the_cluster_after_quota_is_reserved(nominated: str) -> None:
    async def scene() -> None:
        here = Manager(w1=4, w2=4)
        text = "multiKueue: {dispatcherName: example.com/mine}"
        meta = {"name": "kueue-manager-config", "namespace": "kueue-system"}
        here.api.put(CONFIGURATIONS, {"metadata": meta, "data": {"controller_manager_config.yaml": text}})
        here.submit("one")
        async with here.process():
            await here.until(lambda: conditions(here.stage, "one").get("QuotaReserved") == "True QuotaReserved")
            for _ in range(5):
                await here.turn()
            assert not here.where("default/one")
            found = workload(here.stage, "one")
            status = {**found["status"], "nominatedClusterNames": [nominated]}
            here.api.put(kinds.WORKLOADS, {**found, "status": status})
            await here.until(lambda: here.where("default/one") == [nominated])
            await here.until(lambda: workload(here.stage, "one")["status"].get("clusterName") == nominated)
            assert "nominatedClusterNames" not in workload(here.stage, "one")["status"]
            assert here.most == 1

    play(scene())


def faults(limit: int) -> list[tuple[int, str]]:
    return [(number, mode) for number in range(limit) for mode in ("kill", "kill after", "lost")]


class Once:
    """The fault happens at the write of that number, counted over all clusters; Events are not counted."""

    def __init__(self, number: int, mode: str) -> None:
        self.number, self.mode, self.seen = number, mode, 0

    def __call__(self, write: str) -> str | None:
        about = any(word in write for word in ("Job", "jobs/", "Pod", "pods/"))
        self.seen += about
        return self.mode if about and self.seen == self.number + 1 else None


async def through(here: Manager, done: Callable[[], bool], play_worker: Callable[[], None]) -> None:
    """Start the process again whenever it was killed, until all is done."""
    for _ in range(4):
        async with here.process():
            for _ in range(60):
                if done():
                    return
                play_worker()
                await here.turn()
                here.stage.now_s += 20  # a start that failed is tried again after a pause
                if here.killed:
                    break
    raise AssertionError(f"not done: {here.api.writes}, {[api.writes for api in here.apis.values()]}")


@pytest.mark.parametrize(("number", "mode"), faults(4))
def test_killed_at_every_write_of_a_life(number: int, mode: str) -> None:
    async def scene() -> None:
        here = Manager(w1=4, w2=4)
        here.fault = Once(number, mode)
        here.submit("one")

        def work() -> None:
            here.begin()
            here.finish()

        await through(here, here.over, work)
        created = [write for api in here.apis.values() for write in api.writes if write == "create Job"]
        assert created == ["create Job"]
        assert here.most == 1
        assert here.api.job("one")["status"]["succeeded"] == 2

    play(scene())


@pytest.mark.parametrize(("number", "mode"), faults(6))
def test_killed_at_every_write_on_the_way_to_another_cluster(number: int, mode: str) -> None:
    """A copy that does not start within 5 minutes is tried elsewhere; two copies never exist at a time."""

    async def scene() -> None:
        here = Manager(w1=4, w2=4)
        here.fault = Once(number, mode)
        here.submit("one")
        first: list[str] = []

        def work() -> None:
            place = here.where("default/one")
            first.extend(place if not first else ())
            if place and place != first[:1]:
                here.begin()
                here.finish()
            elif place:
                here.stage.now_s += 310

        await through(here, here.over, work)
        assert here.most == 1
        assert here.where("default/one") != first[:1]

    play(scene())


def test_a_cluster_that_answers_slowly_holds_up_no_job_of_another() -> None:
    async def scene() -> None:
        here = Manager(100, w1=24, w2=100)
        here.tasks = dispatch.AT_ONCE
        here.api.put(kinds.MULTI_CLUSTERS, named("w2", status=ACTIVE) | priced("w2", "cpu=1"))
        for number in range(12):
            here.submit(f"slow{number}")

        async def hang(*about: object) -> None:
            await asyncio.Event().wait()

        async with here.process():
            here.workers["w1"].link.create = hang
            await here.until(lambda: here.dispatcher.calls.open["w1"] == fleet.AT_ONE)
            here.submit("other", 3)
            await here.until(lambda: here.where("default/other") == ["w2"])
            assert here.dispatcher.calls.open["w1"] <= fleet.AT_ONE
            here.workers["w1"].link = Client(here.apis["w1"])
            await here.until(lambda: len(here.apis["w1"].objects[JOBS]) == 12)

    def priced(name: str, price: str) -> Object:
        return {"metadata": {"name": name, "annotations": {PRICE: price}}}

    play(scene())


def test_a_cluster_is_a_flavor_of_a_queue_of_phalanx_with_a_quota_of_its_own() -> None:
    """Without an AdmissionCheck: the flavors of the queue are tried in their order, each up to its quota."""

    async def scene() -> None:
        here = Manager(w1=8, w2=8)
        quotas = []
        for name, cpus in (("w2", 2), ("w1", 4)):
            labels = {"phalanx.dev/cluster": name}
            here.api.put(FLAVORS, {"metadata": {"name": f"on-{name}"}, "spec": {"labels": labels}})
            quotas.append({"flavor": f"on-{name}", "limit": {"cpu": str(cpus)}})
        here.api.put(QUEUES, {"metadata": {"name": "default"}, "spec": {"gang": True, "quotas": quotas}})
        for name in ("one", "two", "three", "four"):
            body = job(name, 2)
            body["spec"]["managedBy"] = "kueue.x-k8s.io/multikueue"
            here.api.put(JOBS, body)
            here.stage.controller.skips.add(name)
        async with here.process():
            await here.until(lambda: len(placed(here)) == 3)
            await here.until(lambda: "QueueLimit" in here.reason("four"))
            assert placed(here) == {"one": ["w2"], "two": ["w1"], "three": ["w1"]}
            assert not here.api.objects[kinds.WORKLOADS], "nothing of Kueue's is written"
            assert len([write for write in jobs_written(here) if "jobs/one" in write]) == 1
            here.begin("one")
            here.finish("one")
            await here.until(lambda: here.where("default/four") == ["w2"])

    def placed(here: Manager) -> dict[str, list[str]]:
        names = ("one", "two", "three", "four")
        return {name: where for name in names if (where := here.where(f"default/{name}"))}

    play(scene())
