"""The same protocol against the embedded API server and its Job controller: real processes, real watches, a sample of
the kills that `test_restart` does exhaustively on the double."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from phalanx import loop
from phalanx.client.connection import ApiRefusal, Connection
from phalanx.client.kind import EVENTS, JOBS, NODES, PODS, RESOURCE_QUOTAS
from phalanx.embedded.controllers.run import run_controllers
from phalanx.embedded.controllers.runtime.calls import SharedInformers
from phalanx.kube.install.definitions import FLAVORS, QUEUES, install
from phalanx.kube.world.opening import open_world
from phalanx.model.policy import Policy
from phalanx.state.cluster import Cluster
from tests.embedded.apiserver.process import ServerProcess
from tests.kube.double import Killed, Object, job, named_node, node
from tests.seeds import mostly_slow

pytestmark = pytest.mark.slow
GANG = {"job": "train", "job_roles": "2"}


class Mortal:
    """A connection whose process is killed right after its write number `last` was answered."""

    def __init__(self, connection: Connection, last: int) -> None:
        self._connection, self._last, self.killed = connection, last, asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    async def patch(self, *args: Any, **named: Any) -> Any:
        return await self._write(self._connection.patch(*args, **named))

    async def create(self, kind: Any, body: Any, *args: Any, **named: Any) -> Any:
        call = self._connection.create(kind, body, *args, **named)
        return await (self._write(call) if kind is PODS else call)

    async def _write(self, call: Any) -> Any:
        if self.killed.is_set():
            call.close()
            raise Killed
        answer = await call
        self._last -= 1
        if self._last == 0:
            self.killed.set()
            raise Killed
        return answer


async def scheduler(kubeconfig: Path, last: int, until: Callable[[SharedInformers], bool]) -> None:
    """One life of the process: until killed, or until what is expected can be seen."""
    async with await Connection.open(kubeconfig) as connection, SharedInformers(connection) as informers:
        mortal = Mortal(connection, last)
        seen = asyncio.Event()
        informers(PODS).subscribe(lambda change: seen.set() if until(informers) else None)
        try:
            async with open_world(mortal, informers) as world:  # type: ignore[arg-type]  # it answers as one does
                parts = [
                    asyncio.ensure_future(loop.run(world, Cluster(), Policy(), time.time)),
                    asyncio.ensure_future(run_controllers(connection, informers)),
                ]
                try:
                    async with asyncio.timeout(90):
                        await seen.wait()
                finally:
                    for part in parts:
                        part.cancel()
                    await asyncio.gather(*parts, return_exceptions=True)
        except* Killed:
            pass


def bound(informers: SharedInformers, count: int) -> bool:
    pods = informers(PODS).objects.values()
    return len(pods) == count and all(pod["spec"].get("nodeName") for pod in pods)


def all_bound(informers: SharedInformers) -> bool:
    return bound(informers, 4)


async def furnish(user: Connection, *jobs: Object) -> None:
    """A node of 8 cores, and these Jobs."""
    await user.create(NODES, {"apiVersion": "v1", "kind": "Node", **node("n1", 8)})
    status = {**(await user.get(NODES, "n1")), "status": node("n1", 8)["status"]}
    await user.replace(NODES, status, "status")
    await user.patch(NODES, "n1", {"spec": {"taints": None}})
    for body in jobs:
        template = body["spec"]["template"]["spec"]
        template |= {"restartPolicy": "Never", "containers": [{**template["containers"][0], "image": "x"}]}
        await user.create(JOBS, {"apiVersion": "batch/v1", "kind": "Job", **body}, "default")


@pytest.mark.parametrize("last", mostly_slow([4, 1, 2], fast=0, sample=1))
def test_killed_and_started_again(tmp_path: Path, last: int) -> None:
    async def scene(kubeconfig: Path) -> None:
        async with await Connection.open(kubeconfig) as user:
            await furnish(user, job("ps", 1, **GANG), job("w", 3, **GANG))
            await scheduler(kubeconfig, last, all_bound)
            await scheduler(kubeconfig, 0, all_bound)
            pods = (await user.list(PODS))["items"]
            assert sorted(pod["spec"].get("nodeName") for pod in pods) == ["n1"] * 4
            for name in ("ps", "w"):
                assert (await user.get(JOBS, name, "default"))["spec"]["suspend"] is False

    with ServerProcess.started(tmp_path) as server:
        asyncio.run(scene(server.kubeconfig))


def test_a_gang_over_its_quota_is_not_resumed(tmp_path: Path) -> None:
    """Point 1: the smaller of two gangs starts; of the other, no pod is ever tried."""

    async def scene(kubeconfig: Path) -> None:
        async with await Connection.open(kubeconfig) as user:
            quota = {"metadata": {"name": "team"}, "spec": {"hard": {"requests.cpu": "3500m"}}}
            await user.create(RESOURCE_QUOTAS, {"apiVersion": "v1", "kind": "ResourceQuota", **quota}, "default")
            await furnish(user, job("big", 4), job("small", 3))
            await scheduler(kubeconfig, 0, lambda informers: bound(informers, 3))
            assert (await user.get(JOBS, "big", "default"))["spec"]["suspend"] is True
            events = (await user.list(EVENTS, "default"))["items"]
            assert "FailedCreate" not in {event["reason"] for event in events}

    with ServerProcess.started(tmp_path) as server:
        asyncio.run(scene(server.kubeconfig))


async def kube_scheduler(user: Connection, pods: int) -> list[str]:
    """What kube-scheduler does with pods of its own: those without gates are bound, where their node affinity says.

    Ends with the names that it bound when the server has answered for as many `pods`.
    """
    bound: list[str] = []
    async with SharedInformers(user) as informers:
        news = asyncio.Event()
        informers(PODS).subscribe(lambda change: news.set())
        while len(bound) < pods:
            await news.wait()
            news.clear()
            for pod in list(informers(PODS).objects.values()):
                meta, spec = pod["metadata"], pod["spec"]
                if spec.get("nodeName") or spec.get("schedulingGates") or spec["schedulerName"] != "default-scheduler":
                    continue
                node = {"apiVersion": "v1", "kind": "Node", "name": named_node(spec) or "anywhere"}
                about = {"name": meta["name"], "namespace": meta["namespace"]}
                body = {"apiVersion": "v1", "kind": "Binding", "metadata": about, "target": node}
                with contextlib.suppress(ApiRefusal):  # it was bound a moment ago, and the watch is late
                    await user.create(PODS, body, meta["namespace"], "binding", meta["name"])
                    bound.append(meta["name"])
    return bound


def test_another_scheduler_binds_what_is_pinned(tmp_path: Path) -> None:
    """Point 2: the Job slipped past the policy (which is not there yet). Each pod is bound once, and not by us."""

    async def scene(kubeconfig: Path) -> None:
        async with await Connection.open(kubeconfig) as user:
            await furnish(user, job("train", 3, scheduler="default-scheduler"))
            playing = asyncio.ensure_future(kube_scheduler(user, 3))
            await scheduler(kubeconfig, 0, lambda informers: bound(informers, 3))
            theirs = await asyncio.wait_for(playing, 90)
            pods = (await user.list(PODS))["items"]
            assert [pod["spec"]["nodeName"] for pod in pods] == ["n1"] * 3
            assert sorted(theirs) == sorted(pod["metadata"]["name"] for pod in pods)

    with ServerProcess.started(tmp_path) as server:
        asyncio.run(scene(server.kubeconfig))


@pytest.mark.parametrize("version", mostly_slow(["1.36", "1.35", "1.36.0"], fast=0, sample=1))
def test_a_job_that_ran_gets_another_flavor_by_the_rules_of_each_version(tmp_path: Path, version: str) -> None:
    """The Job was suspended and its pods are deleted; `status.startTime` still exists. Its flavor's labels are
    added."""

    async def scene(kubeconfig: Path) -> None:
        async with await Connection.open(kubeconfig) as user:
            ran = job("ran", 2)
            await furnish(user, ran)
            seen = {"type": "Suspended", "status": "True", "reason": "JobSuspended", "message": "Job suspended"}
            status = {"startTime": "2026-01-01T00:00:00Z", "conditions": [seen]}
            await user.patch(JOBS, "ran", {"status": status}, "default", "status")
            await install(user)
            await user.patch(NODES, "n1", {"metadata": {"labels": {"kind": "spot"}}})
            await user.create(FLAVORS, {"metadata": {"name": "spot"}, "spec": {"labels": {"kind": "spot"}}})
            quotas = [{"flavor": "spot", "guaranteed": {"cpu": "4"}}]
            await user.patch(QUEUES, "default", {"spec": {"quotas": quotas}})
            await scheduler(kubeconfig, 0, lambda informers: bound(informers, 2))
            found = await user.get(JOBS, "ran", "default")
            assert found["spec"]["template"]["spec"]["nodeSelector"] == {"kind": "spot"}

    with ServerProcess.started(tmp_path, 0, "--emulated-version", version) as server:
        asyncio.run(scene(server.kubeconfig))
