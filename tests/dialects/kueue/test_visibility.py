"""Kueue's visibility API on `phalanx up`: who waits, in which place, as kueuectl and dashboards ask for it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from phalanx.client.connection import ApiRefusal, Connection
from phalanx.client.kind import JOBS, Kind
from phalanx.dialects.kueue import kinds
from tests.cli.upstart import Up
from tests.dialects.kueue.written import cluster_queue, group, local_queue, named
from tests.embedded.apiserver.process import ServerProcess

pytestmark = pytest.mark.slow

PREFIX = "/apis/visibility.kueue.x-k8s.io"
OF_A = f"{PREFIX}/v1beta2/clusterqueues/a/pendingworkloads"
OF_L = f"{PREFIX}/v1beta2/namespaces/default/localqueues/l/pendingworkloads"


@pytest.fixture(scope="module")
def up(simulated: Up) -> Up:
    asyncio.run(filled(simulated.data))
    return simulated


async def filled(data: Path) -> None:
    """Two LocalQueues of one ClusterQueue without room, with five Jobs that wait."""
    async with await Connection.open(data / "kubeconfig") as api:
        await api.create(kinds.RESOURCE_FLAVORS, _new(kinds.RESOURCE_FLAVORS, named("f", spec={})))
        await api.create(kinds.PRIORITY_CLASSES, _new(kinds.PRIORITY_CLASSES, named("high", value=10)))
        await api.create(kinds.CLUSTER_QUEUES, _new(kinds.CLUSTER_QUEUES, cluster_queue("a", group(f={"cpu": 1}))))
        for name in ("l", "m"):
            await api.create(kinds.LOCAL_QUEUES, _new(kinds.LOCAL_QUEUES, local_queue(name, "a")), "default")
        waiting = (("one", "l", {}), ("two", "m", {}), ("three", "l", {"kueue.x-k8s.io/priority-class": "high"}))
        for number, (name, queue, words) in enumerate(waiting, 1):
            await api.create(JOBS, job(name, {"kueue.x-k8s.io/queue-name": queue, **words}), "default")
            async with asyncio.timeout(120):
                while len(await asked(api, OF_A)) < number:  # noqa: ASYNC110 (the server is waited for)
                    await asyncio.sleep(0.1)


def job(name: str, labels: dict[str, str]) -> dict[str, Any]:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    spec = {"parallelism": 2, "completions": 2, "template": template}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "labels": labels}, "spec": spec}


def _new(kind: Kind, obj: dict[str, Any]) -> dict[str, Any]:
    meta = {key: value for key, value in obj["metadata"].items() if key in ("name", "labels")}
    return {"apiVersion": kind.api_version, "kind": kind.name, **obj, "metadata": meta}


async def asked(api: Connection, path: str) -> list[dict[str, Any]]:
    try:
        return list((await api.request("GET", path))["items"])
    except ApiRefusal as error:
        if error.code != 404:  # the queue is not known to the scheduler yet
            raise
        return []


def test_they_stand_in_the_order_in_which_they_are_tried(up: Up) -> None:
    async def scene() -> None:
        async with await Connection.open(up.data / "kubeconfig") as api:
            found = await api.request("GET", OF_A)
            assert (found["kind"], found["apiVersion"]) == (
                "PendingWorkloadsSummary",
                "visibility.kueue.x-k8s.io/v1beta2",
            )
            rows = [
                (
                    one["metadata"]["ownerReferences"][0]["name"],
                    one["localQueueName"],
                    one["priority"],
                    one["positionInClusterQueue"],
                    one["positionInLocalQueue"],
                )
                for one in found["items"]
            ]
            assert rows == [("three", "l", 10, 0, 0), ("one", "l", 0, 1, 1), ("two", "m", 0, 2, 0)]
            workloads = await api.request("GET", "/apis/kueue.x-k8s.io/v1beta2/namespaces/default/workloads")
            assert {one["metadata"]["name"] for one in found["items"]} == {
                one["metadata"]["name"] for one in workloads["items"]
            }
            own = await api.request("GET", OF_L)
            assert [(one["positionInClusterQueue"], one["positionInLocalQueue"]) for one in own["items"]] == [
                (0, 0),
                (1, 1),
            ]
            part = await api.request("GET", OF_A, params={"limit": "1", "offset": "1"})
            assert [one["positionInClusterQueue"] for one in part["items"]] == [1]

    asyncio.run(scene())


def test_it_is_found_by_discovery_and_asked_by_kubectl(up: Up) -> None:
    assert '"positionInClusterQueue":2' in up.kubectl("get", "--raw", OF_A.replace("v1beta2", "v1beta1"))
    assert "visibility.kueue.x-k8s.io/v1beta2" in up.kubectl("api-versions")


@pytest.mark.parametrize(
    ("path", "params", "code"),
    [
        (OF_A.replace("/a/", "/none/"), {}, 404),
        (OF_L.replace("/l/", "/none/"), {}, 404),
        (OF_A, {"limit": "many"}, 400),
        (OF_A, {"offset": "-1"}, 400),
        (OF_A.replace("/pendingworkloads", ""), {}, 405),
    ],
)
def test_what_cannot_be_answered_is_refused(up: Up, path: str, params: dict[str, str], code: int) -> None:
    async def scene() -> None:
        async with await Connection.open(up.data / "kubeconfig") as api:
            with pytest.raises(ApiRefusal) as refused:
                await api.request("GET", path, params=params)
            assert refused.value.code == code

    asyncio.run(scene())


def test_only_who_may_read_it_may_read_it(up: Up) -> None:
    """The rights are those that Kueue's own roles give: to a LocalQueue's list, in one namespace."""
    up.kubectl("create", "serviceaccount", "reader")
    words = ("--verb=get", "--resource=localqueues.visibility.kueue.x-k8s.io/pendingworkloads")
    up.kubectl("create", "role", "reader", *words)
    up.kubectl("create", "rolebinding", "reader", "--role=reader", "--serviceaccount=default:reader")
    as_reader = ("--as", "system:serviceaccount:default:reader")
    assert '"positionInLocalQueue":0' in up.kubectl("get", "--raw", OF_L, *as_reader)
    with pytest.raises(AssertionError, match='cannot get resource "clusterqueues/pendingworkloads"'):
        up.kubectl("get", "--raw", OF_A, *as_reader)
    with pytest.raises(AssertionError, match="localqueues/pendingworkloads"):
        up.kubectl("get", "--raw", OF_L.replace("/default/", "/kube-system/"), *as_reader)
    assert (up.data / "views").stat().st_mode & 0o777 == 0o700


def test_without_a_scheduler_the_answer_is_that_it_is_not_available(tmp_path: Path) -> None:
    with ServerProcess.started(tmp_path) as server:
        found = server.ask("GET", OF_A)
        assert (found.code, found.body["reason"]) == (503, "ServiceUnavailable")
        assert server.ask("GET", "/api/v1/namespaces").code == 200
