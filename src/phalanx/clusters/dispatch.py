"""Send jobs to the clusters on whose nodes the core has placed them, follow the copies of these jobs, and delete
outdated copies.

The scheduler writes its choice of a cluster to the start record of the Job before this module writes anything (decision
73). So if the process crashes between two writes, the next process can derive the remaining steps from the objects. A
missing copy is created, a copy of the latest start is followed, and any other copy is deleted (`job_reconciler`)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from phalanx.client.connection import Connection
from phalanx.client.informer import Change, Informer, key_of
from phalanx.client.kind import Kind
from phalanx.clusters.choices import Choices
from phalanx.clusters.copies.sendable import Key
from phalanx.clusters.defaulting import keep_sending_queues
from phalanx.clusters.sending.job_reconciler import JobReconciler
from phalanx.clusters.sending.keys import Keys
from phalanx.clusters.sending.sending_cluster import SendingCluster
from phalanx.clusters.sending.sent_jobs import SentJobs
from phalanx.clusters.workers.fleet import Fleet, WorkerCalls
from phalanx.clusters.workers.worker import Worker
from phalanx.kube.gang.lifecycle.gang import GangLifecycle
from phalanx.kube.gang.spec.elsewhere import Choose
from phalanx.kube.world.capacity_sources import ManagerWorld
from phalanx.model.event import Event

AT_ONCE = 32  # the maximum number of jobs that are reconciled concurrently


class Dispatcher:
    """Implements `OtherClusters` of `kube.world` for one manager. `api`, `informers`: the manager's API and its caches.
    `fence`: see `Connection.fence`."""

    def __init__(
        self,
        api: Connection,
        informers: Callable[[Kind], Informer],
        now_s: Callable[[], float],
        fence: Callable[[], float] | None = None,
    ) -> None:
        self.keys, self.manager = Keys(), SendingCluster(api, informers)
        self.sent, self.calls = SentJobs(self.keys), WorkerCalls(self.keys.put)
        news, resources, kinds = self._on_worker, self.sent.resources, self.manager.kinds
        self.fleet = Fleet(api, informers, now_s, fence, news, self.keys.put, resources, kinds)
        self.choices = Choices(self.fleet.workers, self.manager.clusters, now_s, self._choose_again)
        self.choose: Choose = self.choices.choose
        self.reconciler = JobReconciler(self.manager, self.fleet.workers, self.calls, self.sent, self.keys, now_s)

    # --- the interface for the world --------------------------------------------------------------------------------

    def join(self, world: ManagerWorld) -> None:
        """From now on, report events about sent jobs to this world (the scheduler's interface to the cluster)."""
        self.manager.world, self.fleet.wake = world, world.wake

    def events(self) -> Sequence[Event]:
        """Return the events about nodes of workers that occurred since the last call."""
        return self.fleet.events()

    def saw(self, gang: GangLifecycle) -> None:
        """Store the latest start of a gang, and reconcile those of its jobs whose start has changed."""
        if not gang.waits or gang.done:
            self.choices.forget(gang.id)
        self.sent.see(gang)

    async def run(self) -> None:
        """Send jobs and follow them, until cancelled."""
        await self.begin()
        async with asyncio.TaskGroup() as group:
            group.create_task(self.fleet.run())
            group.create_task(self._look_again())
            group.create_task(keep_sending_queues(self.manager.api, self.manager.informers))
            group.create_task(self.choices.run())
            for _ in range(AT_ONCE):
                group.create_task(self.reconciler.work())

    async def begin(self) -> None:
        """Wait until the manager's Jobs and the uid of its cluster are known."""
        await self.manager.begin()
        self.fleet.own_uid = self.manager.uid
        self.manager.follow(self._on_job)
        self.manager.follow_clusters(self.choices.on_cluster)

    # --- changes of clusters and workers ----------------------------------------------------------------------------

    def _on_job(self, change: Change) -> None:
        key = Key(change.kind, key_of(change.new or change.old or {}))
        if key in self.sent or any(worker.job(key) is not None for worker in self.fleet.workers.values()):
            self.keys.put(key)

    def _choose_again(self, gang: str) -> None:
        self.manager.world.mark(gang)

    def _on_worker(self, worker: Worker) -> None:
        """Reconcile all jobs of a worker whose state has changed."""
        for key in (*dict(worker.jobs()), *self.sent.in_cluster(worker.name)):
            self.keys.put(key)

    async def _look_again(self) -> None:
        """Reconcile all jobs regularly, to find copies without a job, lost clusters, and copies that do not start."""
        while True:
            await asyncio.sleep(min(self.manager.settings().gc_s or 60.0, 60.0))
            self.look_again()

    def look_again(self) -> None:
        """Reconcile every job that was sent, and every copy."""
        self.manager.follow(self._on_job)
        for key in {*self.sent, *(key for worker in self.fleet.workers.values() for key, _ in worker.jobs())}:
            self.keys.put(key)
