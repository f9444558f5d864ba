"""What ends or stops a job of Kueue's queues: HoldAndDrain, a deactivated Workload, its longest time."""

from __future__ import annotations

from phalanx.dialects.kueue import kinds
from tests.kube.stage import Stage
from tests.kube.test_bind_barrier import play, settle
from tests.kube.test_kueue import conditions, job, stage_with, workload


def test_hold_and_drain_stops_what_runs_and_lets_it_go_on_afterwards() -> None:
    async def scene() -> None:
        stage = stage_with(3)
        stage.put(job("one", 2))
        async with stage.scheduler():
            await stage.until(lambda: len(stage.api.bound()) == 2)
            queue = stage.api.objects[kinds.CLUSTER_QUEUES]["a"]
            stage.api.put(kinds.CLUSTER_QUEUES, {**queue, "spec": {**queue["spec"], "stopPolicy": "HoldAndDrain"}})
            await stage.until(lambda: stage.api.job("one")["spec"]["suspend"] is True)
            await stage.until(lambda: conditions(stage, "one").get("QuotaReserved") == "False Suspended")
            said = conditions(stage, "one")
            assert (said["Evicted"], said["Requeued"]) == ("True ClusterQueueStopped", "False ClusterQueueStopped")
            stage.api.put(kinds.CLUSTER_QUEUES, queue)
            await stage.until(lambda: conditions(stage, "one").get("Admitted") == "True Admitted")
            assert conditions(stage, "one")["Requeued"] == "True ClusterQueueRestarted"

    play(scene())


def test_a_workload_that_is_deactivated_stops_its_job_until_it_is_active_again() -> None:
    async def scene() -> None:
        stage = stage_with(3)
        stage.put(job("one", 2))
        async with stage.scheduler():
            await stage.until(lambda: conditions(stage, "one").get("Admitted") == "True Admitted")
            activate(stage, False)
            await stage.until(lambda: conditions(stage, "one").get("QuotaReserved") == "False Deactivated")
            assert stage.api.job("one")["spec"]["suspend"] is True
            assert conditions(stage, "one")["Evicted"] == "True Deactivated"
            activate(stage, True)
            await stage.until(lambda: conditions(stage, "one").get("Admitted") == "True Admitted")
            assert conditions(stage, "one")["Requeued"] == "True Reactivated"

    def activate(stage: Stage, active: bool) -> None:
        found = workload(stage, "one")
        stage.api.put(kinds.WORKLOADS, {**found, "spec": {**found["spec"], "active": active}})

    play(scene())


def test_a_job_that_has_run_its_longest_time_is_deactivated() -> None:
    async def scene() -> None:
        stage = stage_with(3)
        stage.put(job("one", 2, max_exec_time_seconds="20"))
        async with stage.scheduler():
            await stage.until(lambda: conditions(stage, "one").get("Admitted") == "True Admitted")
            await settle(stage)
            assert workload(stage, "one")["spec"]["active"] is True
            stage.now_s += 21
            stage.world.answers.touch("default/one")
            await stage.until(lambda: conditions(stage, "one").get("QuotaReserved") == "False Deactivated")
            said = conditions(stage, "one")
            assert said["Evicted"] == "True DeactivatedDueToMaximumExecutionTimeExceeded"
            assert workload(stage, "one")["spec"]["active"] is False
            assert stage.api.job("one")["spec"]["suspend"] is True

    play(scene())
