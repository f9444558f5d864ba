"""Which Jobs get a Workload and a PodGroup, and when a PodGroup goes."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.client.kind import JOBS, POD_GROUPS, PODS, WORKLOADS
from phalanx.embedded.controllers.gang import is_gang
from tests.embedded.apiserver.process import ServerProcess
from tests.embedded.controllers.cluster import Cluster, scenario
from tests.embedded.controllers.objects import job

ALL_AT_ONCE = {"completionMode": "Indexed", "parallelism": 2, "completions": 2}


@pytest.mark.parametrize(
    ("spec", "template", "expected"),
    [
        (ALL_AT_ONCE, {}, True),
        ({**ALL_AT_ONCE, "parallelism": 1}, {}, False),
        ({"parallelism": 2, "completions": 2}, {}, False),
        (ALL_AT_ONCE, {"schedulerName": "phalanx"}, False),
        (ALL_AT_ONCE, {"schedulingGroup": {"podGroupName": "own"}}, False),
    ],
)
def test_jobs_that_start_all_their_pods_at_once_are_gangs(
    spec: dict[str, Any], template: dict[str, Any], expected: bool
) -> None:
    the_job = job(**spec)
    the_job["spec"]["template"]["spec"] |= template
    assert is_gang(the_job) is expected


@pytest.mark.slow
def test_its_group_stays_until_no_pod_of_it_runs(api_server: ServerProcess) -> None:
    async def play(here: Cluster) -> None:
        template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
        await here.make(JOBS, "j", spec={**ALL_AT_ONCE, "template": template})
        pods = await here.until(lambda: here.list(PODS), lambda found: len(found) == 2)
        [group], [workload] = await here.list(POD_GROUPS), await here.list(WORKLOADS)
        assert {one["spec"]["schedulingGroup"]["podGroupName"] for one in pods} == {group["metadata"]["name"]}
        assert group["spec"]["podGroupTemplateRef"]["workload"]["workloadName"] == workload["metadata"]["name"]
        await here.connection.delete(POD_GROUPS, group["metadata"]["name"], here.namespace)
        assert (await here.get(POD_GROUPS, group["metadata"]["name"])) is not None
        for one in pods:
            await here.end(one)
        await here.gone(POD_GROUPS, group["metadata"]["name"])

    scenario(api_server, play)
