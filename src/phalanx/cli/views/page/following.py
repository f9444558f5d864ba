"""Watch a cluster and compute the data of the page from it.

Watches keep caches of the objects up to date. After a change, the state of the page is computed again from the caches:
the scheduler's own code reads the objects and builds the cluster state, and the scheduler's function `decide` runs on
it. The time for this grows with the number of jobs and nodes. So a thread computes at most one state per second, and
works for at most a quarter of the time. The page of a large cluster may therefore be some seconds old. The forecast
takes longer, and runs in a thread of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from phalanx.cli.cluster.informers import Informers
from phalanx.cli.cluster.live_state import installation
from phalanx.cli.cluster.live_state.cluster_snapshot import Snapshot
from phalanx.cli.cluster.numbers.answering import NumbersSource, job_numbers
from phalanx.cli.cluster.numbers.starting import Present
from phalanx.cli.views.page import sooner
from phalanx.cli.views.page.cached_snapshot import decided, snapshot_of, uncollected
from phalanx.cli.views.page.past_jobs import PastJobs
from phalanx.cli.views.page.rows import state_of
from phalanx.cli.views.page.sooner import Outlook, outlook
from phalanx.cli.views.page.unwatched import UnwatchedFacts
from phalanx.client.connection import Connection, Object
from phalanx.client.informer import Change
from phalanx.client.kind import JOBS, Kind
from phalanx.dashboard.rows import Facts, PageState, PastRow
from phalanx.kube.routing.caches import REQUIRED, ObjectCaches
from phalanx.report.status import queue_statuses

log = logging.getLogger(__name__)

_PAUSE_S = 1.0  # the shortest pause between two states
_IDLE_S = 10.0  # the longest pause between two states. Even without a change in the cluster, times and the Lease change
_STATE_PART = 0.25  # states are computed for at most this fraction of the time
# if there are more jobs than this, no scheduling cycle is computed for some states, and the page shows the reasons from
# the last forecast
MANY_JOBS = 1000
_FORECAST_S = 30.0  # the shortest pause between two forecasts, unless they are fast
_CHEAP_FORECAST_S, _CHEAP_S = 3.0, 0.5  # pause after a forecast, if it took at most `_CHEAP_S`
_FORECAST_PART = 0.2  # forecasts are computed for at most this fraction of the time
_LISTING_S = 120.0

T = TypeVar("T")
Publish = Callable[[PageState], None]


class Following:
    """Follows the cluster of one connection. `facts`: the facts about the page itself. `namespace`: the only namespace
    that the user may list; "" for all namespaces. `ledger`: the URL of the ledger with past jobs."""

    def __init__(self, connection: Connection, facts: Facts, namespace: str = "", ledger: str | None = None) -> None:
        self._connection, self._namespace = connection, namespace
        self._unwatched, self._past = UnwatchedFacts(connection, facts, ledger), PastJobs(ledger)
        self._kinds: tuple[Kind, ...] = ()
        self._news = asyncio.Event()
        self._outlook: Outlook | None = None
        self._snapshot: Snapshot | None = None
        # the last snapshot with computed reasons; only used if there are many jobs
        self._thought: Snapshot | None = None
        self._numbers: NumbersSource | None = None
        # the snapshot and the forecast from which `_numbers` was computed
        self._numbered: tuple[Snapshot | None, Outlook | None] = None, None
        self._stating, self._playing = ThreadPoolExecutor(1, "state"), ThreadPoolExecutor(1, "forecast")
        self._foreseen: asyncio.Task[None] | None = None
        self._foresee_s = 0.0  # when the next forecast is due, on the clock of the event loop

    async def run(self, publish: Publish) -> None:
        """Follow the cluster until cancelled, and call `publish` with every new state. Raises PhalanxError."""
        try:
            async with asyncio.TaskGroup() as group:
                informers = Informers(self._connection, group, namespace=self._namespace)
                await self._sync(informers)
                for kind in self._kinds:
                    informers(kind).subscribe(self._changed)
                while True:
                    await self._once(informers, publish)
        finally:
            if self._foreseen is not None:
                self._foreseen.cancel()
            self._stating.shutdown(wait=False, cancel_futures=True)
            self._playing.shutdown(wait=False, cancel_futures=True)

    # --- Source -----------------------------------------------------------------------------------------------------

    async def past(self, from_s: float, to_s: float) -> Sequence[PastRow]:
        snapshot = self._snapshot
        return await self._past.rows(snapshot.cluster, from_s, to_s) if snapshot is not None else ()

    async def history(self, job: str) -> Sequence[tuple[float, str]]:
        return await self._past.reasons(job)

    async def whatif(self, job: str, change: str) -> Mapping[str, object]:
        snapshot = self._snapshot
        if snapshot is None or self._namespace:
            return {"start_s": None, "until_s": time.time(), "victims": [], "changes": []}
        reason = self._decided(snapshot).reasons.get(job)
        return await self._in(self._playing, sooner.answer, snapshot.cluster, job, change, reason, snapshot.now_s)

    def numbers(self) -> NumbersSource | None:
        """Return the numbers of the newest state that every user may read; None before the first state."""
        snapshot, future = self._snapshot, self._outlook
        known, foreseen = self._numbered
        if snapshot is not None and (snapshot is not known or future is not foreseen):
            self._numbered = snapshot, future
            self._numbers = NumbersSource(
                jobs={one.job: one for one in job_numbers(snapshot.cluster, snapshot.cluster.jobs)},
                standings=list(queue_statuses(snapshot.cluster)),
                reason=self._decided(snapshot).reasons.get,
                starts={job: one.start_s for job, one in (future.starts if future is not None else {}).items()},
            )
        return self._numbers

    def present(self) -> Present | None:
        """Return the newest cluster state, from which expected starts can be computed; None before the first state."""
        snapshot = self._snapshot
        if snapshot is None or snapshot.reading is None:
            return None
        admission, defaults = snapshot.reading
        return Present(cluster=snapshot.cluster, admission=admission, defaults=defaults, now_s=snapshot.now_s)

    # --- internal ---------------------------------------------------------------------------------------------------

    def _decided(self, snapshot: Snapshot) -> Snapshot:
        """Return the snapshot if a scheduling cycle was computed on it; otherwise return the last snapshot with a
        computed cycle. If there are many jobs, no cycle is computed for some snapshots."""
        return snapshot if self._thought is None or not snapshot.partial else self._thought

    def _changed(self, _: Change) -> None:
        self._news.set()

    async def _sync(self, informers: Informers) -> None:
        await installation.require_queues(self._connection)
        await self._unwatched.begin()
        caches = ObjectCaches(informers, self._unwatched.settings)
        try:
            async with asyncio.timeout(_LISTING_S):
                await caches.sync(self._connection)
        except TimeoutError as error:
            raise installation.not_listed(self._connection, _LISTING_S) from error
        self._kinds = (*REQUIRED, *sorted(caches.served, key=lambda kind: kind.plural))

    async def _once(self, informers: Informers, publish: Publish) -> None:
        """Compute a state, publish it, and wait until the next state is due."""
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        self._news.clear()
        await self._unwatched.reload(began_s)
        facts = await self._unwatched.alive()
        objects = {kind: dict(informers(kind).objects) for kind in self._kinds}
        try:
            self._snapshot, state = await self._in(self._stating, self._made, objects, facts, time.time())
            publish(state)
            self._foresee(loop.time())
        except Exception:  # if an object triggers a bug, the page keeps the last state
            log.exception("no state could be computed from the cluster's objects; it is computed again later")
        took_s = loop.time() - began_s
        await asyncio.sleep(max(_PAUSE_S, took_s / _STATE_PART - took_s))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_IDLE_S):
                await self._news.wait()

    def _made(
        self, objects: Mapping[Kind, Mapping[str, Object]], facts: Facts, now_s: float
    ) -> tuple[Snapshot, PageState]:
        """Return the snapshot of these objects, and the state that the page shows. This method runs in a thread."""
        with uncollected(many=len(objects[JOBS]) > MANY_JOBS):
            return self._folded(objects, facts, now_s)

    def _folded(
        self, objects: Mapping[Kind, Mapping[str, Object]], facts: Facts, now_s: float
    ) -> tuple[Snapshot, PageState]:
        known, partial, few = self._unwatched, bool(self._namespace), len(objects[JOBS]) <= MANY_JOBS
        snapshot = snapshot_of(
            objects, known.settings, known.policies, now_s, known.usage, known.runs, partial=partial, decides=few
        )
        thought = self._thought if not few and not partial else None
        return snapshot, state_of(snapshot, self._outlook, facts, thought, known.backfilled)

    def _think(self, snapshot: Snapshot) -> Outlook:
        """Return the forecast of starts. If no scheduling cycle was computed on the snapshot (because there are many
        jobs), compute one now, so that `_thought` has new reasons. This method runs in a thread."""
        if snapshot.partial:
            self._thought = decided(snapshot)
        return outlook(snapshot.cluster, snapshot.now_s)

    def _foresee(self, now_s: float) -> None:
        """Start a forecast in its thread, if one is due and none is running."""
        snapshot = self._snapshot
        busy = self._foreseen is not None and not self._foreseen.done()
        if busy or snapshot is None or self._namespace or now_s < self._foresee_s:
            return

        async def foresee() -> None:
            began_s = asyncio.get_running_loop().time()
            try:
                self._outlook = await self._in(self._playing, self._think, snapshot)
                self._news.set()
            except Exception:  # a bug in the forecast must not stop the rest of the page
                log.exception("the expected starts could not be computed")
            took_s = asyncio.get_running_loop().time() - began_s
            pause_s = _CHEAP_FORECAST_S if took_s < _CHEAP_S else _FORECAST_S
            self._foresee_s = began_s + took_s + max(pause_s, took_s / _FORECAST_PART - took_s)

        self._foreseen = asyncio.create_task(foresee())

    async def _in(self, pool: ThreadPoolExecutor, work: Callable[..., T], *arguments: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(pool, work, *arguments)
