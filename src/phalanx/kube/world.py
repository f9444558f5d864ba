"""The `World` of a Kubernetes API: turn changes of objects into events, and carry out decisions.

Everything that this module stores can be read again from the API server. Informers report every change of an object.
`routing` finds the gang that the changed object belongs to, and marks that gang. `events` reconciles the marked gangs,
so that many changes at once reconcile each gang only once. `apply` passes each decision to its gang, and the gang
requests the writes to the API. When the API server answers a write, the gang is marked again. The cost of a change does
not depend on the number of all objects; only the start of the scheduler takes longer with more objects.

Use as `async with open_world(connection, informers) as world: await loop.run(world, …)`.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from typing import Any, Protocol

from phalanx.client.connection import ApiError, Connection
from phalanx.kube.capacity.breaches import BreachRelist
from phalanx.kube.gang.lifecycle import decisions
from phalanx.kube.gang.lifecycle.gang import GangLifecycle
from phalanx.kube.install.installation import Installation, install_all
from phalanx.kube.routing.caches import LISTED_FIRST, Informers, ObjectCaches
from phalanx.kube.routing.reconciler import GangReconciler
from phalanx.kube.routing.settings import KubeSettings
from phalanx.kube.routing.watch import ClusterWatch, ManagerWorld, OtherClusters
from phalanx.kube.status.dependency_outcomes import DependencyOutcomes
from phalanx.kube.status.dialect_answers import DialectAnswers
from phalanx.kube.status.usage import load_usage
from phalanx.kube.write.effects import ApiEffects
from phalanx.model.event import Event, Refused
from phalanx.model.plan import Action, Nominate, Place, Plan, Preempt, ReleaseNodes, RequestNodes, Shrink, Start, Wait

_MANY = 256  # larger batches are processed in pieces, so that other tasks can run in between


class NodeProvisioning(Protocol):
    """The node groups of a cluster, which can add and remove nodes (implemented by `providers.provision`). `wake`: a
    function that the node groups call when they have events. `group_labels`: a map from a label (key, value) of nodes
    to the name of their group, in addition to the label `phalanx.dev/node-group`."""

    wake: Callable[[], None]
    group_labels: Mapping[tuple[str, str], str]

    def events(self) -> Sequence[Event]:
        """Return the events since the last call. The events about groups come first."""

    def apply(self, action: RequestNodes | ReleaseNodes) -> None:
        """Execute the action in the background."""

    async def run(self) -> None:
        """Call the cloud providers until this task is cancelled."""


@asynccontextmanager
async def open_world(
    api: Connection,
    informers: Informers,
    settings: KubeSettings | None = None,
    clock: Callable[[], float] = time.time,
    fence: Callable[[], float] | None = None,
    breaches: Callable[[], int] = lambda: 0,
    nodes: NodeProvisioning | None = None,
    clusters: OtherClusters | None = None,
) -> AsyncIterator[KubeWorld]:
    """Yield a running world. The first events that it reports describe the whole cluster.

    `informers(kind)`: a function that returns the running cache of a kind.
    `fence`: a function that returns the event loop's time after which no write may be sent (see `leader`). None means
    that no other scheduler runs. `breaches`: a function that returns how many decisions so far violated an invariant,
    such as the capacity of a node.
    `nodes`: the node groups; None means that there are none. `clusters`: the other clusters to which jobs are sent;
    None means that no job is sent to another cluster.
    """
    settings = settings or KubeSettings()
    for kind in LISTED_FIRST:  # the API server sends the long lists while the definitions are installed
        informers(kind)
    installed = await install_all(api, clock, settings.others)
    settings = replace(settings, dialects=settings.dialects - installed.unread)
    world = KubeWorld(api, informers, settings, clock, fence, installed, breaches)
    if nodes is not None:
        world.provide(nodes)
    if clusters is not None:
        world.join(clusters)
    async with asyncio.TaskGroup() as group:
        await world.sync()
        tasks = [group.create_task(run()) for run in world.writing()]
        try:
            yield world
        finally:
            for task in tasks:
                task.cancel()


class KubeWorld:
    """A Kubernetes cluster as the `World` of `phalanx.loop`. `gangs`: all gangs, by id. `installed`: the result of
    installing Phalanx's kinds and policies. Its key signs the annotations that record the starts of gangs, and verifies
    them when the scheduler restarts. Without a key, the scheduler accepts all records."""

    nodes: NodeProvisioning | None = None
    clusters: OtherClusters | None = None

    def __init__(
        self,
        api: Connection,
        informers: Informers,
        settings: KubeSettings,
        clock: Callable[[], float],
        fence: Callable[[], float] | None = None,
        installed: Installation | None = None,
        breaches: Callable[[], int] = lambda: 0,
    ) -> None:
        self.gangs: dict[str, GangLifecycle] = {}
        self.installed = installed or Installation()
        key = self.installed.record_key
        self._api, self._clock, self._news = api, clock, asyncio.Event()
        self._reconciler = GangReconciler(self.gangs, clock, key, self._news.set, self._settle)
        self.caches = ObjectCaches(informers, settings)
        self.watch = ClusterWatch(
            self.caches,
            clock,
            gangs=self.gangs,
            new_gang=lambda name: GangLifecycle(name, self.effects),
            tell=self._tell,
            mark=self._reconciler.mark,
            wake=self._news.set,
            invalid=self._tell_invalid,
            note=self._tell_unused,
            submitted_s=self.installed.submitted_s,
        )
        self.queues = self.watch.capacity.queues
        self.effects = ApiEffects(
            api,
            informers,
            allocations=self.watch.capacity.allocations,
            dialects=self.watch.capacity.dialects,
            flavors=self.watch.capacity.queues.flavors,
            timeouts=settings.timeouts,
            report_rate=settings.report_rate,
            writes=settings.writes,
            clock=clock,
            fence=fence,
            key=key,
            tell=self._tell,
            conclude=self._reconciler.mark,
        )
        self.answers = DialectAnswers(
            api,
            self.watch.capacity.dialects,
            self.gangs,
            informers,
            gang_of_pod=self.watch.workloads.gang_of_pod,
            served=self.caches.watches,
            now_s=clock,
            effects=self.effects,
        )
        self.watch.capacity.dialects.news = self.answers.defined
        self._outcomes = DependencyOutcomes(self.gangs, self.effects.annotate)
        self._breaches = BreachRelist(breaches)
        self._routed = False  # changes are routed when they arrive
        self._decided: deque[Action] = deque()  # actions that are not carried out yet
        self._out: list[Event] = []

    def provide(self, nodes: NodeProvisioning) -> None:
        """Use these node groups to add and remove nodes."""
        self.nodes, nodes.wake = nodes, self._wake
        self.watch.capacity.group_labels = nodes.group_labels
        self.effects.reporter.asks_autoscalers = False

    def join(self, clusters: OtherClusters) -> None:
        """Send the jobs that are placed on nodes of these clusters to the clusters."""
        self.clusters = clusters
        self.watch.choose_clusters(clusters.choose)
        clusters.join(
            ManagerWorld(
                wake=self._wake,
                give_back=self._give_back,
                report=lambda job, reason, text: self.effects.report(job, reason, text, warning=True),
                kinds=lambda: self.caches.job_kinds,
                mark=self._mark_known,
            )
        )

    def _give_back(self, gang: str, *about: Any) -> None:
        if (found := self.gangs.get(gang)) is not None:
            decisions.give_back(found, *about)
            self._reconciler.mark(gang)

    def _mark_known(self, gang: str) -> None:
        if gang in self.gangs:
            self._reconciler.mark(gang)

    async def sync(self) -> None:
        """Wait until all kinds that decisions depend on are listed, the listed objects are routed to their gangs, and
        the past usage is read. Other tasks run during the wait, so that the Lease is renewed."""
        with _without_collection():
            _, past = await asyncio.gather(self.caches.sync(self._api), load_usage(self._api))
            await self.watch.follow()
            self._routed = True
            await _run_in_slices(self.watch.workloads.read_again())
            self._define()
            self._out += past  # reported after the queues, which define how usage counts, and before running jobs
            for steps in (self._reconciler.reconcile(self.watch.defaults), self._see_foreign_pods()):
                await _run_in_slices(steps)
        self._news.set()

    async def look_for_more(self, pause_s: float = 5.0) -> None:
        """Look every `pause_s` seconds for kinds that were defined while this world is open (because a framework was
        installed), and read their objects from then on."""
        while True:
            await asyncio.sleep(pause_s)
            with contextlib.suppress(ApiError):  # asked again in the next round
                if more := await self.caches.look_for_more(self._api):
                    await self.watch.follow_more(more)
                    self._wake()

    def writing(self) -> list[Callable[[], Coroutine[Any, Any, None]]]:
        """Return the tasks that run as long as this world is open."""
        found = [self.effects.writer.run, self.effects.reporter.run]
        if self.caches.settings.dialects:
            found.append(self.look_for_more)
        if self.watch.capacity.dialects.dialects:
            found.append(self.answers.run)
        if self.nodes is not None:
            found.append(self.nodes.run)
        if self.clusters is not None:
            found.append(self.clusters.run)
        return found

    # --- World ----------------------------------------------------------------------------------------------------

    def events(self) -> Sequence[Event]:
        self._news.clear()
        if not self._routed:
            self._routed = True
            self.watch.subscribe()
        if self._decided:
            _run_all(self._carry_out())
        _run_all(self.watch.workloads.read_again())
        self._define()
        if self.nodes is not None:
            self._out = [*self.nodes.events(), *self._out]  # groups are reported before their nodes
        if self.clusters is not None:
            self._out = [*self.clusters.events(), *self._out]
        quotas = self.watch.headroom.quotas
        unblocked = quotas.unblocked_gangs() if quotas.limited else ()
        _run_all(self._reconciler.reconcile(self.watch.defaults, unblocked), self._see_foreign_pods())
        if quotas.limited and quotas.has_changes:
            self._news.set()
        out, self._out = self._out, []
        return self._outcomes.hear(out)

    def apply(self, plan: Plan) -> None:
        """Carry out the plan. If the plan is long, carry it out in pieces while this world waits for events."""
        self._decided.extend(plan.actions)
        if len(self._decided) <= _MANY and not self._breaches.must_relist():
            _run_all(self._carry_out())

    def _carry_out(self) -> Iterator[None]:
        while self._decided:
            yield
            action = self._decided.popleft()
            if isinstance(action, RequestNodes | ReleaseNodes):
                if self.nodes is not None:
                    self.nodes.apply(action)
                continue
            gang = self.gangs.get(action.job)
            if gang is None:  # the gang was deleted during the decision; the next events report that
                continue
            match action:
                case Start():
                    self._start(gang, action)
                case Place():
                    decisions.place(gang, action.placements)
                case Preempt():
                    decisions.preempt(gang, action)
                case Shrink():
                    decisions.shrink(gang, action)
                case Wait():
                    self.effects.reporter.waits(gang, action.reason)
                    self.answers.waits(gang.id, action.reason)
                case Nominate():
                    pass  # the victims' marks name their preemptor: a restart restores the nomination
            if not isinstance(action, Wait | Nominate):
                self._reconciler.mark(gang.id)
        if self._outcomes.due:
            self._outcomes.write()

    async def wait(self, timeout_s: float | None) -> None:
        await self._breaches.relist_if_due(self.caches.list_again)
        await _run_in_slices(self._carry_out())
        await self._until_news(timeout_s)
        await _run_in_slices(self.watch.workloads.read_again())
        if len(self._reconciler) > _MANY:
            await _run_in_slices(self._reconciler.reconcile(self.watch.defaults))

    async def _until_news(self, timeout_s: float | None) -> None:
        if (at_s := self._reconciler.next_s) is not None:
            until_s = max(0.0, at_s - self._clock())
            timeout_s = until_s if timeout_s is None else min(until_s, timeout_s)
        try:
            async with asyncio.timeout(timeout_s):
                await self._news.wait()
        except TimeoutError:
            return

    # --- private ---------------------------------------------------------------------------------------------------

    def _define(self) -> None:
        """Queue the events about changed definitions of dialects. (A dialect is the part of Phalanx that reads another
        scheduler's objects.)"""
        if self.watch.capacity.dialects.stale:
            self._out += list(self.watch.capacity.dialects.events())
            self.effects.reporter.on_demand = self.watch.capacity.dialects.on_demand()
            self.answers.defined()

    def _see_foreign_pods(self) -> Iterator[None]:
        """Report the changes of foreign pods (pods that Phalanx does not schedule) to the core, pod by pod."""
        foreign_pods = self.watch.workloads.foreign_pods
        for event in foreign_pods.events() if foreign_pods.touched else ():
            self._tell(event)
            yield

    def _start(self, gang: GangLifecycle, action: Start) -> None:
        """Resume the Jobs of the gang, unless an earlier start has reserved the rest of the namespace's quota."""
        whole, has_quotas = self.watch.defaults.gang(gang.queue), bool(self.watch.headroom.quotas.limited)
        reason = self.watch.headroom.refusal(gang) if whole and has_quotas else None
        if reason is None:
            decisions.start(gang, action, whole=whole)
            if has_quotas:
                self.watch.headroom.settle(gang)
        else:
            self._tell(Refused(gang.id, action.attempt, reason))

    def _settle(self, name: str, gang: GangLifecycle | None) -> None:
        """Update everything that depends on the state of a gang, after the gang was reconciled. `gang`: the gang; None
        if it no longer exists."""
        if name in self.watch.capacity.dialects.claimed:
            self.answers.touch(name)
        if gang is None:
            return
        if self.watch.headroom.quotas.limited:
            self.watch.headroom.settle(gang)
        if self.clusters is not None:
            self.clusters.saw(gang)
        if gang.done:
            self.gangs.pop(gang.id, None)
            self.effects.reporter.forget(gang.id)

    def _tell(self, event: Event) -> None:
        """Add the event to the queue for the core. The scheduler's loop need not be woken, because it reads this queue
        right after the caller returns."""
        self._out.append(event)

    def _tell_invalid(self, *about: Any) -> None:
        self.effects.tell_invalid(*about)

    def _tell_unused(self, *about: Any) -> None:
        self.effects.tell_unused(*about)

    def _wake(self) -> None:
        self._news.set()


@contextmanager
def _without_collection() -> Iterator[None]:
    """Disable garbage collection inside the context. At its end, exclude all objects that exist then from later
    collections. The objects of the caches stay alive anyway, and a collection that visits 100,000 pods would block all
    other tasks for seconds."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if enabled:
            gc.enable()


def _run_all(*steps: Iterator[None]) -> None:
    """Run all steps to the end without letting other tasks run in between."""
    for each in steps:
        for _ in each:
            pass


async def _run_in_slices(steps: Iterator[None], most_s: float = 0.02) -> None:
    """Run all steps. After each `most_s` seconds other tasks may run."""
    clock = asyncio.get_running_loop().time
    began_s = clock()
    for _ in steps:
        if clock() - began_s > most_s:
            await asyncio.sleep(0)
            began_s = clock()
