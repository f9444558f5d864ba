"""JobFlows and CronJobs of Volcano on the real embedded API server: the Jobs that they make, and when."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.client.connection import Object
from phalanx.client.kind import EVENTS, PODS
from phalanx.embedded.controllers.operators.volcano.flows import flow_status
from phalanx.embedded.controllers.operators.volcano.kinds import CRON_JOBS, JOB_FLOWS, JOB_TEMPLATES, JOBS
from tests.embedded.apiserver.process import ServerProcess
from tests.embedded.controllers.cluster import Cluster, scenario
from tests.embedded.controllers.operators.volcano.written import in_phase, task


async def in_state(here: Cluster, wanted: str) -> Any:
    def holds(flow: Object | None) -> bool:
        return ((flow or {}).get("status") or {}).get("state", {}).get("phase") == wanted

    return (await here.until(lambda: here.get(JOB_FLOWS, "f"), holds))["status"]


def names(jobs: list[Object]) -> list[str]:
    return [job["metadata"]["name"] for job in jobs]


@pytest.mark.slow
def test_jobs_follow_those_that_they_depend_on(volcano_server: ServerProcess) -> None:
    async def play(here: Cluster) -> None:
        flows = [{"name": "a"}, {"name": "b", "dependsOn": {"targets": ["a"]}}]
        await here.make(JOB_TEMPLATES, "a", spec={"tasks": [task("t", 1)]})
        await here.make(JOB_FLOWS, "f", spec={"flows": flows, "jobRetainPolicy": "delete"})
        (pod,) = await here.pods(1)
        assert names(await here.list(JOBS)) == ["f-a"]
        (job,) = await here.list(JOBS)
        assert job["metadata"]["labels"]["volcano.sh/createdByJobTemplate"] == f"{here.namespace}.a"
        await here.end(pod)
        running = await here.until(
            lambda: here.get(JOB_FLOWS, "f"), lambda flow: "completedJobs" in (flow.get("status") or {})
        )
        assert (running["status"]["state"], running["status"]["completedJobs"]) == ({"phase": "Running"}, ["f-a"])
        said = await here.until(
            lambda: here.list(EVENTS), lambda found: "FailedCreate" in {one["reason"] for one in found}
        )
        assert any("the JobTemplate b does not exist" in one["message"] for one in said)
        await here.make(JOB_TEMPLATES, "b", spec={"tasks": [task("t", 1)]})
        await here.until(lambda: here.get(PODS, "f-b-t-0"), lambda found: found is not None)
        await here.end((await here.list(PODS))[1])
        status = await in_state(here, "Succeed")
        assert {one["name"]: one["state"] for one in status["jobStatusList"]} == {
            "f-a": "Completed",
            "f-b": "Completed",
        }
        await here.gone(JOBS, "f-b")
        assert (await in_state(here, "Succeed"))["completedJobs"] == ["f-a", "f-b"]

    scenario(volcano_server, play)


@pytest.mark.slow
def test_a_cron_job_makes_jobs_when_they_are_due(volcano_server: ServerProcess) -> None:
    async def play(here: Cluster) -> None:
        template = {"spec": {"tasks": [task("t", 1)]}}
        await here.make(
            CRON_JOBS, "c", spec={"schedule": "@every 1s", "jobTemplate": template, "concurrencyPolicy": "Forbid"}
        )
        (pod,) = await here.pods(1)
        (job,) = await here.list(JOBS)
        assert "volcano.sh/cronjob-scheduled-timestamp" in job["metadata"]["annotations"]
        cron = await here.until(lambda: here.get(CRON_JOBS, "c"), lambda one: (one.get("status") or {}).get("active"))
        assert cron["status"]["active"][0]["apiVersion"] == "batch.volcano.sh/v1alpha1"
        await here.set(CRON_JOBS, "c", spec={"suspend": True})
        await here.end(pod)
        ended = await here.until(lambda: here.get(CRON_JOBS, "c"), lambda one: "active" not in one["status"])
        assert ended["status"]["lastSuccessfulTime"]

    scenario(volcano_server, play)


def made(name: str, phase: str) -> Object:
    return {"metadata": {"name": f"f-{name}", "creationTimestamp": "2026-01-01T00:00:00Z"}, "status": in_phase(phase)}


PHASES: list[Any] = [
    ({"a": None, "b": None}, "Pending"),
    ({"a": made("a", "Pending"), "b": None}, "Pending"),
    ({"a": made("a", "Running"), "b": None}, "Running"),
    ({"a": made("a", "Completed"), "b": None}, "Running"),
    ({"a": made("a", "Completed"), "b": made("b", "Completed")}, "Succeed"),
    ({"a": made("a", "Completed"), "b": made("b", "Failed")}, "Failed"),
    ({"a": made("a", "Terminated"), "b": None}, "Failed"),
]


@pytest.mark.parametrize(("jobs", "expected"), PHASES)
def test_the_phase_of_a_flow(jobs: dict[str, Object | None], expected: str) -> None:
    assert flow_status({"metadata": {"name": "f"}}, jobs)["state"] == {"phase": expected}


def test_a_flow_that_failed_stays_so() -> None:
    failed = {"metadata": {"name": "f"}, "status": {"state": {"phase": "Failed"}}}
    assert flow_status(failed, {"a": made("a", "Completed")})["state"] == {"phase": "Failed"}
    aborted = flow_status({"metadata": {"name": "f"}}, {"a": made("a", "Aborted")})
    assert aborted["unKnowJobs"] == ["f-a"]
