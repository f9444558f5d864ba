"""`lifetime/pod_group_protection.py`: how long a deleted PodGroup stays."""

from __future__ import annotations

import pytest

from phalanx.client.kind import POD_GROUPS
from tests.embedded.apiserver.process import ServerProcess
from tests.embedded.controllers.cluster import Cluster, scenario

pytestmark = pytest.mark.slow


def test_a_deleted_group_stays_until_its_pods_have_ended(api_server: ServerProcess) -> None:
    async def play(here: Cluster) -> None:
        await here.job(completionMode="Indexed", parallelism=2, completions=2)
        pods = await here.pods(2)
        [group] = await here.list(POD_GROUPS)
        await here.connection.delete(POD_GROUPS, group["metadata"]["name"], here.namespace)
        assert (await here.get(POD_GROUPS, group["metadata"]["name"])) is not None
        for one in pods:
            await here.end(one)
        await here.gone(POD_GROUPS, group["metadata"]["name"])

    scenario(api_server, play)
