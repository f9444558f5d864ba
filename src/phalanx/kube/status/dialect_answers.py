"""Write the answers of dialects: the objects and statuses that another scheduler would write. (A dialect is the part of
Phalanx that reads another scheduler's objects.)

A moment after a gang changes, the gang is passed to its dialect. Several changes in quick succession count as one. The
dialect's answer is written if it differs from the existing objects. Then the statuses of definitions (such as queues)
are written, at most every `pause_s` seconds, and less often in large clusters. A refused write is not repeated before
the next change. After a conflict, or if the API server does not respond, the answer is compared with the objects again
a moment later. No decision of the scheduler depends on these answers.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from phalanx.client.connection import Connection, Object
from phalanx.client.informer import Informer
from phalanx.client.kind import Kind
from phalanx.client.moment import write_moment
from phalanx.dialects.frame.dialect import Answer
from phalanx.kube.capacity.dialect_watch import DialectWatch
from phalanx.kube.gang.lifecycle.gang import GangLifecycle
from phalanx.kube.read.fault_log import FaultLog, fault_text
from phalanx.kube.status.answer_writer import AnswerWriter
from phalanx.kube.status.dialect_reports import DialectReports, kind_of
from phalanx.kube.status.gang_views import GangViews
from phalanx.kube.write.effects import ApiEffects
from phalanx.model.reason import Reason

log = logging.getLogger(__name__)

_WRITERS = 8  # the maximum number of gangs for which statuses are written concurrently
_LEISURE = 20.0  # writing the statuses of definitions takes at most a twentieth of the time


class DialectAnswers:
    """Write the answers of dialects (the objects and statuses that another scheduler would write) about gangs and
    queues. `run` does so until it is cancelled. `gang_of_pod`: a function that gets the uid of a pod and returns the
    pod's present gang. `served`: the kinds that have a cache. `effects`: the object that records Events and reports
    whether the leader's deadline has passed."""

    def __init__(
        self,
        api: Connection,
        watch: DialectWatch,
        gangs: Mapping[str, GangLifecycle],
        informers: Callable[[Kind], Informer],
        gang_of_pod: Callable[[str], str | None],
        served: Callable[[Kind], bool],
        now_s: Callable[[], float],
        effects: ApiEffects,
    ) -> None:
        self._watch, self._claims = watch, watch.claims
        self._gangs, self._informers, self._served = gangs, informers, served
        self._now_s, self._may_write = now_s, effects.may_write
        self._views = GangViews(watch, gangs, self._cache, gang_of_pod)
        self.reports = DialectReports(watch, self._views, self._objects, effects.reporter, now_s)
        self._writer = AnswerWriter(api, informers, watch.written, self.reports)
        self._touched: dict[str, None] = {}
        self._timers: dict[str, float] = {}  # gang or dialect -> when its statuses are computed again
        self._faults = FaultLog()
        self._news = asyncio.Event()

    def touch(self, gang: str) -> None:
        """Record that an object of the gang, or the gang's stage, has changed."""
        if gang in self._claims.silent:
            if gang not in self._gangs or self._gangs[gang].done:
                self._watch.forget(gang)
        elif gang in self._claims.claimed:
            self._touched[gang] = None
            self._news.set()

    def waits(self, gang: str, reason: Reason) -> None:
        """Record why the gang waits."""
        if gang in self._claims.claimed and gang not in self._claims.silent:
            self._views.wait(gang, reason)
            self.touch(gang)

    def defined(self) -> None:
        """Record that definitions of dialects (such as another scheduler's queues) have changed."""
        self._news.set()

    async def run(self, pause_s: float = 0.2) -> None:
        while True:
            await self._news.wait()
            await asyncio.sleep(pause_s)  # several changes in quick succession cause one write
            self._news.clear()
            touched, self._touched = self._touched, {}
            await self._write_gangs(touched)
            began_s = time.perf_counter()
            for name in self._views.told:
                await self._write(name, partial(self._statuses, name))
            await asyncio.sleep(min(5.0, _LEISURE * (time.perf_counter() - began_s)) if len(self._gangs) > 500 else 0)

    async def _write_gangs(self, gangs: Iterable[str]) -> None:
        """Write the statuses that another scheduler would write for these gangs. Several gangs are handled
        concurrently, because each write takes two requests to the API server."""
        rest = iter(gangs)

        async def writer() -> None:
            for gang in rest:
                await self._write(gang, partial(self._answers, gang))

        async with asyncio.TaskGroup() as group:
            for _ in range(_WRITERS):
                group.create_task(writer())

    def _answers(self, id: str) -> Iterable[Answer]:
        name = self._claims.claimed.get(id)
        if name is None or name not in self._watch.defined:
            return ()
        before = self._views.told[name].get(id)
        told = self._views.refresh(name, id)
        self.reports.see_gang(name, before, told)
        if told is None:
            if id not in self._gangs:
                self._watch.forget(id)
            return ()
        if before is None:
            for owner in told.owners:
                self._watch.tell_unused(name, kind_of(owner), owner)
        dialect, now = self._watch.dialects[name], write_moment(self._now_s())
        return dialect.answer(self._watch.defined[name], told, self._objects(dialect.answer_kinds), now)

    def _statuses(self, name: str) -> Iterable[Answer]:
        if name not in self._watch.defined:
            return ()
        dialect = self._watch.dialects[name]
        objects = self._objects(dialect.answer_kinds)
        self.reports.see_all(name, objects)
        everyone, now = list(self._views.told[name].values()), write_moment(self._now_s())
        return dialect.statuses(self._watch.defined[name], everyone, objects, now)

    def _cache(self, kind: Kind) -> Mapping[str, Object]:
        return self._informers(kind).objects

    def _objects(self, kinds: Iterable[Kind]) -> dict[Kind, Mapping[str, Object]]:
        return {kind: self._cache(kind) for kind in kinds if self._served(kind)}

    def _later(self, about: str, at_s: float) -> None:
        """At the time `at_s`, compute again which objects and statuses must be written for this gang or dialect. If a
        later time was requested before, `at_s` replaces it."""
        if self._timers.get(about, at_s + 1.0) > at_s:
            self._timers[about] = at_s
            asyncio.get_running_loop().call_later(max(0.0, at_s - self._now_s()) + 0.05, self._due, about)

    def _due(self, about: str) -> None:
        self._timers.pop(about, None)
        self.touch(about)
        self._news.set()

    async def _write(self, about: str, answers: Callable[[], Iterable[Answer]]) -> None:
        """Write the objects and statuses that another scheduler would write for one gang or dialect. An exception while
        they are computed affects only this gang or dialect."""
        try:
            found = list(answers())  # computed before any write, because writes change the caches
            known = {(one.kind, one.key): self._writer.status(one) for one in found if self._served(one.kind)}
        except Exception as error:  # a bug in the dialect must not affect the statuses of other gangs
            if self._faults.is_new(about, why := fault_text(error)):
                log.warning("the answers about %s are not written until its next change: %s", about, why)
                log.debug("the error was raised at", exc_info=error)
            return
        self._faults.pop(about, None)
        for answer in found:
            if answer.again_s is not None:
                self._later(about, answer.again_s)
            if self._may_write() and self._served(answer.kind):
                again_s = await self._writer.write(about, answer, known)
                if again_s is not None:
                    self._later(about, self._now_s() + again_s)
