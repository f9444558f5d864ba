"""Jobs for other clusters: exactly one cluster runs each, whatever dies between two writes."""

from __future__ import annotations

import pytest

from phalanx.client.kind import JOBS
from phalanx.dialects.kueue import kinds
from phalanx.dialects.kueue.tree.configuration import CONFIGURATIONS
from phalanx.kube.install.definitions import FLAVORS, QUEUES
from tests.clusters.several import Manager
from tests.kube.double import job
from tests.kube.test_bind_barrier import play
from tests.kube.test_kueue import conditions, workload


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
            assert len([write for write in here.jobs_written() if "jobs/one" in write]) == 1
            here.begin("one")
            here.finish("one")
            await here.until(lambda: here.where("default/four") == ["w2"])

    def placed(here: Manager) -> dict[str, list[str]]:
        names = ("one", "two", "three", "four")
        return {name: where for name in names if (where := here.where(f"default/{name}"))}

    play(scene())
