"""Create and delete the copies of jobs in other clusters. A job has two copies only while the cluster of the older copy
does not answer, because the older copy cannot be deleted then."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from phalanx.client.connection import ApiError, ApiRefusal, ApiUnknown
from phalanx.client.kind import PODS
from phalanx.clusters.copies import content
from phalanx.clusters.copies.content import Sent
from phalanx.clusters.copies.sendable import Key
from phalanx.clusters.sending.job_returns import JobReturns, NotYet
from phalanx.clusters.sending.keys import Keys
from phalanx.clusters.sending.sending_cluster import SendingCluster
from phalanx.clusters.sending.sent_jobs import SentJobs
from phalanx.clusters.workers.fleet import WorkerAway, WorkerCalls
from phalanx.clusters.workers.worker import Worker

Object = dict[str, Any]


class CopyWrites:
    """Creates and deletes copies. `sent`: the jobs and their latest starts. `keys`: the queue to which a job is added
    after its copy was created."""

    def __init__(
        self,
        manager: SendingCluster,
        workers: Mapping[str, Worker],
        calls: WorkerCalls,
        returns: JobReturns,
        sent: SentJobs,
        keys: Keys,
        now_s: Callable[[], float],
    ) -> None:
        self._manager, self._workers, self._calls, self._returns = manager, workers, calls, returns
        self._sent, self._keys, self._now_s = sent, keys, now_s

    async def create(self, key: Key, job: Object, sent: Sent, worker: Worker) -> None:
        for name in content.sent_to(job):
            if name != sent.cluster:
                await self._require_clear(key, name, sent)
        if not sent.same(self._sent.get(key)) or worker.link is None:
            return  # the job or the connection has changed during the checks above
        kind, (space, _, name) = key.kind, key.name.partition("/")
        if kind not in worker.sent:
            why = f"it does not define {kind.plural} of {kind.api_version}, or does not allow them to be listed"
            self._returns.refuse(sent, why)
            return
        if kind is PODS:  # the cache keeps only some fields of pods
            job = await self._manager.api.get(kind, name, space)
        body = content.body(
            sent.sendable,
            job,
            sent.roles,
            sent.record,
            self._manager.uid,
            self._manager.settings().origin,
            made_s=self._now_s(),
            renamed="Phalanx" not in worker.scheduler,
        )
        try:
            async with self._calls.to(worker, key) as link:
                made = await link.create(kind, body, space)
        except ApiUnknown as error:
            raise NotYet(f"cluster {worker.name} did not answer whether it accepts the job: {error}") from error
        except ApiRefusal as error:
            if error.code == 429:
                raise NotYet(f"cluster {worker.name} is too busy to accept the job: {error.message}") from error
            if error.reason != "AlreadyExists":
                self._returns.refuse(sent, f"it refuses the job: {error.message}")
                return
            async with self._calls.to(worker, key) as link:
                made = await link.get(kind, name, space)
            if not self._manager.has_made(made):
                self._returns.refuse_foreign(sent, key)
                return
            if not content.is_of_start(made, sent.uid, sent.start):
                await self.remove(key, worker, made)
                raise NotYet(f"cluster {worker.name} still has an earlier copy of it{leaving(made)}") from None
        worker.sent[kind].observe(made)
        self._keys.put(key)

    async def _require_clear(self, key: Key, name: str, sent: Sent) -> None:
        """Check that the cluster `name` has no copy of the job. Raises NotYet while the cluster has a copy, or while
        the cluster does not answer and is not lost yet."""
        worker = self._workers.get(name)
        if worker is None or not worker.active or worker.link is None:
            if worker is not None and not self._returns.is_lost(worker):
                raise NotYet(f"cluster {name}, which may still have a copy of it, does not answer", name)
            self._manager.world.report(
                sent.members[0],
                "MayRunTwice",
                f"cluster {name} does not answer, so a copy of this job that it may still run could not be stopped: "
                f"until {name} is back, the job may run there and in {sent.cluster}",
            )
            return
        space, _, of = key.name.partition("/")
        try:
            async with self._calls.to(worker, key) as link:
                copied = await link.get(key.kind, of, space)
        except ApiRefusal as error:
            if error.code == 403:
                why = f"cluster {name} may have a copy of it, and refuses to show it: {error.message}"
                self._returns.back(sent, why, name)
                raise NotYet from error
            if error.code != 404:
                raise NotYet(str(error), name) from error
            return
        except (ApiUnknown, WorkerAway) as error:
            raise NotYet(f"cluster {name}, which may still have a copy of it, does not answer", name) from error
        if self._manager.has_made(copied):
            await self.remove(key, worker, copied)
            raise NotYet(f"cluster {name} still has an earlier copy of it{leaving(copied)}", name)

    async def remove(self, key: Key, worker: Worker, copied: Object) -> None:
        """Delete the pods of a copy, then the copy. If the job is not in the cache, the manager's API must first
        confirm that the job does not exist. Raises NotYet, WorkerBusy."""
        meta = copied["metadata"]
        if "deletionTimestamp" in meta or not worker.active or worker.link is None:
            return
        if self._manager.job(key) is None:
            try:
                job = await self._manager.api.get(key.kind, meta["name"], meta["namespace"])
            except ApiRefusal as error:
                if error.code != 404:
                    raise NotYet from error
            except ApiUnknown as error:
                raise NotYet from error
            else:
                if job["metadata"]["uid"] == content.uid_of(copied):
                    raise NotYet  # the job exists, but is not in the cache yet
        options = {"propagationPolicy": "Foreground", "preconditions": {"uid": meta["uid"]}}
        try:
            async with self._calls.to(worker, key) as link:
                await link.delete(key.kind, meta["name"], meta["namespace"], options)
        except (ApiError, WorkerAway) as error:
            if not isinstance(error, ApiRefusal) or error.code not in (404, 409):
                why = f"cluster {worker.name} does not delete an earlier copy of this job: {error}"
                raise NotYet(why, worker.name) from error


def leaving(copied: Object) -> str:
    """Return a part of a sentence that states since when the copy is being deleted, and which finalizers it has. Return
    "" if the copy is not being deleted."""
    meta = copied["metadata"]
    since = f", which is being deleted since {meta['deletionTimestamp']}" if "deletionTimestamp" in meta else ""
    held = ", ".join(map(str, meta.get("finalizers") or ()))
    return since + (f" and has the finalizers {held}" if since and held else "")
