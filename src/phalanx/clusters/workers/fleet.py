"""The workers of a manager, one for each MultiKueueCluster. The module writes the states of the workers to the
MultiKueueClusters, and reports the nodes of the workers to the core.

A `Worker` is created for each MultiKueueCluster. It is replaced if the MultiKueueCluster names another Secret or file
with the kubeconfig. The state of a worker is written as the condition Active of its MultiKueueCluster. Its *figures*
(capacity and usage) are written as an annotation. Events report the nodes of a worker to the core. When the worker is
removed, further events remove these nodes.

The module also limits the number of concurrent calls to each worker, so that a slow worker does not delay the jobs of
other workers.

If a worker has too many open calls, a further job that must call it waits in the worker's queue of callers. When a call
ends, the first job in this queue is reconciled again. So the call of every job is made in the end, even if many jobs
wait for a slow worker."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import islice
from typing import Any

from phalanx.client.connection import ApiError, ApiRefusal, ApiUnknown, Connection
from phalanx.client.informer import Change, Informer
from phalanx.client.kind import JOBS, Kind
from phalanx.clusters.copies.sendable import Key
from phalanx.clusters.workers.source import Source, SourceError, source_of
from phalanx.clusters.workers.state import FIGURES, ConnectionState, Why, condition
from phalanx.clusters.workers.worker import Worker
from phalanx.dialects.kueue.kinds import MULTI_CLUSTERS
from phalanx.kube.read.labels import FIELD_MANAGER
from phalanx.model.event import Event, NodeGone, NodeSeen
from phalanx.model.node import Node

log = logging.getLogger(__name__)

FIGURES_S = 30.0  # the shortest interval between two writes of a worker's capacity figures
CHANGES_S = 0.5  # changes of workers' pods are handled at most once in this time
SPARE = 20  # at most about 1/SPARE of this process's time is spent on reading the nodes of workers


class Fleet:
    """The workers of one manager. `api`, `informers`: the manager's API and its caches. `wake`: a function that is
    called when there are events. `fence`: see `Connection.fence`. `state_changed`: a function that is called with each
    worker whose state has changed. `job_changed`, `asked`, `kinds`: see `Worker`."""

    def __init__(
        self,
        api: Connection,
        informers: Callable[[Kind], Informer],
        now_s: Callable[[], float],
        fence: Callable[[], float] | None = None,
        state_changed: Callable[[Worker], None] = lambda worker: None,
        job_changed: Callable[[Key], None] = lambda key: None,
        asked: Callable[[], frozenset[str]] = frozenset,
        kinds: Callable[[], Iterable[Kind]] = lambda: (JOBS,),
    ) -> None:
        self.workers: dict[str, Worker] = {}
        self.wake: Callable[[], None] = lambda: None
        self.own_uid = ""  # the uid of the manager's cluster; empty until it is known
        self._api, self._informers, self._now_s, self._fence = api, informers, now_s, fence
        self._state_changed, self._job_changed = state_changed, job_changed
        self._asked, self._kinds = asked, kinds
        self._states: dict[str, ConnectionState | None] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._wrong: dict[str, ConnectionState] = {}  # cluster whose kubeconfig cannot be used -> its state
        self._told: dict[str, dict[str, Node]] = {}  # worker -> its nodes as last reported to the core
        self._written_s: dict[str, float] = {}  # worker -> when its capacity figures were written (event loop's clock)
        self._out: list[Event] = []
        self._stale: dict[str, None] = {}  # the clusters to process in the next call of `_turn`
        self._news = asyncio.Event()

    def events(self) -> Sequence[Event]:
        """Return the events about nodes of workers since the last call."""
        out, self._out = self._out, []
        return out

    async def run(self) -> None:
        """Create, replace and remove workers as the MultiKueueClusters change, and report the workers' nodes, until
        cancelled."""
        cache = self._informers(MULTI_CLUSTERS)
        await cache.synced.wait()
        cache.subscribe(self._on_cluster)
        try:
            while True:
                await self._turn()
        finally:
            for task in self._tasks.values():
                task.cancel()
            await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    # --- internal ---------------------------------------------------------------------------------------------------

    async def _turn(self) -> None:
        """Wait for changes. Then report the nodes of the changed clusters as events, and write the states and figures
        of these clusters."""
        try:
            async with asyncio.timeout(FIGURES_S):
                await self._news.wait()
        except TimeoutError:
            self._stale.update(dict.fromkeys(self.workers))
        self._news.clear()
        stale, self._stale = self._stale, {}
        spent_s = 0.0
        for name in stale:
            began_s = time.perf_counter()
            try:
                self._tell_nodes(name)
            except Exception:  # an invalid object in one worker must not affect other workers
                log.exception("the nodes of cluster %s cannot be read", name)
            spent_s += time.perf_counter() - began_s
            await asyncio.sleep(0)  # let the task that renews the Lease run
            try:
                await self._write(name)
            except ApiError as error:
                log.info("the status of cluster %s was not written: %s", name, error)
                self._later(name)
            except Exception:  # an invalid object in one worker must not affect other workers
                log.exception("the figures of cluster %s cannot be read", name)
        await asyncio.sleep(max(CHANGES_S, SPARE * spent_s))

    def _touch(self, name: str) -> None:
        self._stale[name] = None
        self._news.set()

    def _later(self, name: str) -> None:
        asyncio.get_running_loop().call_later(5.0, self._touch, name)

    def _on_cluster(self, change: Change) -> None:
        """Create, replace or remove the worker of a MultiKueueCluster."""
        obj = change.new or change.old or {}
        name = str(obj["metadata"]["name"])
        source = source_of(obj) if change.new is not None else None
        known = self.workers.get(name)
        if known is not None and known.source == source:
            return
        if known is not None:
            self._tasks.pop(name).cancel()
            del self.workers[name]
        self._wrong.pop(name, None)
        match source:
            case Source():
                worker = self.workers[name] = self.worker(name, source)
                self._tasks[name] = asyncio.ensure_future(worker.run())
            case SourceError():
                self._wrong[name] = ConnectionState(Why.BAD_CONFIG, source.text, source.mend, self._now_s())
            case None:
                self._written_s.pop(name, None)
        self._touch(name)

    def worker(self, name: str, source: Source) -> Worker:
        """Return a new worker."""
        return Worker(
            name,
            source,
            self._api,
            self._now_s,
            self._on_worker,
            self._job_changed,
            self._fence,
            self._asked,
            self._kinds,
            self.same_as,
        )

    def same_as(self, name: str, uid: str) -> str:
        """Return why no job is sent to the cluster with this uid under the name `name`; "" if jobs may be sent. If a
        cluster has several names, jobs are sent under the alphabetically first name, so the choice is the same after
        each restart."""
        if uid and uid == self.own_uid:
            return "it is this cluster itself, so jobs would be sent in a circle"
        twins = (each.name for each in self.workers.values() if uid and each.uid == uid and each.name < name)
        if (twin := min(twins, default="")) and self.workers[twin].active:
            return f"it is the same cluster as {twin}, so its nodes would count twice"
        return ""

    def _on_worker(self, worker: Worker) -> None:
        self._touch(worker.name)
        if self._states.get(worker.name) != worker.state:
            self._states[worker.name] = worker.state
            self._state_changed(worker)

    def _tell_nodes(self, name: str) -> None:
        worker = self.workers.get(name)
        nodes, before = worker.nodes() if worker is not None else {}, self._told.get(name, {})
        news: list[Event] = [NodeSeen(node) for key, node in nodes.items() if before.get(key) != node]
        news += [NodeGone(key) for key in before if key not in nodes]
        self._told[name] = nodes
        if news:
            self._out += news
            self.wake()

    async def _write(self, name: str) -> None:
        """Write the condition Active and the capacity figures to the MultiKueueCluster, if they have changed. Raises
        ApiError."""
        known, worker = self._informers(MULTI_CLUSTERS).objects.get(name), self.workers.get(name)
        state = worker.state if worker is not None else self._wrong.get(name)
        if known is None or state is None:
            return
        try:
            cluster_object = await self._write_condition(known, state)
            if worker is not None and worker.active:
                await self._write_figures(cluster_object, worker)
        except ApiRefusal as error:
            if error.code not in (404, 409):
                raise
            self._later(name)

    async def _write_condition(self, cluster_object: Mapping[str, Any], state: ConnectionState) -> Mapping[str, object]:
        meta, status = cluster_object["metadata"], cluster_object.get("status") or {}
        listed = status.get("conditions") or []
        old: Mapping[str, Any] = next((one for one in listed if one.get("type") == "Active"), {})
        new = condition(state, old, int(meta.get("generation") or 0), self._now_s())
        if new == old:
            return cluster_object
        others = [one for one in listed if one.get("type") != "Active"]
        return await self._patch(cluster_object, {"status": {"conditions": [*others, new]}}, "status")

    async def _write_figures(self, cluster_object: Mapping[str, Any], worker: Worker) -> None:
        now_s = asyncio.get_running_loop().time()
        text = worker.figures().text()
        if (cluster_object["metadata"].get("annotations") or {}).get(FIGURES) == text:
            return
        if now_s - self._written_s.get(worker.name, -FIGURES_S) < FIGURES_S:
            return
        self._written_s[worker.name] = now_s
        await self._patch(cluster_object, {"metadata": {"annotations": {FIGURES: text}}})

    async def _patch(
        self, cluster_object: Mapping[str, Any], body: dict[str, Any], subresource: str = ""
    ) -> Mapping[str, object]:
        meta = cluster_object["metadata"]
        body = {**body, "metadata": {**(body.get("metadata") or {}), "uid": meta["uid"]}}
        after = await self._api.patch(
            MULTI_CLUSTERS, meta["name"], body, subresource=subresource, fieldManager=FIELD_MANAGER
        )
        self._informers(MULTI_CLUSTERS).observe(after)
        return after


AT_ONE = 6  # the maximum number of concurrent calls to one worker
CALL_S = 15.0  # the timeout of a call to a worker


class WorkerBusy(Exception):
    """Raised if there are too many unanswered calls to the worker. The job is then in the worker's queue of callers."""


class WorkerAway(Exception):
    """Raised if there is no connection to the worker now."""


class WorkerCalls:
    """The unanswered calls of one manager to its workers. `look_again`: a function that is called with the next job in
    a queue of callers. `open`: worker -> number of unanswered calls."""

    def __init__(self, look_again: Callable[[Key], None]) -> None:
        self.open = Counter[str]()
        self._look_again = look_again
        self._lines: dict[str, dict[Key, None]] = {}  # worker -> the jobs that wait to call it, in order

    @asynccontextmanager
    async def to(self, worker: Worker, key: Key) -> AsyncIterator[Connection]:
        """Yield the connection to a worker for one call about a job. Raises WorkerBusy; WorkerAway; ApiUnknown if the
        call takes too long."""
        if worker.link is None:
            raise WorkerAway
        line = self._lines.setdefault(worker.name, {})
        if len(line) >= self._free(worker.name) and key not in self._next(worker.name):
            self._join(worker.name, key)
            raise WorkerBusy
        line.pop(key, None)
        self.open[worker.name] += 1
        try:
            async with asyncio.timeout(CALL_S):
                yield worker.link
        except TimeoutError:
            raise ApiUnknown(f"cluster {worker.name} did not answer within {CALL_S:g} s") from None
        finally:
            self.open[worker.name] -= 1
            self._call_up(worker.name)

    def leave(self, key: Key) -> None:
        """Remove the job from all queues of callers."""
        for name, line in self._lines.items():
            if key in line:
                del line[key]
                self._call_up(name)

    def _join(self, name: str, key: Key) -> None:
        """Add the job to the queue of callers of this worker, and remove the job from the queues of callers of all
        other workers."""
        for other, line in self._lines.items():
            if other != name and key in line:
                del line[key]
                self._call_up(other)
        self._lines[name].setdefault(key)

    def _call_up(self, name: str) -> None:
        for key in self._next(name):
            self._look_again(key)

    def _next(self, name: str) -> list[Key]:
        """Return jobs from the front of the worker's queue of callers, as many as may call the worker now."""
        return list(islice(self._lines.get(name, ()), self._free(name)))

    def _free(self, name: str) -> int:
        return max(0, AT_ONE - self.open[name])
