"""Run the scheduler of a cluster: the scheduling loop on the objects of an API server, and all tasks beside it, such as
the writer of queue statuses, the ledger and the recording."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from phalanx import loop
from phalanx.cli.cluster.numbers import answering
from phalanx.cli.cluster.numbers.answering import NumbersSource
from phalanx.cli.cluster.numbers.fetching import GROUP
from phalanx.cli.files.policy_file import PolicySettings as Policies
from phalanx.cli.files.recording import Recorder
from phalanx.cli.terminal.output import note
from phalanx.client.connection import Connection
from phalanx.client.informer import Informer
from phalanx.client.kind import PODS, Kind
from phalanx.clusters.dispatch import Dispatcher
from phalanx.dialects.kueue.kinds import NAME as KUEUE
from phalanx.kube.install.admission_policy import AdmissionMode
from phalanx.kube.install.definitions import QUEUES
from phalanx.kube.leader import Lease, SteadyClock, leading
from phalanx.kube.routing.settings import KubeSettings
from phalanx.kube.status.queue_status import StatusSource, keep_queue_statuses
from phalanx.kube.status.unattended_pods import unattended_pods
from phalanx.kube.status.usage import keep_usage
from phalanx.kube.world.capacity_sources import CapacitySources, NodeProvisioning
from phalanx.kube.world.kube_world import KubeWorld
from phalanx.kube.world.opening import open_world
from phalanx.metrics.decisions import Decisions, Measured
from phalanx.model.policy import Policy
from phalanx.model.reason import Reason
from phalanx.model.status import ClusterStatus, QueueStatus
from phalanx.report.status import cluster_status, queue_statuses, with_expected_starts
from phalanx.scaling.waiting import admitted_together
from phalanx.state.cluster import Cluster

if TYPE_CHECKING:  # servers and a database are imported only if they are used
    from phalanx.cli.cluster.visibility import Ask, LedgerRows
    from phalanx.metrics.collector import Scheduler

_NUMBERS_S = 1.0  # figures for users are computed again after this time, or later if the computation is slow
FORESEEN_JOBS = 200  # if more jobs than this are live, queue statuses have no expected starts
# A function from path and query to a function that computes the response; None if another module serves the path.
AnswerOf: TypeAlias = "Callable[[tuple[str, ...], Mapping[str, str]], Ask | None]"
# A function from the state, the world, its caches, the clock, and the expected starts to the function that answers
# requests about jobs.
RowsOf = Callable[
    [Cluster, KubeWorld, Callable[[Kind], Informer], Callable[[], float], Callable[[], Mapping[str, float]]], AnswerOf
]


async def schedule(
    connection: Connection,
    informers: Callable[[Kind], Informer],
    lease: Lease,
    policies: Policies,
    leads: Callable[[], None] = lambda: None,
    record: Path | None = None,
    metrics: Scheduler | None = None,
    admits: Callable[[AdmissionMode], None] = lambda _: None,
    ledger: str | None = None,
    alone: Callable[[Mapping[str, Any]], bool] | None = None,
    views: Path | None = None,
    nodes: NodeProvisioning | None = None,
    rows: RowsOf | None = None,
) -> None:
    """Wait until this process becomes the leader, and then schedule until cancelled.

    `leads`: called when the process has become the leader. `record`: the recording to which every step is appended.
    `metrics`: the metrics of this process. `admits`: called with the mechanism by which this cluster prepares new Jobs
    for the queue. `ledger`: the URL of the ledger that records every job. `alone`: a function that returns True for the
    spec of a pod with the default scheduler's name if Phalanx binds this pod too; None if another scheduler binds such
    pods. `views`: the folder of the socket on which API groups are served. `nodes`: the node groups. `rows`: creates
    the function that answers requests about jobs on this socket. Raises LeaseLost if another process may have become
    the leader, and LedgerError."""
    async with leading(lease):
        leads()
        await _lead(connection, informers, lease, policies, record, metrics, admits, ledger, alone, views, nodes, rows)


async def _lead(
    connection: Connection,
    informers: Callable[[Kind], Informer],
    lease: Lease,
    policies: Policies,
    record: Path | None,
    metrics: Scheduler | None,
    admits: Callable[[AdmissionMode], None],
    ledger: str | None,
    alone: Callable[[Mapping[str, Any]], bool] | None,
    views: Path | None,
    nodes: NodeProvisioning | None,
    rows: RowsOf | None,
) -> None:
    cluster, policy = Cluster(), policies.policy
    clock = SteadyClock()
    settings = KubeSettings(default_queue=policy.default_queue, dialects=policies.dialects)
    if alone is not None:
        settings = replace(settings, alone=alone, sole=True)

    def breaches() -> int:
        return len(cluster.breaches)

    clusters = Dispatcher(connection, informers, clock, lease.fence) if KUEUE in policies.dialects else None
    sources = CapacitySources(nodes=nodes, clusters=clusters)
    async with open_world(connection, informers, settings, clock, lease.fence, breaches, sources) as world:
        admits(world.installed.admission)
        world.effects.reporter.admitted = lambda jobs: admitted_together(cluster, policy, clock(), jobs)
        glance = Glance(cluster, now_s=clock)
        sight = seen(world, glance, informers, lease)
        unattended = unattended_pods(
            settings, lambda: informers(PODS).objects, partial(world.effects.reporter.object_event, warning=True), clock
        )
        keeping = (
            asyncio.ensure_future(keep_queue_statuses(connection, sight, clock)),
            asyncio.ensure_future(keep_usage(connection, cluster.usage, clock, sight.may_write)),
            asyncio.ensure_future(unattended.run()),
        )
        try:
            answer = None if rows is None else rows(cluster, world, informers, clock, glance.starts)
            async with _visible(views, world, glance, clock, answer, ledger):
                with accounted(_measured(world, glance, metrics), world, informers, ledger) as whole:
                    await _run(whole, cluster, policy, record, clock)
        finally:
            for task in keeping:
                task.cancel()
            await asyncio.wait(keeping)


def _visible(
    folder: Path | None,
    world: KubeWorld,
    glance: Glance,
    clock: Callable[[], float],
    rows: AnswerOf | None,
    ledger: str | None,
) -> AbstractAsyncContextManager[None]:
    """Serve on a socket in `folder`: the API groups of other schedulers' dialects (such as Kueue's visibility API) and,
    in Phalanx's own API group, rows of jobs and the figures for every user. If `folder` is None, nothing is served."""
    if folder is None:
        return nullcontext()
    from phalanx.cli.cluster.numbers.starting import Present, StartAnswers
    from phalanx.cli.cluster.visibility import visible

    starts = StartAnswers(
        lambda: Present(
            cluster=glance.cluster,
            admission=world.caches.admission,
            defaults=world.watch.defaults,
            now_s=clock(),
        )
    )

    def view(group: str, path: tuple[str, ...], query: Mapping[str, str]) -> Ask | None:
        if group != GROUP:
            return world.answers.reports.view(group, path, query)
        if rows is not None and (ask := rows(path, query)) is not None:
            return ask
        if (start := starts.answer(path, query)) is not None:
            return start
        # computed now and not by a thread, because the state must not change during the computation
        found = answering.answer(glance.numbers(), path)
        return lambda: found

    return visible(folder, view, world.answers.reports.stream, None if ledger is None else _shown_rows(ledger))


def _measured(world: KubeWorld, glance: Glance, metrics: Scheduler | None) -> loop.World:
    if metrics is None:
        return world
    from phalanx.metrics.collector import Leader

    decisions = Decisions()
    metrics.leader = Leader(
        decisions=decisions,
        standings=lambda: glance.standings,
        overview=lambda: glance.overview,
        unanswered=lambda: world.effects.writer.unanswered,
        unsent=lambda: world.effects.writer.unsent,
        breaches=lambda: len(glance.cluster.breaches),
        others=world.answers.reports.counted(),
    )
    return Measured(world, glance.cluster, decisions)


def _shown_rows(ledger: str) -> LedgerRows:
    """Return a function that reads rows of the ledger. Its modules are imported only here, because few clusters have a
    ledger."""
    from phalanx.embedded.apiserver.endpoints.paths.slurm_view import SHOWN
    from phalanx.slurm.cluster.ledger import rows

    return partial(rows, ledger, fields=SHOWN)


@contextmanager
def accounted(
    inner: loop.World, world: KubeWorld, informers: Callable[[Kind], Informer], url: str | None
) -> Iterator[loop.World]:
    """Yield a world that records the jobs of the world `inner` in the ledger with this URL. Without a ledger, yield
    `inner` itself. Raises LedgerError."""
    if url is None:
        yield inner
        return
    from phalanx.cli.cluster.accounting import Objects
    from phalanx.ledger.accounted import Accounted  # a database, which is imported only where there is a ledger
    from phalanx.ledger.store import Ledger

    objects = Objects(world.caches.words)
    objects.follow(informers, world.caches.served)
    with Ledger.open(url) as ledger:
        found = Accounted(inner, ledger, objects.look)
        try:
            yield found
        finally:
            found.close()


async def _run(
    world: loop.World, cluster: Cluster, policy: Policy, record: Path | None, clock: Callable[[], float]
) -> None:
    if record is None:
        await loop.run(world, cluster, policy, clock)
        return
    recorder = Recorder(world, record, policy, clock, note)
    try:
        await loop.run(recorder, cluster, policy, recorder.clock)
    finally:
        recorder.close()


class Glance:
    """The last computed statuses of queues, for Queue objects and for metrics. The time to compute them is proportional
    to the number of jobs. So only the writer of statuses (`queue_status`) computes them (`look`), at its own pace. A
    scrape of the metrics reads the last ones."""

    def __init__(self, cluster: Cluster, now_s: Callable[[], float]) -> None:
        self.cluster, self._now_s = cluster, now_s
        self.standings: Sequence[QueueStatus] = ()
        self.overview = ClusterStatus()
        self._numbers: NumbersSource | None = None
        self._numbers_until_s = 0.0  # on the monotonic clock

    def numbers(self) -> NumbersSource:
        """Return the figures for users. They are computed on request, but only so often that this takes at most a
        twentieth of the time of the process."""
        began_s = time.monotonic()
        if self._numbers is None or began_s >= self._numbers_until_s:
            self._numbers = answering.source_of(self.cluster, self.standings, self._reason)
            self._numbers_until_s = began_s + max(_NUMBERS_S, 20 * (time.monotonic() - began_s))
        return self._numbers

    def starts(self) -> Mapping[str, float]:
        """Return job id -> expected start (seconds since the epoch), for jobs with a known expected start."""
        places = (place for standing in self.standings for place in standing.first)
        return {place.job: place.start_s for place in places if place.start_s is not None}

    def _reason(self, job: str) -> Reason | None:
        return self.cluster.reason(job) if job in self.cluster.jobs else None

    def look(self) -> Sequence[QueueStatus]:
        self.overview = cluster_status(self.cluster)
        self.standings = with_expected_starts(
            self.cluster, list(queue_statuses(self.cluster)), self._now_s(), FORESEEN_JOBS
        )
        return self.standings


def seen(world: KubeWorld, glance: Glance, informers: Callable[[Kind], Informer], lease: Lease) -> StatusSource:
    """Return the functions from which the writer of queue statuses takes its values."""
    return StatusSource(
        standings=glance.look,
        wrong=lambda: world.queues.wrong,
        objects=lambda: informers(QUEUES).objects,
        may_write=lambda: asyncio.get_running_loop().time() < lease.fence(),
    )
