"""A controller that creates pods or Jobs reports on its object why the server refuses them."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.client.connection import Object
from phalanx.client.kind import CRON_JOBS, DEPLOYMENTS, EVENTS, REPLICA_SETS, RESOURCE_QUOTAS, STATEFUL_SETS
from tests.embedded.apiserver.process import ServerProcess
from tests.embedded.controllers.cluster import Cluster, scenario

pytestmark = pytest.mark.slow  # real processes

LABELS = {"app": "a"}
POD = {"containers": [{"name": "c", "image": "i"}]}
SETS = {"selector": {"matchLabels": LABELS}, "template": {"metadata": {"labels": LABELS}, "spec": POD}}
CRON = {"schedule": "@every 1s", "jobTemplate": {"spec": {"template": {"spec": {**POD, "restartPolicy": "Never"}}}}}


def test_what_may_not_be_created_is_said_by_an_event_and_a_condition(api_server: ServerProcess) -> None:
    def failure(obj: Object) -> Any:
        conditions = (obj.get("status") or {}).get("conditions") or ()
        return next((one for one in conditions if one["type"] == "ReplicaFailure"), None)

    def about(events: list[Object]) -> set[str]:
        refused = (
            one for one in events if one["reason"] == "FailedCreate" and "exceeded quota: none" in one["message"]
        )
        return {one["involvedObject"]["kind"] for one in refused}

    async def play(here: Cluster) -> None:
        await here.make(RESOURCE_QUOTAS, "none", spec={"hard": {"pods": "0", "count/jobs.batch": "0"}})
        await here.make(DEPLOYMENTS, "d", spec=SETS)
        await here.make(STATEFUL_SETS, "s", spec={**SETS, "serviceName": "s"})
        await here.make(CRON_JOBS, "c", spec=CRON)
        kinds = {"ReplicaSet", "StatefulSet", "CronJob"}
        await here.until(lambda: here.list(EVENTS), lambda events: about(events) == kinds)
        for kind in (REPLICA_SETS, DEPLOYMENTS):
            [found] = await here.until(lambda kind=kind: here.list(kind), lambda found: failure(found[0]))
            assert "exceeded quota: none" in failure(found)["message"]
            assert (failure(found)["status"], failure(found)["reason"]) == ("True", "FailedCreate")
        await here.connection.delete(RESOURCE_QUOTAS, "none", here.namespace)
        await here.until(lambda: here.list(DEPLOYMENTS), lambda found: not failure(found[0]))

    scenario(api_server, play)
