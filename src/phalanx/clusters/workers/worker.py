"""One worker: its connection, the caches of its nodes, pods and of the jobs that were sent to it, and its state.

The program connects again whenever the connection fails or the kubeconfig changes. If a worker does not answer a call,
it is called again at once. After the second failure the worker counts as unreachable. The caches of an unreachable
worker are kept.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from phalanx.client.access.kubeconfig import KubeconfigCluster, KubeconfigUser
from phalanx.client.connection import ApiError, ApiRefusal, Connection
from phalanx.client.informer import Change, Informer, key_of
from phalanx.client.kind import JOBS, NAMESPACES, NODES, PODS, Kind
from phalanx.clusters.copies.content import uid_of
from phalanx.clusters.copies.sendable import Key, is_over
from phalanx.clusters.workers.mirror import mirrored, takes_pods, unbounded, used_by_node
from phalanx.clusters.workers.source import Source, SourceError, credentials
from phalanx.clusters.workers.state import ConnectionState, Why, WorkerCapacity
from phalanx.errors import PhalanxError
from phalanx.kube.read.labels import ORIGIN
from phalanx.kube.read.node import read_node
from phalanx.kube.read.wire import WIRE_TYPES
from phalanx.model.node import Node

log = logging.getLogger(__name__)

LOOK_S = 10.0  # the interval between calls that show whether a worker answers
CALL_S = 10.0  # the timeout of a call that checks whether a worker answers
SOURCE_S = 60.0  # the interval between reads of the kubeconfig
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 30.0
OLDEST = (1, 29)  # the oldest tested version of Kubernetes; in older versions, Jobs have no field managedBy
_HIDDEN = "its nodes and pods cannot be listed: only quotas limit how many jobs are sent"
_STRANGE = "Check that its address is that of a Kubernetes API server, and read this scheduler's log."
_QUEUES = {"kueue.x-k8s.io": ("Kueue", ("v1beta1", "v1beta2")), "phalanx.dev": ("Phalanx", ())}


class _NewSource(Exception):
    """Raised to connect again, because the kubeconfig of the worker has changed, or the worker defines further
    kinds."""


class Worker:
    """A worker. `name`: the name of its MultiKueueCluster.

    `api`: the API of the manager. `changed`: a function that is called with this worker when its state or its capacity
    may have changed. `job_changed`: a function that is called with each received job that has changed. `fence`: see
    `Connection.fence`. `asked`: a function that returns the resources that jobs request; it is used if the worker does
    not allow its nodes to be listed. `kinds`: a function that returns the manager's kinds of jobs. `same_as`: see
    `Fleet.same_as`."""

    def __init__(
        self,
        name: str,
        source: Source,
        api: Connection,
        now_s: Callable[[], float],
        changed: Callable[[Worker], None],
        job_changed: Callable[[Key], None] = lambda key: None,
        fence: Callable[[], float] | None = None,
        asked: Callable[[], frozenset[str]] = frozenset,
        kinds: Callable[[], Iterable[Kind]] = lambda: (JOBS,),
        same_as: Callable[[str, str], str] = lambda name, uid: "",
    ) -> None:
        self.name, self.source = name, source
        self.state: ConnectionState | None = None  # None until the first attempt to connect has ended
        self.link: Connection | None = None
        self.version = self.scheduler = self.uid = ""
        self._same_as = same_as
        self.caches: dict[Kind, Informer] = {}  # caches of nodes and pods, if the worker allows them to be listed
        self.sent: dict[Kind, Informer] = {}  # caches of copies
        self._kinds = kinds
        self._api, self._now_s, self._fence, self._asked = api, now_s, fence, asked
        self._changed, self._job_changed = changed, job_changed
        self.look_s = LOOK_S

    @property
    def active(self) -> bool:
        return self.state is not None and self.state.active

    def job(self, key: Key) -> dict[str, Any] | None:
        """Return the newest known state of the worker's copy of a job; None if there is no copy."""
        cache = self.sent.get(key.kind)
        return cache.objects.get(key.name) if cache is not None else None

    def jobs(self) -> Iterator[tuple[Key, dict[str, Any]]]:
        """Yield (key of a job, newest known state of the worker's copy of this job) for each job that was sent to the
        worker."""
        for kind, cache in self.sent.items():
            for name, obj in cache.objects.items():
                yield Key(kind, name), obj

    @property
    def lacks(self) -> tuple[str, ...]:
        """Return the kinds of jobs that the manager has, but that the worker does not define or does not allow the
        manager to list."""
        return tuple(sorted(_named(kind) for kind in self._kinds() if kind not in self.sent)) if self.sent else ()

    async def run(self) -> None:
        """Connect and stay connected, until cancelled."""
        pause_s = FIRST_PAUSE_S
        while True:
            try:
                await self._once()
            except _NewSource:
                pause_s = FIRST_PAUSE_S
                continue
            except SourceError as error:
                self._become(Why.BAD_CONFIG, error.text, error.mend)
            except (PhalanxError, OSError, TimeoutError) as error:
                self._become(Why.FAILED, *_explained(error, self.source))
            except Exception as error:  # an unexpected answer must not end this task, and must not affect other workers
                log.exception("cluster %s", self.name)
                self._become(Why.FAILED, f"its answers cannot be read: {type(error).__name__}: {error}", _STRANGE)
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    async def _once(self) -> None:
        """Connect, and watch until the worker refuses a call or its kubeconfig changes."""
        cluster, user = await credentials(self._api, self.source)
        async with await Connection.of(cluster, user) as connection:
            if self._fence is not None:
                connection.fence(self._fence)
            async with asyncio.timeout(3 * CALL_S):
                await self._look_around(connection)
                shown = await _shown(connection, (NODES, PODS))
                served = await _shown(connection, self._kinds())
            caches = {kind: Informer(connection, kind, lean=WIRE_TYPES[kind]) for kind in shown if len(shown) == 2}
            sent = {kind: Informer(connection, kind, labelSelector=ORIGIN) for kind in served}
            watching = [asyncio.ensure_future(cache.run()) for cache in (*caches.values(), *sent.values())]
            try:
                async with asyncio.timeout(6 * CALL_S):
                    await asyncio.gather(*(cache.synced.wait() for cache in (*caches.values(), *sent.values())))
                self.caches, self.sent, self.link = caches, sent, connection
                self._become(Why.ACTIVE, self._lack())
                self._follow()
                await self._stay(connection, (cluster, user), watching)
            finally:
                self.link = None
                for task in watching:
                    task.cancel()
                await asyncio.gather(*watching, return_exceptions=True)

    async def _look_around(self, connection: Connection) -> None:
        """Read the worker's versions. Raises PhalanxError if jobs cannot be sent to the worker."""
        said = await connection.request("GET", "/version")
        self.version = str(said.get("gitVersion") or "") if isinstance(said, Mapping) else ""
        _require_version(self.version)
        groups = (await connection.request("GET", "/apis")).get("groups") or ()
        self.scheduler = _schedulers(groups)
        self.uid = await _uid(connection)
        self._require_other()
        await connection.request("GET", JOBS.path(), params={"limit": "1"})

    async def _stay(
        self,
        connection: Connection,
        first: tuple[KubeconfigCluster, KubeconfigUser],
        watching: Iterable[asyncio.Future[None]],
    ) -> None:
        """Call the worker every `LOOK_S`, until it refuses a call, its kubeconfig changes, or one of its caches fails.
        Raises PhalanxError, or the exception of the cache."""
        failures, clock = 0, asyncio.get_running_loop().time
        read_s = clock()
        while True:
            await asyncio.sleep(self.look_s if not failures else min(1.0, self.look_s))
            for ended in (task for task in watching if task.done()):
                await ended  # raise the exception of a failed cache: without the cache, ends of jobs go unnoticed
            try:
                async with asyncio.timeout(CALL_S):
                    await connection.request("GET", "/version")
                failures = 0
                self._require_other()
                self._become(Why.ACTIVE, self._lack())
            except ApiRefusal:
                raise
            except (ApiError, TimeoutError) as error:
                failures += 1
                if failures > 1:
                    self._become(Why.FAILED, *_explained(error, self.source))
            if clock() - read_s >= SOURCE_S or failures > 1:
                read_s = clock()
                with suppress(ApiError):  # if the manager's API does not answer, try again later
                    if await credentials(self._api, self.source) != first:
                        raise _NewSource
                if not failures and await _shown(connection, set(self._kinds()) - self.sent.keys()):
                    raise _NewSource  # the worker now defines further kinds

    def _require_other(self) -> None:
        """Check that the worker is not the manager's own cluster, and that jobs are not sent to the same cluster under
        another name. Raises PhalanxError."""
        if text := self._same_as(self.name, self.uid):
            raise _Unfit(text, "Write the kubeconfig of another cluster, or delete this MultiKueueCluster.")

    def _follow(self) -> None:
        for cache in self.sent.values():
            cache.subscribe(self._on_job)
        for cache in self.caches.values():
            cache.subscribe(lambda _: self._changed(self))

    def _on_job(self, change: Change) -> None:
        self._job_changed(Key(change.kind, key_of(change.new or change.old or {})))

    def _lack(self) -> str:
        """Return a part of a sentence that names the kinds of jobs that are not sent to the worker; empty if there are
        none."""
        text = "it does not define these kinds of jobs, or does not allow them to be listed, so none are sent to it"
        return f"{text}: {', '.join(self.lacks)}" if self.lacks else ""

    def _become(self, why: Why, text: str = "", mend: str = "") -> None:
        state = ConnectionState(why, text, mend, self._now_s())
        if state.same(self.state):
            return
        if self.state is not None and not state.active and not self.state.active:
            state = state._replace(since_s=self.state.since_s)  # still not connected, only the reason has changed
        self.state = state
        log.warning("cluster %s: %s", self.name, state.message)
        self._changed(self)

    # --- the nodes and figures of the worker ------------------------------------------------------------------------

    def nodes(self) -> dict[str, Node]:
        """Return the worker's nodes as nodes of the manager."""
        if not self.sent:
            return {}
        if NODES not in self.caches:
            return unbounded(self.name, self._asked(), reachable=self.active)
        sent_uids = frozenset(uid for _, job in self.jobs() for uid in (str(job["metadata"]["uid"]), uid_of(job)))
        nodes, pods = self._objects(NODES).values(), self._objects(PODS).values()
        return mirrored(self.name, nodes, pods, sent_uids, reachable=self.active)

    def figures(self) -> WorkerCapacity:
        """Return the capacity and the usage of the worker, computed from its caches."""
        nodes = [read_node(dict(obj)) for obj in self._objects(NODES).values()]
        ready = {node.name: node for node in nodes if takes_pods(node)}
        used = used_by_node(self._objects(PODS).values())
        return WorkerCapacity(
            nodes=len(nodes),
            ready=len(ready),
            has=_sum(node.allocatable for node in ready.values()),
            used=_sum(tuple(used.get(name, {}).items()) for name in ready),
            jobs=sum(not is_over(key, job) for key, job in self.jobs()),
            version=self.version,
            scheduler=self.scheduler,
            note="; ".join(filter(None, (_HIDDEN if NODES not in self.caches else "", self._lack()))),
            lacks=self.lacks,
        )

    def _objects(self, kind: Kind) -> Mapping[str, dict[str, object]]:
        return self.caches[kind].objects if kind in self.caches else {}


async def _shown(connection: Connection, kinds: Iterable[Kind]) -> list[Kind]:
    """Return the kinds that the worker defines and that it allows the manager's user to list."""
    found = []
    for kind in kinds:
        with suppress(ApiRefusal):
            await connection.request("GET", kind.path(), params={"limit": "1"})
            found.append(kind)
    return found


async def _uid(connection: Connection) -> str:
    """Return the uid of a cluster, which is the uid of its namespace kube-system; empty if the user may not read this
    namespace."""
    with suppress(ApiRefusal):
        return str((await connection.get(NAMESPACES, "kube-system"))["metadata"]["uid"])
    return ""


def _named(kind: Kind) -> str:
    """Return the name of a kind. For Volcano's Job the name includes the group, because Kubernetes' Job has the same
    name."""
    return f"{kind.name} of {kind.group}" if kind.name == JOBS.name and kind != JOBS else kind.name


def _sum(many: Any) -> dict[str, int]:
    total: dict[str, int] = {}
    for each in many:
        for resource, amount in each:
            total[resource] = total.get(resource, 0) + amount
    return dict(sorted(total.items()))


def _require_version(version: str) -> None:
    """Raise PhalanxError if this version of Kubernetes is too old. A version that cannot be read is accepted."""
    found = re.match(r"v?(\d+)\.(\d+)", version)
    if found and tuple(map(int, found.groups())) < OLDEST:
        raise _Unfit(
            f"it runs Kubernetes {version}, and jobs are sent to {'.'.join(map(str, OLDEST))} or later",
            "Upgrade that cluster, or take it out of the MultiKueueConfig.",
        )


def _schedulers(groups: Any) -> str:
    """Return the schedulers whose queues the worker serves. Raises PhalanxError if the worker serves no queues, because
    a suspended Job would never start there."""
    names, old = [], []
    for group in groups:
        name, wanted = _QUEUES.get(str(group.get("name")), ("", ()))
        versions = [str(one.get("version")) for one in group.get("versions") or ()]
        if name and wanted and not set(wanted) & set(versions):
            old.append(f"{name} {', '.join(versions)}")
        elif name:
            names.append(name)
    if names:
        return ", ".join(sorted(names))
    if old:
        raise _Unfit(f"it serves only {'; '.join(old)}", "Upgrade Kueue there to 0.6 or later (v1beta1).")
    raise _Unfit(
        "it serves no queues, so no job that is sent there would start",
        "Install Phalanx or Kueue in that cluster (`phalanx deploy`), with the same queues.",
    )


class _Unfit(PhalanxError):
    """Raised if no job can be sent to the worker. `mend`: how to correct that."""

    def __init__(self, text: str, mend: str) -> None:
        super().__init__(text)
        self.mend = mend


def _explained(error: BaseException, source: Source) -> Iterator[str]:
    """Yield two texts about an error: what is wrong, and how to correct it."""
    if isinstance(error, _Unfit):
        yield from (str(error), error.mend)
        return
    if isinstance(error, ApiRefusal) and error.code in (401, 403):
        yield f"it refuses the user of {source.named}: {error.message}"
        yield "Write the kubeconfig of an account there that may read and write Jobs (docs/guide/several-clusters.md)."
        return
    yield f"it cannot be reached: {str(error) or 'no answer in time'}"
    yield f"Check that its API server runs, and that {source.named} has the right address and certificate."
