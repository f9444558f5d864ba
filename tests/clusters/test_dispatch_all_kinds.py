"""A manager and a worker, each an API server with a scheduler of its own: jobs of all kinds are sent, with MultiKueue's
manifests, and come back. The test is the kubelet and the controllers of the worker: it writes the statuses there."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from phalanx import loop
from phalanx.client.connection import ApiRefusal, Connection
from phalanx.client.informer import Informer
from phalanx.client.kind import CRDS, JOBS, NODES, PODS, Kind
from phalanx.clusters.copies import content
from phalanx.clusters.copies.sendable import SENDABLE
from phalanx.clusters.dispatch import Dispatcher
from phalanx.clusters.sending import job_reconciler
from phalanx.dialects.kueue import kinds
from phalanx.dialects.kueue.tree.checks import SENDING, is_active
from phalanx.dialects.kueue.tree.configuration import CONFIGURATIONS
from phalanx.embedded.controllers.runtime.calls import SharedInformers
from phalanx.kube.routing.settings import KubeSettings
from phalanx.kube.world.capacity_sources import CapacitySources
from phalanx.kube.world.opening import open_world
from phalanx.model.policy import Policy
from phalanx.state.cluster import Cluster
from tests.clusters.plays import PLAYS, Play, complete, open_definition
from tests.clusters.test_fleet import inline, ready
from tests.clusters.test_link import define, named
from tests.embedded.apiserver.process import ServerProcess
from tests.kube.double import node
from tests.kube.test_kueue import ON

Object = dict[str, Any]
pytestmark = pytest.mark.slow


async def define_kinds(there: Connection) -> None:
    """The definitions of all kinds that are no built-in ones, as open as can be."""
    for each in PLAYS:
        if each.kind not in (JOBS, PODS):
            await there.create(CRDS, {"apiVersion": CRDS.api_version, "kind": CRDS.name, **open_definition(each.kind)})


def of_user(each: Play) -> Object:
    """The job as its user writes it: it neither waits nor is managed by another controller."""
    return {
        "apiVersion": each.kind.api_version,
        "kind": each.kind.name,
        **complete(each.obj(each.name, managed=False)),
    }


class Watched:
    """All objects of these kinds in a cluster. `changes`: how often each was changed since it was created."""

    def __init__(self, there: Connection, of: tuple[Kind, ...]) -> None:
        self.news = asyncio.Event()
        self.changes: Counter[tuple[str, str]] = Counter()
        self.caches = {kind: Informer(there, kind) for kind in of}
        for kind, cache in self.caches.items():
            cache.subscribe(lambda change, kind=kind: self._on(kind, change))

    def _on(self, kind: Kind, change: Any) -> None:
        if change.old is not None and change.new is not None:
            self.changes[kind.name, change.new["metadata"]["name"]] += 1
        self.news.set()

    def one(self, kind: Kind) -> Object:
        return next(iter(self.caches[kind].objects.values()), {})


async def play_controllers(there: Connection, worker: Watched) -> None:
    """Start and end each copy that the scheduler of the worker has let go."""
    while True:
        await worker.news.wait()
        worker.news.clear()
        for each in PLAYS:
            copied, sendable = worker.one(each.kind), SENDABLE[each.kind]
            if not copied or not each.is_let_go(copied) or sendable.is_over(copied):
                continue
            status = {**each.runs, **each.ends} if sendable.runs(copied.get("status") or {}) else each.runs
            if status != each.runs or not sendable.runs(copied.get("status") or {}):
                with contextlib.suppress(ApiRefusal):  # it has changed, and is looked at again
                    meta = copied["metadata"]
                    await there.patch(each.kind, meta["name"], {"status": status}, "default", "status")


@contextlib.asynccontextmanager
async def scheduling(api: Connection, clusters: Any = None) -> AsyncIterator[SharedInformers]:
    """A scheduler. `clusters`: makes its other clusters of its caches."""
    async with SharedInformers(api) as informers:
        others = clusters(informers) if clusters is not None else None
        async with open_world(
            api, informers, KubeSettings(dialects=ON), sources=CapacitySources(clusters=others)
        ) as world:
            deciding = asyncio.ensure_future(loop.run(world, Cluster(), Policy(), time.time))
            try:
                yield informers
            finally:
                deciding.cancel()
                await asyncio.gather(deciding, return_exceptions=True)


async def prepare_worker(there: Connection) -> None:
    await ready(there)
    await define_kinds(there)
    await there.create(NODES, {"apiVersion": "v1", "kind": "Node", **node("n1", 100)})
    await there.patch(NODES, "n1", {"spec": {"taints": None}})
    quotas = [{"name": "cpu", "nominalQuota": "100"}]
    group = {"coveredResources": ["cpu"], "flavors": [{"name": "any", "resources": quotas}]}
    queue = named(kinds.CLUSTER_QUEUES, "q", namespaceSelector={}, resourceGroups=[group])
    await there.create(kinds.RESOURCE_FLAVORS, named(kinds.RESOURCE_FLAVORS, "any"))
    await there.create(kinds.CLUSTER_QUEUES, queue)
    await there.create(kinds.LOCAL_QUEUES, named(kinds.LOCAL_QUEUES, "l", "default", clusterQueue="q"), "default")


@pytest.mark.long
def test_jobs_of_all_kinds_are_sent_and_come_back_in_three_writes_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_reconciler, "RETRY_S", 0.2)
    of = tuple(each.kind for each in PLAYS)

    async def run(manager: ServerProcess, worker: ServerProcess) -> None:
        async with (
            asyncio.timeout(200),
            await Connection.open(manager.kubeconfig) as user,
            await Connection.open(worker.kubeconfig) as there,
        ):
            await asyncio.gather(ready(user, "kueue-system"), prepare_worker(there))
            await asyncio.gather(define(user, inline(worker)), define_kinds(user))
            here, far = Watched(user, of), Watched(there, of)
            async with (
                scheduling(there),
                scheduling(user, lambda informers: Dispatcher(user, informers, time.time)) as informers,
            ):
                tasks = [asyncio.ensure_future(cache.run()) for cache in (*here.caches.values(), *far.caches.values())]
                tasks.append(asyncio.ensure_future(play_controllers(there, far)))
                await until_listed(informers)
                for each in PLAYS:
                    await user.create(each.kind, of_user(each), "default")
                await until_done(here, tasks)
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
            check(here, far)

    with ServerProcess.started(tmp_path / "manager") as manager, ServerProcess.started(tmp_path / "worker") as worker:
        asyncio.run(run(manager, worker))


async def until_listed(informers: SharedInformers) -> None:
    """Wait until the policy of the manager knows the queue that sends its jobs away, and the worker is connected."""
    listed, connected = asyncio.Event(), asyncio.Event()
    cache, clusters = informers(CONFIGURATIONS), informers(kinds.MULTI_CLUSTERS)
    cache.subscribe(lambda _: listed.set() if f"kueue-system/{SENDING}" in cache.objects else None)
    clusters.subscribe(lambda _: connected.set() if all(map(is_active, clusters.objects.values())) else None)
    await listed.wait()
    await connected.wait()


async def until_done(here: Watched, tasks: list[asyncio.Future[None]]) -> None:
    while True:
        here.news.clear()
        if all(is_done(each, here.one(each.kind)) for each in PLAYS):
            return
        waiting = asyncio.ensure_future(here.news.wait())
        await asyncio.wait([waiting, *tasks], return_when=asyncio.FIRST_COMPLETED)
        assert not any(task.done() for task in tasks), [task for task in tasks if task.done()]


def is_done(each: Play, obj: Object) -> bool:
    sendable = SENDABLE[each.kind]
    return bool(obj) and (sendable.is_over(obj) if each.ends else sendable.runs(obj.get("status") or {}))


def check(here: Watched, far: Watched) -> None:
    assert max(here.changes.values()) <= 3, here.changes
    for each in PLAYS:
        obj, copied = here.one(each.kind), far.one(each.kind)
        assert content.uid_of(copied) == obj["metadata"]["uid"]
        assert each.kind is not PODS or "nodeName" not in obj["spec"], "no pod is bound on the manager"
