"""The `World` of a Kubernetes API: turn changes of objects into events, and carry out decisions.

All data in this module can be read again from the API server after a restart. Informers report every change of an
object. `routing` finds the gang that the changed object belongs to, and marks that gang. `events` reconciles the marked
gangs: each gang once, even after many changes. `apply` passes each decision to its gang (`plan_execution`), and the
gang requests the writes to the API. When the API server answers a write, the gang is marked again. The time to process
a change does not depend on the number of objects in the cluster. Only the start of the scheduler takes longer with more
objects.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Any

from phalanx.client.connection import ApiError, Connection
from phalanx.kube.gang.lifecycle.gang import GangLifecycle
from phalanx.kube.install.installation import Installation
from phalanx.kube.routing.caches import Informers, ObjectCaches
from phalanx.kube.routing.reconciler import GangReconciler
from phalanx.kube.routing.settings import KubeSettings
from phalanx.kube.routing.watch import ClusterWatch
from phalanx.kube.status.dependency_outcomes import DependencyOutcomes
from phalanx.kube.status.dialect_answers import DialectAnswers
from phalanx.kube.world.capacity_sources import CapacitySources, ManagerWorld
from phalanx.kube.world.plan_execution import PlanExecution
from phalanx.kube.world.slices import MANY, run_in_slices, without_collection
from phalanx.kube.write.effects import ApiEffects
from phalanx.model.event import Event
from phalanx.model.plan import Plan


class KubeWorld:
    """A Kubernetes cluster as the `World` of `phalanx.loop`. `gangs`: all gangs, by id. `fence`: a function that
    returns the event loop's time after which no write may be sent; None if no other scheduler runs. `installed`: the
    result of installing Phalanx's kinds and policies. It contains the key with which the records of starts are signed
    and, after a restart, verified. Without a key, the scheduler accepts all records. `breaches`: a function that
    returns how many decisions have overcommitted a node so far. `sources`: the node groups and the other clusters."""

    def __init__(
        self,
        api: Connection,
        informers: Informers,
        settings: KubeSettings,
        clock: Callable[[], float],
        fence: Callable[[], float] | None = None,
        installed: Installation | None = None,
        breaches: Callable[[], int] = lambda: 0,
        sources: CapacitySources | None = None,
    ) -> None:
        self.gangs: dict[str, GangLifecycle] = {}
        self.installed = installed or Installation()
        key = self.installed.record_key
        sources = sources or CapacitySources()
        self._api, self._clock, self._sources, self._clusters = api, clock, sources.all, sources.clusters
        self._out: list[Event] = []  # the events that the core has not read yet
        self._news = asyncio.Event()  # set when there may be new events or writes for the loop
        self._routed = False  # True if each change is routed when it arrives
        self._reconciler = GangReconciler(self.gangs, clock, key, self._news.set, self._settle)
        self.caches = ObjectCaches(informers, settings)
        self.watch = self._watch_all(clock, sources)
        self.queues, self._headroom = self.watch.capacity.queues, self.watch.headroom
        self._dialects = self.watch.capacity.dialects
        self.effects = self._write_to(api, informers, settings, clock, fence, sources)
        self.answers = DialectAnswers(
            api,
            self._dialects,
            self.gangs,
            informers,
            gang_of_pod=self.watch.workloads.gang_of_pod,
            served=self.caches.watches,
            now_s=clock,
            effects=self.effects,
        )
        self._dialects.news = self.answers.defined
        self._outcomes = DependencyOutcomes(self.gangs, self.effects.annotate)
        self._execution = PlanExecution(
            self.gangs,
            is_whole=self.queues.gang,
            headroom=self._headroom,
            effects=self.effects,
            answers=self.answers,
            outcomes=self._outcomes,
            nodes=sources.nodes,
            breaches=breaches,
            mark=self._reconciler.mark,
        )
        sources.join(self._as_manager())

    # --- the parts ------------------------------------------------------------------------------------------------

    def _watch_all(self, clock: Callable[[], float], sources: CapacitySources) -> ClusterWatch:
        return ClusterWatch(
            self.caches,
            clock,
            gangs=self.gangs,
            new_gang=lambda name: GangLifecycle(name, self.effects),
            tell=self._out.append,
            mark=self._reconciler.mark,
            wake=self._news.set,
            invalid=self._report_invalid,
            note=self._report_unused,
            submitted_s=self.installed.submitted_s,
            group_labels=sources.group_labels,
            choose=sources.choose,
        )

    def _write_to(
        self,
        api: Connection,
        informers: Informers,
        settings: KubeSettings,
        clock: Callable[[], float],
        fence: Callable[[], float] | None,
        sources: CapacitySources,
    ) -> ApiEffects:
        return ApiEffects(
            api,
            informers,
            allocations=self.watch.capacity.allocations,
            overlay=self._dialects.overlay,
            flavors=self.queues.flavors,
            timeouts=settings.timeouts,
            report_rate=settings.report_rate,
            asks_autoscalers=sources.nodes is None,
            writes=settings.writes,
            clock=clock,
            fence=fence,
            key=self.installed.record_key,
            tell=self._out.append,
            conclude=self._reconciler.mark,
        )

    def _as_manager(self) -> ManagerWorld:
        """Return the functions of this world by which changes in other clusters are reported to it."""
        return ManagerWorld(
            wake=self._news.set,
            give_back=self._execution.give_back,
            report=partial(self.effects.report, warning=True),
            kinds=lambda: self.caches.job_kinds,
            mark=self._reconciler.mark_known,
        )

    # --- reading all objects --------------------------------------------------------------------------------------

    async def sync(self, usage: Awaitable[Iterable[Event]]) -> None:
        """List all kinds that decisions depend on, route the listed objects to their gangs, and read the past usage.
        Return when these steps are complete. Other tasks run during the wait, so that the Lease is renewed. `usage`: an
        awaitable that returns the events about the past usage."""
        with without_collection():
            _, past = await asyncio.gather(self.caches.sync(self._api), usage)
            await self.watch.follow()
            self._routed = True
            await run_in_slices(self.watch.workloads.read_again())
            self._define()
            self._out += past  # after the events about queues, and before the events about running jobs
            for steps in (self._reconciler.reconcile(self.watch.defaults), self._see_foreign_pods()):
                await run_in_slices(steps)
        self._news.set()

    async def look_for_more(self, pause_s: float = 5.0) -> None:
        """Check every `pause_s` seconds for kinds that the API server has begun to serve (because a framework was
        installed, for example), and read the objects of these kinds from then on."""
        while True:
            await asyncio.sleep(pause_s)
            with contextlib.suppress(ApiError):  # the request is repeated in the next round
                if more := await self.caches.look_for_more(self._api):
                    await self.watch.follow_more(more)
                    self._news.set()

    def tasks(self) -> list[Callable[[], Coroutine[Any, Any, None]]]:
        """Return the tasks that run as long as this world is open."""
        found = [self.effects.writer.run, self.effects.reporter.run]
        if self.caches.settings.dialects:
            found.append(self.look_for_more)
        if self._dialects.dialects:
            found.append(self.answers.run)
        return [*found, *(source.run for source in self._sources)]

    # --- World ----------------------------------------------------------------------------------------------------

    def events(self) -> Sequence[Event]:
        self._news.clear()
        if not self._routed:
            self._routed = True
            self.watch.subscribe()
        if self._execution.left:
            self._execution.finish()
        for _ in self.watch.workloads.read_again():
            pass
        self._define()
        first = [*chain.from_iterable(source.events() for source in self._sources)]
        quotas = self._headroom
        unblocked = quotas.unblocked_gangs() if quotas.limited else ()
        for _ in self._reconciler.reconcile(self.watch.defaults, unblocked):
            pass
        for _ in self._see_foreign_pods():
            pass
        if quotas.limited and quotas.has_changes():
            self._news.set()
        out = [*first, *self._out]
        self._out.clear()
        return self._outcomes.hear(out)

    def apply(self, plan: Plan) -> None:
        self._execution.apply(plan)

    async def wait(self, timeout_s: float | None) -> None:
        await self._execution.finish_in_slices(self.caches.list_again)
        await self._until_news(timeout_s)
        await run_in_slices(self.watch.workloads.read_again())
        if len(self._reconciler) > MANY:
            await run_in_slices(self._reconciler.reconcile(self.watch.defaults))

    async def _until_news(self, timeout_s: float | None) -> None:
        if (at_s := self._reconciler.next_s) is not None:
            until_s = max(0.0, at_s - self._clock())
            timeout_s = until_s if timeout_s is None else min(until_s, timeout_s)
        try:
            async with asyncio.timeout(timeout_s):
                await self._news.wait()
        except TimeoutError:
            return

    # --- effects of changes ---------------------------------------------------------------------------------------

    def _define(self) -> None:
        """Add the events about changed definitions of dialects to the events for the core. (A dialect is the part of
        Phalanx that reads another scheduler's objects.)"""
        if self._dialects.stale:
            self._out += list(self._dialects.events())
            self.effects.reporter.on_demand = self._dialects.on_demand()
            self.answers.defined()

    def _see_foreign_pods(self) -> Iterator[None]:
        """Report the changes of foreign pods (pods that Phalanx does not schedule) to the core, pod by pod."""
        foreign_pods = self.watch.workloads.foreign_pods
        for event in foreign_pods.events() if foreign_pods.touched else ():
            self._out.append(event)
            yield

    def _report_invalid(self, *about: Any) -> None:
        self.effects.tell_invalid(*about)

    def _report_unused(self, *about: Any) -> None:
        self.effects.tell_unused(*about)

    def _settle(self, name: str, gang: GangLifecycle | None) -> None:
        """After a gang was reconciled, update everything that depends on its state. `gang`: the gang; None if it no
        longer exists."""
        if name in self._dialects.claims.claimed:
            self.answers.touch(name)
        if gang is None:
            return
        if self._headroom.limited:
            self._headroom.settle(gang)
        if self._clusters is not None:
            self._clusters.saw(gang)
        if gang.done:
            self.gangs.pop(gang.id, None)
            self.effects.reporter.forget(gang.id)
