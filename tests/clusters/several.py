"""A manager and its workers in one process, each an API of its own (`tests.kube.double`)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from typing import Any

from phalanx.client.informer import Informer, key_of
from phalanx.client.kind import JOBS, NAMESPACES, NODES, PODS, Kind
from phalanx.clusters.copies.sendable import SENDABLE, Key
from phalanx.clusters.dispatch import Dispatcher
from phalanx.clusters.workers.mirror import mirrored
from phalanx.clusters.workers.state import ConnectionState, Why
from phalanx.dialects.kueue import kinds
from phalanx.kube.world.capacity_sources import ManagerWorld
from phalanx.model.node import Node
from tests.clusters.plays import PLAYS, Play
from tests.dialects.kueue.written import named
from tests.kube.double import Api, Caches, Client, Killed, Object, job, node
from tests.kube.stage import Stage
from tests.kube.test_kueue import ON, stage_with

CHECK = {
    "controllerName": "kueue.x-k8s.io/multikueue",
    "parameters": {"apiGroup": kinds.GROUP, "kind": "MultiKueueConfig", "name": "workers"},
}
ACTIVE = {"conditions": [{"type": "Active", "status": "True", "reason": "Active", "message": "Connected"}]}


class Worker:
    """A worker of the manager, as `clusters.worker.Worker`."""

    def __init__(self, name: str, api: Api, fault: Callable[[str], str | None], changed: Callable[[Key], None]) -> None:
        self.name, self.api, self.fault = name, api, fault
        self.state, self.scheduler = ConnectionState(Why.ACTIVE), "Kueue, Phalanx"
        self.link: Client | None = Client(api, lambda write: fault(f"{name}: {write}"))
        self._caches = Caches(api, 0, self.link)
        self.caches: dict[Kind, Informer] = {}
        self.sent: dict[Kind, Informer] = {kind: self._caches(kind) for kind in SENDABLE if kind in api.objects}
        for cache in self.sent.values():
            cache.subscribe(lambda change: changed(Key(change.kind, key_of(change.new or change.old or {}))))

    @property
    def active(self) -> bool:
        return self.state.active

    def job(self, key: Key) -> Object | None:
        return self.sent[key.kind].objects.get(key.name) if key.kind in self.sent else None

    def jobs(self) -> Iterator[tuple[Key, Object]]:
        yield from ((Key(kind, name), obj) for kind, cache in self.sent.items() for name, obj in cache.objects.items())

    def deliver(self) -> None:
        if self.active:
            self._caches.deliver()

    def nodes(self) -> dict[str, Node]:
        nodes, pods = (self._caches(kind).objects.values() for kind in (NODES, PODS))
        return mirrored(self.name, nodes, pods, frozenset(), reachable=self.active)


class Reported(Dispatcher):
    """A dispatcher that adds its reports about jobs to `told` instead of writing Events."""

    told: list[str]

    def join(self, world: ManagerWorld) -> None:
        super().join(replace(world, report=lambda job, reason, text: self.told.append(f"{reason}: {text}")))


class Manager:
    """A manager with a ClusterQueue of `cpu` that sends its jobs to workers with the given cpus. `most`: the highest
    number of copies of one job that ever existed at a time."""

    def __init__(self, cpu: int = 8, **workers: int) -> None:
        self.stage: Stage = stage_with(cpu, admissionChecks=["send"])
        self.stage.dialects = ON
        self.api = self.stage.api
        self.api.put(NODES, node("own", 8))
        self.api.put(NAMESPACES, {"metadata": {"name": "kube-system", "uid": "manager"}})
        self.api.put(kinds.ADMISSION_CHECKS, named("send", spec=CHECK))
        self.api.put(kinds.MULTI_CONFIGS, named("workers", spec={"clusters": list(workers)}))
        self.apis: dict[str, Api] = {}
        for name, cpus in workers.items():
            self.api.put(kinds.MULTI_CLUSTERS, named(name, status=ACTIVE))
            self.apis[name] = Api()
            self.apis[name].put(NODES, node("n", cpus))
        self.fault: Callable[[str], str | None] = lambda write: None
        self.stage.fault = lambda write: self.fault(write)
        self.stage.clusters = self._connected
        self.away: set[str] = set()
        self.away_since_s = 0.0
        self.told: list[str] = []
        self.most = 0
        self.tasks = 2

    def submit(self, name: str, pods: int = 2) -> None:
        found = job(name, pods)
        found["metadata"]["labels"] = {kinds.QUEUE_LABEL: "l"}
        found["spec"]["managedBy"] = "kueue.x-k8s.io/multikueue"
        self.api.put(JOBS, found)
        self.stage.controller.skips.add(name)

    def _connected(self, client: Client) -> Reported:
        stage = self.stage
        self.dispatcher = Reported(client, stage.caches, lambda: stage.now_s)  # type: ignore[arg-type]  # a double
        self.dispatcher.told = self.told
        for name, api in self.apis.items():
            worker = Worker(name, api, lambda write: self.fault(write), self.dispatcher.keys.put)
            self.dispatcher.fleet.workers[name] = worker  # type: ignore[assignment]  # a double
            if name in self.away:
                self._lose(worker)
        return self.dispatcher

    def _lose(self, worker: Worker) -> None:
        worker.state = ConnectionState(Why.FAILED, "it cannot be reached", since_s=self.away_since_s)
        worker.link = None

    def lose(self, name: str) -> None:
        """The link to a worker breaks now; it goes on by itself."""
        self.away.add(name)
        self.away_since_s = self.stage.now_s
        self._lose(self.workers[name])

    def find(self, name: str, fault: Callable[[str], str | None] = lambda write: None) -> None:
        """The link is there again."""
        self.away.discard(name)
        worker = self.workers[name]
        worker.state, worker.link = ConnectionState(Why.ACTIVE), Client(worker.api, fault)

    @property
    def workers(self) -> dict[str, Any]:
        return self.dispatcher.fleet.workers  # type: ignore[return-value]  # doubles

    @contextlib.asynccontextmanager
    async def process(self) -> AsyncIterator[None]:
        """A fresh process of the manager."""
        async with self.stage.scheduler():
            await self.dispatcher.begin()
            self.dispatcher.look_again()
            working = [asyncio.ensure_future(self.dispatcher.reconciler.work()) for _ in range(self.tasks)]
            try:
                yield
            finally:
                for task in working:
                    task.cancel()
                for found in await asyncio.gather(*working, return_exceptions=True):
                    assert isinstance(found, asyncio.CancelledError | Killed), found

    async def turn(self) -> None:
        for worker in self.workers.values():
            worker.deliver()
            self.dispatcher.fleet._tell_nodes(worker.name)
        await self.stage.turn(controller=False)
        self.dispatcher.look_again()
        await asyncio.sleep(3)
        self.killed = self.stage.killed or any(each.link and each.link.dead for each in self.workers.values())
        self.most = max(
            0, self.most, *(len(self.where(key, kind)) for kind in SENDABLE for key in self.api.objects[kind])
        )

    def reason(self, name: str = "one") -> str:
        """Why the job waits."""
        return self.stage.reason(name) if f"default/{name}" in self.stage.cluster.jobs else ""

    def jobs_written(self) -> list[str]:
        """Return the writes about Jobs of the manager."""
        return [write for write in self.api.writes if "jobs/" in write]

    def where(self, key: str, kind: Kind = JOBS) -> list[str]:
        """The workers that have a copy."""
        return [name for name, api in self.apis.items() if key in api.objects.get(kind, ())]

    async def until(self, reached: Callable[[], bool], turns: int = 60) -> None:
        for _ in range(turns):
            if reached():
                return
            await self.turn()
            if self.killed:
                return
        raise AssertionError(f"not reached in {turns} turns; {self.api.writes}; {self.reason()}")

    def put(self, each: Play, name: str = "one") -> None:
        """A job of any kind."""
        self.api.put(each.kind, each.obj(name))
        self.stage.controller.skips.add(name)

    def begin(self, name: str = "one") -> None:
        """The worker starts the copy."""
        for api, each, copied in self._copies(name):
            if each.waits(copied):
                api.put(each.kind, each.begun(copied))

    def finish(self, name: str = "one") -> None:
        """The copy succeeds, if it has started."""
        for api, each, copied in self._copies(name):
            if not each.waits(copied) and not SENDABLE[each.kind].is_over(copied):
                api.put(each.kind, each.ended(copied))

    def _copies(self, name: str) -> Iterator[tuple[Api, Play, Object]]:
        for api in self.apis.values():
            for each in PLAYS:
                if (copied := api.objects.get(each.kind, {}).get(f"default/{name}")) is not None:
                    yield api, each, copied

    def over(self, name: str = "one") -> bool:
        return SENDABLE[JOBS].is_over(self.api.job(name))
