"""`embedded/controllers/lifetime/pod_gc.py`: delete pods that no other component deletes."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from phalanx.client.connection import ApiRefusal, ApiUnknown, Connection, Object
from phalanx.client.informer import Informer
from phalanx.client.kind import NODES, PODS, Kind
from phalanx.embedded.controllers.lifetime.pod_gc import PodCollector, surplus
from phalanx.embedded.controllers.runtime.calls import Calls, SharedInformers
from phalanx.embedded.controllers.runtime.pod_state import condition
from tests.embedded.apiserver.process import ServerProcess
from tests.embedded.controllers.cluster import Cluster, scenario
from tests.embedded.controllers.objects import names, pod


class Refusing:
    """A server without nodes, which refuses calls about the pods and nodes in `refused`."""

    def __init__(self, *refused: str) -> None:
        self.refused, self.deleted = refused, list[str]()

    async def get(self, kind: Kind, name: str, namespace: str = "") -> Object:
        raise ApiUnknown("no answer") if name in self.refused else ApiRefusal(404, "NotFound", name)

    async def patch(self, kind: Kind, name: str, *about: Any) -> Object:
        if name in self.refused:
            raise ApiRefusal(403, "Forbidden", "a policy refuses this")
        return {"metadata": {"name": name, "namespace": "ns", "uid": f"uid-{name}", "resourceVersion": "2"}}

    async def delete(self, kind: Kind, name: str, *about: Any) -> Object:
        if name in self.refused:
            raise ApiUnknown("the webhook of another program does not answer")
        self.deleted.append(name)
        return {"kind": "Status", "status": "Success"}


@pytest.mark.parametrize(
    ("refused", "deleted"),
    [
        ("", ["done", "unbound", "lost", "lost2"]),
        ("done", ["unbound", "lost", "lost2"]),
        ("unbound", ["done", "lost", "lost2"]),
        ("lost", ["done", "unbound", "lost2"]),
        ("gone", ["done", "unbound", "lost2"]),
    ],
)
def test_an_error_about_a_pod_or_a_node_keeps_no_other_pod(refused: str, deleted: list[str]) -> None:
    server = Refusing(refused)
    api = cast(Connection, server)
    caches = {kind: Informer(api, kind) for kind in (PODS, NODES)}
    caches[NODES].observe({"metadata": {"name": "here", "uid": "here", "resourceVersion": "1"}})
    unbound = pod(name="unbound", deleting=True)
    del unbound["spec"]["nodeName"]
    lost = [pod(name="lost", node="gone"), pod(name="lost2", node="gone2")]
    for one in (pod("Succeeded", name="done", node="here"), unbound, *lost):
        caches[PODS].observe(one)
    collector = PodCollector(Calls(api, caches.__getitem__), most_finished=0, missed_for_s=0.0)
    asyncio.run(collector.collect())
    assert server.deleted == deleted


@pytest.mark.slow  # real processes
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
