"""`embedded/controllers/lifetime/pod_gc.py`: delete pods that no other component deletes."""

from __future__ import annotations

import pytest

from phalanx.client.kind import (
    NODES,
    PODS,
)
from phalanx.embedded.controllers.lifetime.pod_gc import PodCollector, surplus
from phalanx.embedded.controllers.runtime.calls import Calls, SharedInformers
from phalanx.embedded.controllers.runtime.pod_state import condition
from tests.embedded.apiserver.process import ServerProcess
from tests.embedded.controllers.cluster import Cluster, scenario
from tests.embedded.controllers.objects import names, pod

pytestmark = pytest.mark.slow  # real processes


def test_pods_of_a_node_that_is_gone_fail_after_a_while(api_server: ServerProcess) -> None:
    async def play(here: Cluster) -> None:
        spec = {"containers": [{"name": "c", "image": "i"}], "nodeName": f"gone-{here.namespace}"}
        await here.make(PODS, "lost", metadata={"finalizers": ["example.com/see"]}, spec=spec)
        async with SharedInformers(here.connection) as informers:
            calls, now_s = Calls(here.connection, informers), [0.0]
            collector = PodCollector(calls, clock=lambda: now_s[0] + 1_800_000_000)
            for kind in (PODS, NODES):
                await calls.cache(kind).synced.wait()
            await collector.collect()
            assert (await here.pods(1))[0]["status"]["phase"] == "Pending"
            now_s[0] = 41.0
            await collector.collect()
        [lost] = await here.pods(1)
        assert lost["status"]["phase"] == "Failed"
        assert (condition(lost, "DisruptionTarget") or {})["reason"] == "DeletionByPodGC"
        assert "deletionTimestamp" in lost["metadata"]

    scenario(api_server, play, settings=None)


def test_finished_pods_beyond_the_limit_go_oldest_first() -> None:
    pods = [pod("Succeeded", name="new"), pod("Failed", name="old"), pod("Running"), pod("Failed", name="evicted")]
    pods[1]["metadata"]["creationTimestamp"] = "2001-01-01T00:00:00Z"
    pods[3]["status"]["reason"] = "Evicted"
    assert names(surplus(pods, 1)) == ["evicted", "old"]
    assert surplus(pods, 3) == []
