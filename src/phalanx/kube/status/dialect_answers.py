"""What dialects answer, written: objects and statuses in another scheduler's words.

Gangs that changed are told to their dialect a moment later, once for however many changes came, and what it answers is
written where it differs from what is there. The statuses of definitions follow, at most every `pause_s`, and rarer
where there is much to look at. Best effort: what is refused is not repeated before something changes, what is lost is
mended by the next write. Nothing here is read back by a decision.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from phalanx.client.connection import ApiError, ApiRefusal, Connection, Object
from phalanx.client.informer import Informer
from phalanx.client.kind import Kind
from phalanx.client.moment import write_moment
from phalanx.dialects.frame import Answer, Stage, Told
from phalanx.kube.capacity.dialect_watch import DialectWatch
from phalanx.kube.gang.lifecycle import GangLifecycle
from phalanx.kube.read.labels import FIELD_MANAGER
from phalanx.kube.status.told import preemptor_of, tell
from phalanx.model.reason import Reason

log = logging.getLogger(__name__)

_LEISURE = 20.0  # looking at all takes at most a twentieth of the time


class DialectAnswers:
    """`run` writes until cancelled. `served`: the kinds that there are caches of. `may_write`: false past the leader's
    deadline."""

    def __init__(
        self,
        api: Connection,
        watch: DialectWatch,
        gangs: Mapping[str, GangLifecycle],
        informers: Callable[[Kind], Informer],
        served: Callable[[Kind], bool],
        now_s: Callable[[], float],
        may_write: Callable[[], bool],
    ) -> None:
        self._api, self._watch, self._gangs, self._informers, self._served = api, watch, gangs, informers, served
        self._now_s, self._may_write = now_s, may_write
        self._told: dict[str, dict[str, Told]] = {name: {} for name in watch.dialects}
        self._reasons: dict[str, Reason] = {}
        self._touched: dict[str, None] = {}
        self._refused: dict[tuple[Kind, str], Any] = {}
        self._news = asyncio.Event()

    def touch(self, gang: str) -> None:
        """Something of the gang changed."""
        if gang in self._watch.claimed:
            self._touched[gang] = None
            self._news.set()

    def waits(self, gang: str, reason: Reason) -> None:
        """The gang waits, and why."""
        if gang in self._watch.claimed:
            self._reasons[gang] = reason
            self.touch(gang)

    def defined(self) -> None:
        """Definitions changed."""
        self._news.set()

    async def run(self, pause_s: float = 0.2) -> None:
        while True:
            await self._news.wait()
            await asyncio.sleep(pause_s)  # what changes quickly is said once
            self._news.clear()
            touched, self._touched = self._touched, {}
            for gang in touched:
                await self._answer(gang)
            began_s = time.perf_counter()
            for name in self._told:
                await self._statuses(name)
            await asyncio.sleep(min(5.0, _LEISURE * (time.perf_counter() - began_s)) if len(self._gangs) > 500 else 0)

    async def _answer(self, id: str) -> None:
        name = self._watch.claimed.get(id)
        if name is None:
            return
        told = self._look(id)
        known = self._told[name]
        if told is None:
            self._reasons.pop(id, None)
            known.pop(id, None)
            if id not in self._gangs:
                self._watch.claimed.pop(id, None)
            return
        if told.stage in (Stage.STARTING, Stage.RUNNING):
            self._reasons.pop(id, None)
        known[id] = told
        dialect = self._watch.dialects[name]
        objects = self._objects(dialect.answer_kinds)
        now = write_moment(self._now_s())
        await self._write(dialect.answer(self._watch.defined[name], told, objects, now))

    def _look(self, id: str) -> Told | None:
        gang = self._gangs.get(id)
        if gang is None:
            return None
        by = self._gangs.get(preemptor_of(gang))
        preemptor = tell(by, self._cache, None) if by is not None else None
        return tell(gang, self._cache, self._reasons.get(id), preemptor)

    async def _statuses(self, name: str) -> None:
        if name not in self._watch.defined:
            return
        dialect = self._watch.dialects[name]
        objects = self._objects(dialect.answer_kinds)
        everyone = self._told[name].values()
        now = write_moment(self._now_s())
        await self._write(dialect.statuses(self._watch.defined[name], list(everyone), objects, now))

    def _cache(self, kind: Kind) -> Mapping[str, Object]:
        return self._informers(kind).objects

    def _objects(self, kinds: Iterable[Kind]) -> dict[Kind, Mapping[str, Object]]:
        return {kind: self._cache(kind) for kind in kinds if self._served(kind)}

    # --- writes -------------------------------------------------------------------------------------------------------

    async def _write(self, answers: Iterable[Answer]) -> None:
        for answer in answers:
            if not self._may_write() or not self._served(answer.kind):
                continue
            try:
                await self._put(answer)
            except ApiRefusal as error:
                self._refused[answer.kind, answer.key] = answer
                log.info("%s %s was not written: %s", answer.kind.name, answer.key, error)
            except ApiError as error:
                log.info("%s %s was not written: %s", answer.kind.name, answer.key, error)

    async def _put(self, answer: Answer) -> None:
        if self._refused.get((answer.kind, answer.key)) == answer:
            return
        self._refused.pop((answer.kind, answer.key), None)
        informer = self._informers(answer.kind)
        there = informer.objects.get(answer.key)
        space, _, name = answer.key.rpartition("/")
        if there is None and answer.body is not None:
            there = await self._api.create(answer.kind, answer.body, space)
            informer.observe(there)
        if there is None or answer.status is None:
            return
        old = there.get("status") or {}
        if answer.status == old:
            return
        body = {"metadata": {"uid": there["metadata"]["uid"]}, "status": {**dict.fromkeys(old), **answer.status}}
        after = await self._api.patch(answer.kind, name, body, space, "status", fieldManager=FIELD_MANAGER)
        informer.observe(after)
