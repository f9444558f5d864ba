"""Reconcile jobs with their copies in other clusters: create a missing copy, follow the copy of the latest start, and
delete all other copies.

The writes about one job are made one after the other. Each step depends only on the job and its copies, so the work
continues correctly after a restart."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from phalanx.client.connection import ApiError
from phalanx.client.kind import PODS
from phalanx.clusters.copies import content
from phalanx.clusters.copies.content import Sent
from phalanx.clusters.copies.sendable import SENDABLE, Key
from phalanx.clusters.sending.copy_writes import CopyWrites, leaving
from phalanx.clusters.sending.job_returns import JobReturns, NotYet
from phalanx.clusters.sending.keys import Keys
from phalanx.clusters.sending.sending_cluster import SendingCluster
from phalanx.clusters.sending.sent_jobs import SentJobs
from phalanx.clusters.workers.echo import CopyLook, Echo
from phalanx.clusters.workers.fleet import WorkerAway, WorkerBusy, WorkerCalls
from phalanx.clusters.workers.worker import Worker
from phalanx.errors import PhalanxError
from phalanx.kube.read.fault_log import FaultLog, fault_text

log = logging.getLogger(__name__)

RETRY_S = 2.0  # the pause before the next attempt after an unknown outcome, or while a copy is being deleted

Object = dict[str, Any]


class JobReconciler:
    """Reconciles jobs with their copies. `keys`: the jobs to reconcile. `sent`: the jobs that are meant for other
    clusters. `now_s`: a function that returns the seconds since the epoch."""

    def __init__(
        self,
        manager: SendingCluster,
        workers: Mapping[str, Worker],
        calls: WorkerCalls,
        sent: SentJobs,
        keys: Keys,
        now_s: Callable[[], float],
    ) -> None:
        self._manager, self._workers, self._calls, self._sent, self._keys = manager, workers, calls, sent, keys
        self._returns = JobReturns(manager, workers, now_s)
        self._copies = CopyWrites(manager, workers, calls, self._returns, sent, keys, now_s)
        self._echoes, self._faults = Echo(now_s), FaultLog()

    async def work(self) -> None:
        """Reconcile one job after the other, until cancelled."""
        while True:
            key, waits = await self._keys.take(), False
            try:
                await self._reconcile(key)
                self._returns.settle(key)
                self._faults.pop(str(key), None)
            except WorkerBusy:
                waits = True
            except NotYet as wait:
                self._returns.endure(key, self._sent.get(key), str(wait), wait.cluster)
                self._keys.later(key, RETRY_S)
            except WorkerAway:
                self._returns.endure(key, self._sent.get(key), "")
                self._keys.later(key, RETRY_S)
            except ApiError as error:
                log.info("%s will be reconciled again: %s", key, error)
                self._returns.endure(key, self._sent.get(key), str(error))
                self._keys.later(key, RETRY_S)
            except Exception as error:  # a defect about one job must not stop the reconciliation of other jobs
                if self._faults.is_new(str(key), why := fault_text(error)):
                    known = isinstance(error, PhalanxError)
                    log.warning("%s could not be sent or followed: %s", key, why, exc_info=not known)
                self._keys.later(key, 10 * RETRY_S)
            finally:
                self._keys.done(key)
                if not waits:
                    self._calls.leave(key)

    async def _reconcile(self, key: Key) -> None:
        job, sendable = self._manager.job(key), SENDABLE[key.kind]
        sent = self._sent.get(key)
        if sent is not None and (job is None or job["metadata"]["uid"] != sent.uid):
            sent = None
        in_the_way = await self._remove_others(key, job, sent)
        if job is not None and not sendable.is_over(job):
            if sent is not None:
                await self._send(key, job, sent)
            elif (status := content.status_to_clear(sendable, job)) is not None and content.sent_to(job):
                await self._manager.write_status(key, job, status)
        if in_the_way is not None:
            raise in_the_way

    async def _remove_others(self, key: Key, job: Object | None, sent: Sent | None) -> NotYet | WorkerBusy | None:
        """Delete the copies that do not belong to the latest start. If such a copy cannot be deleted now, return the
        exception instead of raising it, so that the copy of the latest start is still followed."""
        in_the_way: NotYet | WorkerBusy | None = None
        for worker in list(self._workers.values()):
            copied = worker.job(key)
            if copied is not None and self._manager.has_made(copied) and not _is_kept(key, worker, copied, job, sent):
                try:
                    await self._copies.remove(key, worker, copied)
                except (NotYet, WorkerBusy) as error:
                    in_the_way = in_the_way or error
        return in_the_way

    async def _send(self, key: Key, job: Object, sent: Sent) -> None:
        """Create the copy of the job, or follow it if it exists."""
        worker = self._workers.get(sent.cluster)
        if worker is None or not worker.active:
            self._returns.return_if_lost(sent, worker)
            return
        copied = worker.job(key)
        if copied is None:
            await self._copies.create(key, job, sent, worker)
        elif not self._manager.has_made(copied):
            self._returns.refuse_foreign(sent, key)
        elif self._manager.is_present(copied, sent):
            await self._follow(key, job, copied, sent)
            await self._echo(key, worker, copied, sent)
        else:
            raise NotYet(f"cluster {worker.name} still has an earlier copy of it{leaving(copied)}")

    async def _follow(self, key: Key, job: Object, copied: Object, sent: Sent) -> None:
        if "deletionTimestamp" in copied["metadata"] and not sent.sendable.is_over(copied):
            raise NotYet(f"another client is deleting its copy in cluster {sent.cluster}{leaving(copied)}")
        if (status := content.status_to_write(sent.sendable, job, copied)) is not None:
            await self._manager.write_status(key, job, status)
        elif sent.sendable.is_suspended(copied) and not sent.sendable.is_over(copied):
            self._returns.return_if_stopped(job, copied, sent)

    async def _echo(self, key: Key, worker: Worker, copied: Object, sent: Sent) -> None:
        """Record the worker's warnings about the copy as Events of the job."""
        pods = worker.caches[PODS].objects.values() if PODS in worker.caches else ()
        suspended = sent.sendable.is_suspended(copied)
        look = CopyLook((sent.uid, sent.start), content.made_s(copied, sent.record), copied, suspended)
        for reason, message in await self._echoes.warnings(look, pods, lambda: self._calls.to(worker, key)):
            self._manager.world.report(sent.members[0], reason, f"cluster {worker.name}: {message}")


def _is_kept(key: Key, worker: Worker, copied: Object, job: Object | None, sent: Sent | None) -> bool:
    """Return True if a worker's copy of a job must be kept: the copy belongs to the job's latest start, or the job and
    the copy have ended."""
    if job is None or content.uid_of(copied) != job["metadata"]["uid"]:
        return False
    if sent is not None:
        return worker.name == sent.cluster and content.is_of_start(copied, sent.uid, sent.start)
    sendable = SENDABLE[key.kind]
    return sendable.is_over(job) and sendable.is_over(copied)
