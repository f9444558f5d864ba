"""`job/gang.py`: which Jobs get a Workload and a PodGroup."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.client.kind import POD_GROUPS, WORKLOADS
from phalanx.embedded.controllers.job.gang import is_gang
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
def test_the_pods_of_a_gang_name_the_group_of_its_workload(api_server: ServerProcess) -> None:
    async def play(here: Cluster) -> None:
        await here.job(**ALL_AT_ONCE)
        pods = await here.pods(2)
        [group], [workload] = await here.list(POD_GROUPS), await here.list(WORKLOADS)
        assert {one["spec"]["schedulingGroup"]["podGroupName"] for one in pods} == {group["metadata"]["name"]}
        assert group["spec"]["podGroupTemplateRef"]["workload"]["workloadName"] == workload["metadata"]["name"]

    scenario(api_server, play)
