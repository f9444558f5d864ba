"""A Job that names a prebuilt Workload waits for that Workload, adopts it, and reports its status in it."""

from __future__ import annotations

from typing import Any

from phalanx.dialects.kueue import kinds
from tests.dialects.kueue.written import named
from tests.kube.double import Object
from tests.kube.stage import Stage
from tests.kube.test_bind_barrier import play, settle
from tests.kube.test_kueue import job, stage_with

NAME = "kueue.x-k8s.io/prebuilt-workload-name"


def prebuilt(of: Object, *, count: int, **spec: Any) -> Object:
    """Return a Workload with the containers of that Job."""
    pods = {"name": "main", "count": count, "template": of["spec"]["template"]}
    return named("mine", "default", spec={"podSets": [pods], "queueName": "l", "priority": 7, **spec})


def naming_job(name: str, pods: int) -> Object:
    return job(name, pods, prebuilt_workload_name="mine")


def said(stage: Stage) -> dict[str, str]:
    """Return type -> `status reason` for the conditions of the only Workload."""
    (found,) = stage.api.objects[kinds.WORKLOADS].values()
    listed = (found.get("status") or {}).get("conditions") or ()
    return {one["type"]: f"{one['status']} {one['reason']}" for one in listed}


def test_a_job_waits_for_the_workload_that_it_names_and_takes_it_over() -> None:
    async def scene() -> None:
        stage = stage_with(3)
        first = naming_job("one", 2)
        stage.put(first)
        async with stage.scheduler():
            await settle(stage)
            assert stage.api.bound() == {}
            assert stage.api.objects[kinds.WORKLOADS] == {}  # the dialect creates no Workload for this Job
            stage.api.put(kinds.WORKLOADS, prebuilt(first, count=2))
            await stage.until(lambda: said(stage).get("Admitted") == "True Admitted")
            meta = stage.api.objects[kinds.WORKLOADS]["default/mine"]["metadata"]
            assert [(one["name"], one["controller"]) for one in meta["ownerReferences"]] == [("one", True)]
            uid = stage.api.job("one")["metadata"]["uid"]
            assert meta["labels"] == {"kueue.x-k8s.io/job-uid": uid}
            await stage.until(lambda: len(stage.api.bound()) == 2)
            stage.put(naming_job("late", 2))  # the Workload belongs to the other Job
            await settle(stage)
            assert stage.api.job("late")["spec"]["suspend"] is True
            stage.api.drop(kinds.WORKLOADS, "default/mine")  # a Job without a Workload stops
            await stage.until(lambda: stage.api.job("one")["spec"]["suspend"] is True)

    play(scene())


def test_a_job_that_asks_for_other_pods_than_its_workload_is_out_of_sync() -> None:
    async def scene() -> None:
        stage = stage_with(3)
        first = naming_job("one", 2)
        stage.api.put(kinds.WORKLOADS, prebuilt(first, count=1))
        stage.put(first)
        async with stage.scheduler():
            await stage.until(lambda: bool(stage.api.objects[kinds.WORKLOADS]) and "Finished" in said(stage))
            assert said(stage)["Finished"] == "True OutOfSync"
            await settle(stage)
            assert stage.api.job("one")["spec"]["suspend"] is True
            assert stage.api.bound() == {}

    play(scene())
