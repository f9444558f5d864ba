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
from dataclasses import replace
from functools import partial
from typing import Any

from phalanx.client.connection import ApiError, ApiRefusal, Connection, Object
from phalanx.client.informer import Informer
from phalanx.client.kind import PODS, Kind
from phalanx.client.moment import write_moment
from phalanx.dialects.frame import Answer, Eviction, Stage, Told
from phalanx.kube.capacity.dialect_watch import DialectWatch
from phalanx.kube.gang.lifecycle import GangLifecycle
from phalanx.kube.gang.preemption import Departure
from phalanx.kube.read.labels import FIELD_MANAGER
from phalanx.kube.status.told import as_pod, outcome_of, tell
from phalanx.model.reason import Reason

log = logging.getLogger(__name__)

_LEISURE = 20.0  # looking at all takes at most a twentieth of the time


class DialectAnswers:
    """The writer of what dialects show of gangs and queues. `run` writes until cancelled. `served`: the kinds that
    there are caches of. `may_write`: false past the leader's deadline."""

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
        self._departures: dict[str, Departure] = {}  # those that were told
        self._pods: dict[str, dict[str, str]] = {}  # of each gang of bare pods, key -> uid
        self._touched: dict[str, None] = {}
        self._timers: dict[str, float] = {}  # gang -> when it is looked at again
        self._refused: dict[tuple[Kind, str], Any] = {}
        self._news = asyncio.Event()

    def touch(self, gang: str) -> None:
        """Note that something of the gang changed."""
        if gang in self._watch.silent:
            if gang not in self._gangs or self._gangs[gang].done:
                self._watch.forget(gang)
        elif gang in self._watch.claimed:
            self._touched[gang] = None
            self._news.set()

    def waits(self, gang: str, reason: Reason) -> None:
        """Note that the gang waits, and why."""
        if gang in self._watch.claimed and gang not in self._watch.silent:
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
                await self._write(gang, partial(self._answers, gang))
            began_s = time.perf_counter()
            for name in self._told:
                await self._write(name, partial(self._statuses, name))
            await asyncio.sleep(min(5.0, _LEISURE * (time.perf_counter() - began_s)) if len(self._gangs) > 500 else 0)

    def _answers(self, id: str) -> Iterable[Answer]:
        name = self._watch.claimed.get(id)
        if name is None or name not in self._watch.defined:
            return ()
        told, known = self._look(id, self._told[name].get(id)), self._told[name]
        if told is None:
            for each in (self._reasons, self._departures, self._pods, known):
                each.pop(id, None)
            if id not in self._gangs:
                self._watch.forget(id)
            return ()
        if told.stage in (Stage.RESERVED, Stage.STARTING, Stage.RUNNING):
            self._reasons.pop(id, None)
        if id not in known:
            for owner in told.owners:
                self._watch.tell_unused(name, _kind_of(owner), owner)
        known[id] = told
        dialect = self._watch.dialects[name]
        objects = self._objects(dialect.answer_kinds)
        now = write_moment(self._now_s())
        return dialect.answer(self._watch.defined[name], told, objects, now)

    def _look(self, id: str, last: Told | None) -> Told | None:
        gang, pods = self._gangs.get(id), self._bare_pods(id)
        if gang is None:  # of bare pods that are over nothing is left but the pods
            if last is None or not pods:
                return None
            return replace(last, stage=Stage.FINISHED, owners=tuple(pods), outcome=outcome_of(pods), evicted=None)
        eviction = self._eviction(gang)
        if eviction is not None:  # the core is told no reason twice: it may wait for what it was stopped for
            self._reasons.setdefault(id, eviction.reason)
        return tell(gang, self._cache, pods, self._reasons.get(id), eviction)

    def _bare_pods(self, id: str) -> list[Object]:
        """Return those of the gang that there are, oldest first, over or not; of a Job that is not of the gang, too."""
        gang = self._gangs.get(id)
        bare = [pod for pod in gang.pods.values() if pod.owner is None or not gang.jobs] if gang is not None else []
        if bare:
            self._pods.setdefault(id, {}).update({pod.key: pod.uid for pod in bare})
        there, cache = [], self._cache(PODS)
        for key, uid in self._pods.get(id, {}).items():
            obj = cache.get(key)
            if obj is not None and obj["metadata"]["uid"] == uid:
                there.append(as_pod(obj))
        return there

    def _eviction(self, gang: GangLifecycle) -> Eviction | None:
        """How it left its nodes since it was told last."""
        departure = gang.departure
        if departure is None or self._departures.get(gang.id) is departure:
            return None
        self._departures[gang.id] = departure
        by = self._gangs.get(departure.mark.by) if departure.mark is not None else None
        preemptor = tell(by, self._cache, self._bare_pods(by.id), None, None) if by is not None else None
        return Eviction(reason=departure.why, preempted=departure.preempted, preemptor=preemptor)

    def _statuses(self, name: str) -> Iterable[Answer]:
        if name not in self._watch.defined:
            return ()
        dialect = self._watch.dialects[name]
        objects = self._objects(dialect.answer_kinds)
        everyone = self._told[name].values()
        now = write_moment(self._now_s())
        return dialect.statuses(self._watch.defined[name], list(everyone), objects, now)

    def _cache(self, kind: Kind) -> Mapping[str, Object]:
        return self._informers(kind).objects

    def _objects(self, kinds: Iterable[Kind]) -> dict[Kind, Mapping[str, Object]]:
        return {kind: self._cache(kind) for kind in kinds if self._served(kind)}

    def _later(self, gang: str, at_s: float) -> None:
        """Look at the gang again then; where that is said already, once is enough."""
        if self._timers.get(gang, at_s + 1.0) > at_s:
            self._timers[gang] = at_s
            asyncio.get_running_loop().call_later(max(0.0, at_s - self._now_s()) + 0.05, self._due, gang)

    def _due(self, gang: str) -> None:
        self._timers.pop(gang, None)
        self.touch(gang)

    # --- writes -------------------------------------------------------------------------------------------------------

    async def _write(self, about: str, answers: Callable[[], Iterable[Answer]]) -> None:
        """What raises while an answer is made concerns that one alone."""
        try:
            found = list(answers())  # all at once: the caches change while they are written
        except Exception:  # a dialect's defect that one gang brings out: the others are answered
            log.exception("nothing is answered about %s: it is looked at again when something of it changes", about)
            return
        for answer in found:
            if answer.again_s is not None:
                self._later(about, answer.again_s)
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
        if there is not None and answer.spec is not None:
            there = await self._specify(answer, there)
        if there is not None and answer.finalizers is not None:
            await self._finalize(answer, there)
        if there is not None and answer.annotations is not None:
            there = await self._annotate(answer, there)
        if there is None or answer.status is None:
            return
        old = there.get("status") or {}
        if answer.status == old:
            return
        # What is as it should be is not sent: others may have written it since.
        changed = {key: value for key, value in answer.status.items() if key not in old or old[key] != value}
        gone = {key: None for key in old if key not in answer.status}
        body = {"metadata": {"uid": there["metadata"]["uid"]}, "status": {**gone, **changed}}
        part = "" if answer.plain else "status"
        after = await self._api.patch(answer.kind, name, body, space, part, fieldManager=FIELD_MANAGER)
        informer.observe(after)

    async def _specify(self, answer: Answer, there: Object) -> Object:
        spec = there.get("spec") or {}
        if all(spec.get(key) == value for key, value in (answer.spec or {}).items()):
            return there
        space, _, name = answer.key.rpartition("/")
        body = {"metadata": {"uid": there["metadata"]["uid"]}, "spec": answer.spec}
        after = await self._api.patch(answer.kind, name, body, space, fieldManager=FIELD_MANAGER)
        self._informers(answer.kind).observe(after)
        return after

    async def _annotate(self, answer: Answer, there: Object) -> Object:
        old, wanted = there["metadata"].get("annotations") or {}, answer.annotations or {}
        self._watch.written.update(wanted)
        if all(old.get(key) == text for key, text in wanted.items()):
            return there
        space, _, name = answer.key.rpartition("/")
        body = {"metadata": {"uid": there["metadata"]["uid"], "annotations": dict(wanted)}}
        after = await self._api.patch(answer.kind, name, body, space, fieldManager=FIELD_MANAGER)
        self._informers(answer.kind).observe(after)
        return after

    async def _finalize(self, answer: Answer, there: Object) -> None:
        """Ours of its finalizers (all with the dialect's prefix) are those that the answer names."""
        meta = there["metadata"]
        prefix = f"{answer.kind.group}/"
        others = [one for one in meta.get("finalizers") or () if not one.startswith(prefix)]
        ours = [] if "deletionTimestamp" in meta else list(answer.finalizers or ())
        kept = [one for one in meta.get("finalizers") or () if one in (answer.finalizers or ())]
        wanted = [*others, *(ours or kept)]
        if wanted == list(meta.get("finalizers") or ()):
            return
        space, _, name = answer.key.rpartition("/")
        body = {"metadata": {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"], "finalizers": wanted}}
        after = await self._api.patch(answer.kind, name, body, space, fieldManager=FIELD_MANAGER)
        self._informers(answer.kind).observe(after)


def _kind_of(obj: Object) -> Kind:
    """Of an object that says it; enough to speak about it."""
    group, _, version = str(obj["apiVersion"]).rpartition("/")
    return Kind(group=group, version=version, plural="", name=str(obj["kind"]))
