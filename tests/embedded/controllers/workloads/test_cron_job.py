"""CronJobs on the real embedded API server."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.client.connection import Object
from phalanx.client.kind import CRON_JOBS, JOBS, PODS
from tests.embedded.apiserver.process import ServerProcess
from tests.embedded.controllers.cluster import Cluster, scenario

pytestmark = pytest.mark.slow  # real processes

POD = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}


def cron(**spec: Any) -> dict[str, Any]:
    template = {"metadata": {"labels": {"colour": "red"}}, "spec": {"template": {"spec": POD}}}
    return {"spec": {"schedule": "@every 1s", "jobTemplate": template, **spec}}


def test_a_job_is_made_when_it_is_due_and_goes_with_its_cron_job(api_server: ServerProcess) -> None:
    async def play(here: Cluster) -> None:
        await here.make(CRON_JOBS, "tick", **cron(concurrencyPolicy="Forbid"))
        [job] = await here.until(lambda: here.list(JOBS), lambda found: len(found) == 1)
        assert job["metadata"]["name"].startswith("tick-")
        assert job["metadata"]["labels"]["colour"] == "red"
        assert "batch.kubernetes.io/cronjob-scheduled-timestamp" in job["metadata"]["annotations"]

        def told(found: Object | None) -> Any:
            status = (found or {}).get("status") or {}
            return status.get("lastScheduleTime") and [one["uid"] for one in status.get("active") or ()]

        seen = await here.until(lambda: here.get(CRON_JOBS, "tick"), told)
        assert told(seen) == [job["metadata"]["uid"]]
        [pod] = await here.until(lambda: here.list(PODS), lambda found: len(found) == 1)
        await here.end(pod)
        await here.until(
            lambda: here.get(CRON_JOBS, "tick"), lambda found: (found or {})["status"].get("lastSuccessfulTime")
        )
        await here.connection.delete(CRON_JOBS, "tick", here.namespace)
        await here.gone(JOBS, job["metadata"]["name"])

    scenario(api_server, play)


def test_a_suspended_one_makes_none_and_old_jobs_are_cleared_away(api_server: ServerProcess) -> None:
    async def play(here: Cluster) -> None:
        await here.make(CRON_JOBS, "still", **cron(suspend=True))
        await here.make(CRON_JOBS, "none", **cron(successfulJobsHistoryLimit=0))
        [pod] = await here.until(lambda: here.list(PODS), lambda found: len(found) == 1)
        name = pod["metadata"]["labels"]["job-name"]
        await here.set(CRON_JOBS, "none", spec={"suspend": True})
        await here.end(pod)
        await here.gone(JOBS, name)
        assert await here.list(JOBS) == []

    scenario(api_server, play)
