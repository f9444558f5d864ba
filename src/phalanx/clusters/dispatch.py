"""Send jobs to the clusters on whose nodes the core has placed them, follow their copies, and delete copies.

The choice is in the start record of the Job before anything is written here (decision 73). So after a crash between two
writes the objects determine what is left to do: a missing copy is created, a copy of the present start is followed, and
any other copy is deleted. The writes about one Job are made one after the other.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from phalanx.client.connection import ApiError, ApiRefusal, ApiUnknown, Connection
from phalanx.client.informer import Change, Informer, key_of
from phalanx.client.kind import JOBS, NAMESPACES, PODS, Kind
from phalanx.client.moment import write_moment
from phalanx.clusters import defaulting
from phalanx.clusters.choice.choices import Choices
from phalanx.clusters.choice.question import offer_of
from phalanx.clusters.copies import content
from phalanx.clusters.copies.content import Sent, sent_of
from phalanx.clusters.copies.sendable import SENDABLE, Key
from phalanx.clusters.keys import Keys
from phalanx.clusters.workers.echo import CopyLook, Echo
from phalanx.clusters.workers.fleet import Fleet, WorkerAway, WorkerBusy, WorkerCalls
from phalanx.clusters.workers.worker import Worker
from phalanx.dialects.kueue.kinds import MULTI_CLUSTERS
from phalanx.dialects.kueue.tree.configuration import CONFIGURATIONS, MultiKueue, configuration
from phalanx.kube.gang.effects import Member
from phalanx.kube.gang.lifecycle.gang import GangLifecycle
from phalanx.kube.gang.spec.elsewhere import Choose
from phalanx.kube.read.labels import FIELD_MANAGER, REASON
from phalanx.kube.read.workload.batch_job import BatchJob
from phalanx.model.event import Event
from phalanx.model.reason import Reason, ReasonCode

log = logging.getLogger(__name__)

AT_ONCE = 32  # the most jobs that are reconciled concurrently
RETRY_S = 2.0  # the pause before the next attempt after an unknown outcome, or while a copy is being deleted
AVOID_S = 600.0  # a cluster that could not run a job does not get it for this time, if other clusters are ready
START_S = 300.0  # a copy that has not started so long after it was made is tried in other clusters, if any is ready
PATIENCE_S = 120.0  # a job that waits so long for a cluster to take its copy, or to delete one, returns to the queue
_OWN = "kube-system"  # the namespace whose uid names the manager

Object = dict[str, Any]


class _NotYet(Exception):
    """The job can be neither sent nor followed now, and is tried again soon. The text has the reason. `cluster`: the
    cluster that causes this; empty if it is the cluster of the present start."""

    def __init__(self, text: str = "", cluster: str = "") -> None:
        super().__init__(text)
        self.cluster = cluster


class Dispatcher:
    """Implements `kube.world.OtherClusters` for one manager. `api`, `informers`: the manager's API and its caches.
    `fence`: see `Connection.fence`."""

    def __init__(
        self,
        api: Connection,
        informers: Callable[[Kind], Informer],
        now_s: Callable[[], float],
        fence: Callable[[], float] | None = None,
    ) -> None:
        self.wake: Callable[[], None] = lambda: None
        self.give_back: Callable[[str, int, Reason, Mapping[str, float]], None] = lambda *about: None
        self.report: Callable[[Member, str, str], None] = lambda *about: None
        self.kinds: Callable[[], Iterable[Kind]] = lambda: (JOBS,)
        self.mark: Callable[[str], None] = lambda gang: None
        self.keys = Keys()
        self.fleet = Fleet(api, informers, now_s, fence, self._on_worker, self.keys.put, self._asked, self._sent_kinds)
        self._api, self._informers, self._now_s = api, informers, now_s
        self.choices = Choices(self.fleet.workers, self._clusters, now_s, self._choose_again)
        self.choose: Choose = self.choices.choose
        self.calls, self.echo = WorkerCalls(self.keys.put), Echo(now_s)
        self._manager = ""
        self._waits_s: dict[Key, float] = {}  # job -> when it began to wait for a cluster (seconds since the epoch)
        self._sent: dict[Key, Sent] = {}  # the jobs of other clusters, with their present starts
        self._of_gang: dict[str, frozenset[Key]] = {}  # gang -> its jobs that are meant for other clusters
        self._followed: set[Kind] = set()  # the kinds whose changes on the manager are subscribed to

    # --- the world's side -------------------------------------------------------------------------------------------

    def events(self) -> Sequence[Event]:
        """Return the events about nodes since the last call."""
        return self.fleet.events()

    def saw(self, gang: GangLifecycle) -> None:
        """Note the present start of a gang, and reconcile its jobs whose start changed."""
        if not gang.waits or gang.done:
            self.choices.forget(gang.id)
        now = {} if (record := gang.elsewhere) is None else dict(sent_of(gang, record))
        before = self._of_gang.pop(gang.id, frozenset())
        if now:
            self._of_gang[gang.id] = frozenset(now)
        for key in before - now.keys():
            self._sent.pop(key, None)
            self.keys.put(key)
        for key, sent in now.items():
            known = self._sent.get(key)
            self._sent[key] = sent
            if not sent.same(known):
                self.keys.put(key)

    async def run(self) -> None:
        """Send jobs and follow them, until cancelled."""
        await self.begin()
        async with asyncio.TaskGroup() as group:
            group.create_task(self.fleet.run())
            group.create_task(self._look_again())
            group.create_task(self._keep_list())
            group.create_task(self.choices.run())
            for _ in range(AT_ONCE):
                group.create_task(self.work())

    async def begin(self) -> None:
        """Wait until the manager's Jobs and the uid of its cluster are known."""
        self.fleet.wake = self.wake
        spaces = self._informers(NAMESPACES)
        await asyncio.gather(
            spaces.synced.wait(), *(self._informers(kind).synced.wait() for kind in self._sent_kinds())
        )
        there = asyncio.Event()  # the API server creates this namespace when it starts
        spaces.subscribe(lambda _: there.set() if _OWN in spaces.objects else None)
        await there.wait()
        self._manager = self.fleet.own_uid = str(spaces.objects[_OWN]["metadata"]["uid"])
        self._follow_kinds()
        self._informers(MULTI_CLUSTERS).subscribe(self._on_cluster)

    def _sent_kinds(self) -> list[Kind]:
        """Return the kinds of this cluster that can be sent."""
        return [*(kind for kind in self.kinds() if kind in SENDABLE), PODS]

    def _follow_kinds(self) -> None:
        for kind in self._sent_kinds():
            if kind not in self._followed:
                self._followed.add(kind)
                self._informers(kind).subscribe(self._on_job)

    # --- what changes -----------------------------------------------------------------------------------------------

    def _on_job(self, change: Change) -> None:
        key = Key(change.kind, key_of(change.new or change.old or {}))
        if key in self._sent or any(worker.job(key) is not None for worker in self.fleet.workers.values()):
            self.keys.put(key)

    def _clusters(self) -> Mapping[str, Object]:
        return self._informers(MULTI_CLUSTERS).objects

    def _choose_again(self, gang: str) -> None:
        self.mark(gang)

    def _on_cluster(self, change: Change) -> None:
        """Choose again if what a cluster offers has changed."""
        before, after = (None if one is None else offer_of(one) for one in (change.old, change.new))
        if before != after:
            self.choices.renew()

    def _on_worker(self, worker: Worker) -> None:
        """Reconcile all jobs of a worker whose state has changed."""
        for key in (*dict(worker.jobs()), *(key for key, sent in self._sent.items() if sent.cluster == worker.name)):
            self.keys.put(key)

    def _asked(self) -> frozenset[str]:
        """Return the resources that jobs for other clusters request."""
        members = [one for sent in self._sent.values() for one in sent.members]
        found = (
            one.requirements.shape.requests if isinstance(one, BatchJob) else one.shape.requests for one in members
        )
        return frozenset(resource for requests in found for resource, _ in requests)

    def settings(self) -> MultiKueue:
        """Return the present settings."""
        return configuration(self._informers(CONFIGURATIONS).objects).multi

    async def _look_again(self) -> None:
        """Reconcile all jobs at intervals, to find copies without a Job, lost clusters, and copies that do not
        start."""
        while True:
            await asyncio.sleep(min(self.settings().gc_s or 60.0, 60.0))
            self.look_again()

    async def _keep_list(self) -> None:
        """Keep the list of LocalQueues that send their jobs away."""
        changed = asyncio.Event()
        for kind in defaulting.OF:
            self._informers(kind).subscribe(lambda _: changed.set())
        while True:
            await changed.wait()
            changed.clear()
            try:
                await defaulting.keep_list(self._api, self._informers)
            except ApiError as error:
                log.warning("jobs of queues that send them away are not marked when they are created: %s", error)
                await asyncio.sleep(RETRY_S)
                changed.set()

    def look_again(self) -> None:
        """Reconcile every job that was sent, and every copy."""
        self._follow_kinds()
        for key in {*self._sent, *(key for worker in self.fleet.workers.values() for key, _ in worker.jobs())}:
            self.keys.put(key)

    # --- one Job ----------------------------------------------------------------------------------------------------

    async def work(self) -> None:
        """Reconcile one job after the other, until cancelled."""
        while True:
            key, waits = await self.keys.take(), False
            try:
                await self._reconcile(key)
                self._waits_s.pop(key, None)
            except WorkerBusy:
                waits = True
            except _NotYet as wait:
                self._endure(key, str(wait), wait.cluster)
                self.keys.later(key, RETRY_S)
            except WorkerAway:
                self._endure(key, "")
                self.keys.later(key, RETRY_S)
            except ApiError as error:
                log.info("%s is looked at again: %s", key, error)
                self._endure(key, str(error))
                self.keys.later(key, RETRY_S)
            except Exception:  # if one Job triggers a defect, the others are still reconciled
                log.exception("%s could not be sent or followed", key)
                self.keys.later(key, 10 * RETRY_S)
            finally:
                self.keys.done(key)
                if not waits:
                    self.calls.leave(key)

    async def _reconcile(self, key: Key) -> None:
        job, sendable = self._known(key), SENDABLE[key.kind]
        sent = self._sent.get(key)
        if sent is not None and (job is None or job["metadata"]["uid"] != sent.uid):
            sent = None
        in_the_way = await self._remove_others(key, job, sent)
        if job is not None and not sendable.is_over(job):
            if sent is not None:
                await self._send(key, job, sent)
            elif (status := content.status_to_clear(sendable, job)) is not None and content.sent_to(job):
                await self._write_status(key, job, status)
        if in_the_way is not None:
            raise in_the_way

    async def _remove_others(self, key: Key, job: Object | None, sent: Sent | None) -> _NotYet | WorkerBusy | None:
        """Delete the copies that do not belong to the present start. If one of them cannot be deleted now, return the
        exception instead of raising it, so that the present copy is still followed."""
        in_the_way: _NotYet | WorkerBusy | None = None
        for worker in list(self.fleet.workers.values()):
            copied = worker.job(key)
            if (
                copied is not None
                and content.is_of(copied, self._manager)
                and not _is_kept(key, worker, copied, job, sent)
            ):
                try:
                    await self._remove(key, worker, copied)
                except (_NotYet, WorkerBusy) as error:
                    in_the_way = in_the_way or error
        return in_the_way

    def _known(self, key: Key) -> Object | None:
        """Return the newest known state of the job on the manager; None if it does not exist."""
        return self._informers(key.kind).objects.get(key.name) if key.kind in self._followed else None

    async def _send(self, key: Key, job: Object, sent: Sent) -> None:
        """Create the copy of the job, or follow it if it exists."""
        worker = self.fleet.workers.get(sent.cluster)
        if worker is None or not worker.active:
            self._give_back_if_lost(sent, worker)
            return
        copied = worker.job(key)
        if copied is None:
            await self._create(key, job, sent, worker)
        elif not content.is_of(copied, self._manager):
            self._refuse(sent, f"it has a {key.kind.name} of that name that this cluster did not send: {key.name}")
        elif self._is_present(copied, sent):
            await self._follow(key, job, copied, sent)
            await self._echo(key, worker, copied, sent)
        else:
            raise _NotYet(f"cluster {worker.name} still has an earlier copy of it{_leaving(copied)}")

    async def _follow(self, key: Key, job: Object, copied: Object, sent: Sent) -> None:
        if "deletionTimestamp" in copied["metadata"] and not sent.sendable.is_over(copied):
            raise _NotYet(f"somebody deletes its copy in cluster {sent.cluster}{_leaving(copied)}")
        if (status := content.status_to_write(sent.sendable, job, copied)) is not None:
            await self._write_status(key, job, status)
        elif sent.sendable.is_suspended(copied) and not sent.sendable.is_over(copied):
            self._give_back_if_stopped(job, copied, sent)

    async def _echo(self, key: Key, worker: Worker, copied: Object, sent: Sent) -> None:
        """Report the worker's warnings about the copy."""
        pods = worker.caches[PODS].objects.values() if PODS in worker.caches else ()
        suspended = sent.sendable.is_suspended(copied)
        look = CopyLook((sent.uid, sent.start), content.made_s(copied, sent.record), copied, suspended)
        for reason, message in await self.echo.warnings(look, pods, lambda: self.calls.to(worker, key)):
            self.report(sent.members[0], reason, f"cluster {worker.name}: {message}")

    async def _write_status(self, key: Key, job: Object, status: Object) -> None:
        meta = job["metadata"]
        head = {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]}
        body = {"metadata": head, "status": status}
        after = await self._api.patch(
            key.kind, meta["name"], body, meta["namespace"], subresource="status", fieldManager=FIELD_MANAGER
        )
        self._informers(key.kind).observe(after)

    # --- copies -----------------------------------------------------------------------------------------------------

    async def _create(self, key: Key, job: Object, sent: Sent, worker: Worker) -> None:
        for name in content.sent_to(job):
            if name != sent.cluster:
                await self._require_clear(key, name, sent)
        if not sent.same(self._sent.get(key)) or worker.link is None:
            return  # the job or the connection has changed since
        kind, (space, _, name) = key.kind, key.name.partition("/")
        if kind not in worker.sent:
            self._refuse(sent, f"it does not define {kind.plural} of {kind.api_version}, or does not show them")
            return
        if kind is PODS:  # the cache does not have all fields of pods
            job = await self._api.get(kind, name, space)
        body = content.body(
            sent.sendable,
            job,
            sent.roles,
            sent.record,
            self._manager,
            self.settings().origin,
            made_s=self._now_s(),
            renamed="Phalanx" not in worker.scheduler,
        )
        try:
            async with self.calls.to(worker, key) as link:
                made = await link.create(kind, body, space)
        except ApiUnknown as error:
            raise _NotYet(f"cluster {worker.name} does not say whether it takes it: {error}") from error
        except ApiRefusal as error:
            if error.code == 429:
                raise _NotYet(f"cluster {worker.name} is too busy to take it: {error.message}") from error
            if error.reason != "AlreadyExists":
                self._refuse(sent, f"it refuses the job: {error.message}")
                return
            async with self.calls.to(worker, key) as link:
                made = await link.get(kind, name, space)
            if not content.is_of(made, self._manager):
                self._refuse(sent, f"it has a {kind.name} of that name that this cluster did not send: {key.name}")
                return
            if not content.is_of_start(made, sent.uid, sent.start):
                await self._remove(key, worker, made)
                raise _NotYet(f"cluster {worker.name} still has an earlier copy of it{_leaving(made)}") from None
        worker.sent[kind].observe(made)
        self.keys.put(key)

    async def _require_clear(self, key: Key, name: str, sent: Sent) -> None:
        """Make sure that a cluster has no copy of the job. Raises _NotYet while the cluster has a copy, or while the
        cluster does not answer and is not lost yet."""
        worker = self.fleet.workers.get(name)
        if worker is None or not worker.active or worker.link is None:
            if worker is not None and not self._is_lost(worker):
                raise _NotYet(f"cluster {name}, which may still have a copy of it, does not answer", name)
            self.report(
                sent.members[0],
                "MayRunTwice",
                f"cluster {name} does not answer, so a copy of this job that it may still run could not be stopped: "
                f"until {name} is back, the job may run there and in {sent.cluster}",
            )
            return
        space, _, of = key.name.partition("/")
        try:
            async with self.calls.to(worker, key) as link:
                copied = await link.get(key.kind, of, space)
        except ApiRefusal as error:
            if error.code == 403:
                why = f"cluster {name} may have a copy of it, and refuses to show it: {error.message}"
                self._back(sent, why, name)
                raise _NotYet from error
            if error.code != 404:
                raise _NotYet(str(error), name) from error
            return
        except (ApiUnknown, WorkerAway) as error:
            raise _NotYet(f"cluster {name}, which may still have a copy of it, does not answer", name) from error
        if content.is_of(copied, self._manager):
            await self._remove(key, worker, copied)
            raise _NotYet(f"cluster {name} still has an earlier copy of it{_leaving(copied)}", name)

    async def _remove(self, key: Key, worker: Worker, copied: Object) -> None:
        """Delete the pods of a copy, then the copy. If the job is not in the cache, the manager's API must confirm that
        it does not exist. Raises _NotYet, WorkerBusy."""
        meta = copied["metadata"]
        if "deletionTimestamp" in meta or not worker.active or worker.link is None:
            return
        if self._known(key) is None:
            try:
                job = await self._api.get(key.kind, meta["name"], meta["namespace"])
            except ApiRefusal as error:
                if error.code != 404:
                    raise _NotYet from error
            except ApiUnknown as error:
                raise _NotYet from error
            else:
                if job["metadata"]["uid"] == content.uid_of(copied):
                    raise _NotYet  # the job exists, but is not in the cache yet
        options = {"propagationPolicy": "Foreground", "preconditions": {"uid": meta["uid"]}}
        try:
            async with self.calls.to(worker, key) as link:
                await link.delete(key.kind, meta["name"], meta["namespace"], options)
        except (ApiError, WorkerAway) as error:
            if not isinstance(error, ApiRefusal) or error.code not in (404, 409):
                why = f"cluster {worker.name} does not delete an earlier copy of this job: {error}"
                raise _NotYet(why, worker.name) from error

    # --- waiting, and going back ------------------------------------------------------------------------------------

    def _endure(self, key: Key, why: str, cluster: str = "") -> None:
        """Note that a job could be neither sent nor followed now. After `PATIENCE_S` the job returns to the queue, with
        the reason `why`. If the copy for the present start still exists in its cluster, the job does not return, and
        gets an Event with `why`. `cluster`: see `_NotYet`."""
        sent, now_s = self._sent.get(key), self._now_s()
        if now_s - self._waits_s.setdefault(key, now_s) < PATIENCE_S or sent is None or not why:
            return
        del self._waits_s[key]
        worker = self.fleet.workers.get(sent.cluster)
        copied = worker.job(key) if worker is not None else None
        if copied is None or "deletionTimestamp" in copied["metadata"] or not self._is_present(copied, sent):
            self._back(sent, why, cluster)
        elif cluster not in ("", sent.cluster):
            self.report(sent.members[0], "MayRunTwice", f"{why}; until it is gone, the job may run there, too")
        else:
            self.report(sent.members[0], "NotFollowed", f"the state in cluster {sent.cluster} is not shown here: {why}")

    def _is_present(self, copied: Object, sent: Sent) -> bool:
        return content.is_of(copied, self._manager) and content.is_of_start(copied, sent.uid, sent.start)

    def _is_lost(self, worker: Worker) -> bool:
        state = worker.state
        return state is not None and not state.active and self._now_s() - state.since_s >= self.settings().lost_s

    def _give_back_if_lost(self, sent: Sent, worker: Worker | None) -> None:
        if worker is not None and not self._is_lost(worker):
            return
        since = "" if worker is None or worker.state is None else f" since {write_moment(worker.state.since_s)}"
        why = f"cluster {sent.cluster} cannot be reached{since}" if worker else f"cluster {sent.cluster} was removed"
        self._back(sent, f"{why}; the job may still run there, and is sent to another cluster")

    def _give_back_if_stopped(self, job: Object, copied: Object, sent: Sent) -> None:
        """Return the job to the queue if the cluster has evicted it. If another cluster is ready, do so too when the
        cluster has not started the job within `START_S`."""
        said = (copied["metadata"].get("annotations") or {}).get(REASON)
        why = f": {said}" if said else ""
        if sent.sendable.runs(job.get("status") or {}):
            self._back(sent, f"it was evicted on worker cluster {sent.cluster}{why}")
            return
        if not self._others(sent.cluster) or self._now_s() - content.made_s(copied, sent.record) < START_S:
            return
        self._back(sent, f"cluster {sent.cluster} has not started it within {START_S / 60:g} minutes{why}")

    def _refuse(self, sent: Sent, why: str) -> None:
        self._back(sent, f"cluster {sent.cluster} cannot run it: {why}")

    def _back(self, sent: Sent, text: str, cluster: str = "") -> None:
        """Return the job to the queue. If others are ready, the job does not get `cluster` again for `AVOID_S` (empty:
        the cluster of its present start)."""
        why, cluster = Reason(code=ReasonCode.BACKOFF, text=text), cluster or sent.cluster
        self.give_back(sent.gang, sent.record.attempt, why, {cluster: AVOID_S} if self._others(cluster) else {})

    def _others(self, cluster: str) -> list[Worker]:
        """Return the ready clusters except this one."""
        return [each for each in self.fleet.workers.values() if each.active and each.name != cluster]


def _leaving(copied: Object) -> str:
    """Return a part of a sentence: since when the copy is being deleted, and its finalizers; empty if it is not being
    deleted."""
    meta = copied["metadata"]
    since = f", which is being deleted since {meta['deletionTimestamp']}" if "deletionTimestamp" in meta else ""
    held = ", ".join(map(str, meta.get("finalizers") or ()))
    return since + (f" and has the finalizers {held}" if since and held else "")


def _is_kept(key: Key, worker: Worker, copied: Object, job: Object | None, sent: Sent | None) -> bool:
    """Return whether a copy is kept: it belongs to the present start, or to a job that has ended."""
    if job is None or content.uid_of(copied) != job["metadata"]["uid"]:
        return False
    if sent is not None:
        return worker.name == sent.cluster and content.is_of_start(copied, sent.uid, sent.start)
    sendable = SENDABLE[key.kind]
    return sendable.is_over(job) and sendable.is_over(copied)
