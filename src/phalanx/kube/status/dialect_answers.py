"""Write the dialects' answers: objects and statuses in another scheduler's format.

A changed gang is passed to its dialect a moment later, once for all changes that came together. The dialect's answer is
written if it differs from the existing objects. The statuses of definitions follow, at most every `pause_s`, and less
often in large clusters. Writes are best effort. A refused write is not repeated before a change. After a conflict or a
missing answer, everything is compared again a moment later. No decision reads these answers.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from phalanx.client.connection import ApiError, ApiRefusal, Connection, Object
from phalanx.client.informer import Informer
from phalanx.client.kind import NODES, PODS, Kind
from phalanx.client.moment import write_moment
from phalanx.client.tally import MetricFamily
from phalanx.dialects.enabled import ANSWERED, EVENTS, FIGURES, JOURNALS, RECORDED, VIEWS
from phalanx.dialects.frame.dialect import Answer, Eviction, Figures, Journal, Stage, Told
from phalanx.kube.capacity.dialect_watch import DialectWatch
from phalanx.kube.gang.departure import Departure
from phalanx.kube.gang.lifecycle.gang import GangLifecycle
from phalanx.kube.gang.objects import GangObjects
from phalanx.kube.read.labels import FIELD_MANAGER
from phalanx.kube.status.told import as_pod, outcome_of, tell
from phalanx.kube.write.effects import ApiEffects
from phalanx.model.reason import Reason

log = logging.getLogger(__name__)

_NOT_FOUND, _CONFLICT = 404, 409
_AGAIN_S, _UNKNOWN_AGAIN_S = 1.0, 5.0  # pauses after a conflict, and after a write without an answer
_WRITERS = 8  # the most gangs whose answers are written concurrently
_LEISURE = 20.0  # a pass over all definitions takes at most a twentieth of the time


class DialectAnswers:
    """The writer of what dialects show of gangs and queues. `run` writes until cancelled. `gang_of_pod`: returns the
    gang that the pod with a uid belongs to now. `served`: the kinds with a cache. `effects`: records events, and knows
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
        self._api, self._watch, self._gangs, self._informers, self._served = api, watch, gangs, informers, served
        self._gang_of_pod, self._now_s = gang_of_pod, now_s
        self._may_write, self._report = effects.may_write, effects.reporter.object_event
        self._told: dict[str, dict[str, Told]] = {name: {} for name in watch.dialects}
        self._reasons: dict[str, Reason] = {}
        self._departures: dict[str, Departure] = {}  # departures that were reported
        self._pods: dict[str, dict[str, str]] = {}  # gang of bare pods -> key of a pod -> its uid
        self._touched: dict[str, None] = {}
        self._timers: dict[str, float] = {}  # gang or dialect -> when it is reconciled again
        # (kind, name) -> the uid of the object, and the answer that the server refused.
        self._refused: dict[tuple[Kind, str], tuple[str, Answer]] = {}
        self._figures: dict[str, Figures[Any]] = {}
        instance = str(uuid.uuid4())
        self._journals: dict[str, Journal] = {
            name: JOURNALS[name](instance) for name in watch.dialects if name in JOURNALS
        }
        self._news = asyncio.Event()
        self._noted = asyncio.Event()  # set when a journal records an event; a new one then replaces it

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

    def counted(self) -> Callable[[], Iterable[MetricFamily]]:
        """Begin to count for the metrics of the dialects, and return a function that returns these metrics. They have
        the names of the dialects' schedulers."""
        self._figures = {name: FIGURES[name]() for name in self._told if name in FIGURES}
        return lambda: [family for figures in self._figures.values() for family in figures.families()]

    def view(
        self, group: str, path: tuple[str, ...], query: Mapping[str, str]
    ) -> Callable[[], Object | list[Object]] | None:
        """Return a function that computes a dialect's answer for a path of an API group, in any thread, from copies;
        None if no enabled dialect serves the path."""
        name = ANSWERED.get(group, "")
        if name not in self._watch.defined:
            return None
        journal = self._journals.get(name)
        if journal is not None and (noted := journal.view(path, query, self._now_s())) is not None:
            return lambda: noted
        objects = {**self._objects(self._watch.dialects[name].answer_kinds), NODES: self._cache(NODES)}
        copies = {kind: dict(found) for kind, found in objects.items()}
        return partial(VIEWS[name], self._watch.defined[name], list(self._told[name].values()), copies, path, query)

    def stream(
        self, group: str, path: tuple[str, ...], query: Mapping[str, str]
    ) -> AsyncIterator[Sequence[Object]] | None:
        """Return a dialect's stream at a path; None if the path is no stream and `view` answers it."""
        journal = self._journals.get(ANSWERED.get(group, ""))
        lines = journal.stream(path, query) if journal is not None else None
        return self._follow(lines) if lines is not None else None

    async def _follow(self, lines: Iterable[Sequence[Object]]) -> AsyncIterator[Sequence[Object]]:
        for found in lines:
            if found:
                yield found
            else:
                await self._noted.wait()

    async def run(self, pause_s: float = 0.2) -> None:
        while True:
            await self._news.wait()
            await asyncio.sleep(pause_s)  # quick changes become one answer
            self._news.clear()
            touched, self._touched = self._touched, {}
            await self._write_gangs(touched)
            began_s = time.perf_counter()
            for name in self._told:
                await self._write(name, partial(self._statuses, name))
            await asyncio.sleep(min(5.0, _LEISURE * (time.perf_counter() - began_s)) if len(self._gangs) > 500 else 0)

    async def _write_gangs(self, gangs: Iterable[str]) -> None:
        """Write the answers about these gangs, several gangs concurrently, because each write waits for the server
        twice."""
        rest = iter(gangs)

        async def writer() -> None:
            for gang in rest:
                await self._write(gang, partial(self._answers, gang))

        async with asyncio.TaskGroup() as group:
            for _ in range(_WRITERS):
                group.create_task(writer())

    def _answers(self, id: str) -> Iterable[Answer]:
        name = self._watch.claimed.get(id)
        if name is None or name not in self._watch.defined:
            return ()
        told, known = self._look(id, self._told[name].get(id)), self._told[name]
        if name in self._journals:
            self._journals[name].saw(known.get(id), told, self._now_s())
            self._noted.set()
            self._noted = asyncio.Event()
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
        if gang is None:  # after bare pods have ended, only the pods still exist
            if last is None or not pods:
                return None
            return replace(last, stage=Stage.FINISHED, owners=tuple(pods), outcome=outcome_of(pods), evicted=None)
        eviction = self._eviction(gang)
        if eviction is not None:  # a newer reason of the core counts more than the eviction's
            self._reasons.setdefault(id, eviction.reason)
        return tell(gang, self._cache, pods, self._reasons.get(id), eviction)

    def _bare_pods(self, id: str) -> list[Object]:
        """Return the existing bare pods of the gang, oldest first, whether or not they have ended, also pods of a Job
        outside of the gang. Pods that no longer belong to the gang (their Job was deleted, or their labels name another
        gang) are left out."""
        gang = self._gangs.get(id)
        objects = gang.objects if gang is not None else GangObjects(id)
        bare = [pod for pod in objects.pods.values() if pod.owner is None or not objects.jobs]
        known = {**self._pods.pop(id, {}), **{pod.key: pod.uid for pod in bare}}
        if known := {key: uid for key, uid in known.items() if self._gang_of_pod(uid) == id}:
            self._pods[id] = known
        there, cache = [], self._cache(PODS)
        for key, uid in known.items():
            obj = cache.get(key)
            if uid in self._watch.stand_ins:
                there.append(as_pod(self._watch.stand_ins[uid][1].pod))
            elif obj is not None and obj["metadata"]["uid"] == uid:
                there.append(as_pod(obj))
        return there

    def _eviction(self, gang: GangLifecycle) -> Eviction | None:
        """Return how the gang left its nodes since the last report; None if it did not."""
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
        if name in self._figures:
            self._figures[name].look(self._watch.defined[name], list(everyone), objects)
        now = write_moment(self._now_s())
        return dialect.statuses(self._watch.defined[name], list(everyone), objects, now)

    def _cache(self, kind: Kind) -> Mapping[str, Object]:
        return self._informers(kind).objects

    def _objects(self, kinds: Iterable[Kind]) -> dict[Kind, Mapping[str, Object]]:
        return {kind: self._cache(kind) for kind in kinds if self._served(kind)}

    def _later(self, about: str, at_s: float) -> None:
        """Reconcile the gang, or the definitions of the dialect, at `at_s` again. An earlier timer replaces a later
        one."""
        if self._timers.get(about, at_s + 1.0) > at_s:
            self._timers[about] = at_s
            asyncio.get_running_loop().call_later(max(0.0, at_s - self._now_s()) + 0.05, self._due, about)

    def _due(self, about: str) -> None:
        self._timers.pop(about, None)
        self.touch(about)
        self._news.set()

    # --- writes -------------------------------------------------------------------------------------------------------

    async def _write(self, about: str, answers: Callable[[], Iterable[Answer]]) -> None:
        """Write the answers about one object. An exception while an answer is made concerns this object alone."""
        try:
            found = list(answers())  # all at once: the caches change while they are written
            known = {(one.kind, one.key): self._status(one) for one in found if self._served(one.kind)}
        except Exception:  # one gang reveals a defect of the dialect: others get their answers
            log.exception("nothing is answered about %s: it is looked at again when something of it changes", about)
            return
        for answer in found:
            if answer.again_s is not None:
                self._later(about, answer.again_s)
            if not self._may_write() or not self._served(answer.kind):
                continue
            try:
                await self._put(about, answer, known)
            except ApiRefusal as error:
                # A conflict or a deleted object means that newer changes are not yet known here. The answer itself is
                # not at fault.
                if error.code == _CONFLICT:
                    self._later(about, self._now_s() + _AGAIN_S)
                elif error.code != _NOT_FOUND:
                    self._refused[answer.kind, answer.key] = (self._uid(answer), answer)
                log.info("%s %s was not written: %s", answer.kind.name, answer.key, error)
            except ApiError as error:
                self._later(about, self._now_s() + _UNKNOWN_AGAIN_S)
                log.info("%s %s was not written: %s", answer.kind.name, answer.key, error)

    async def _put(self, about: str, answer: Answer, known: dict[tuple[Kind, str], Object]) -> None:
        """`known`: the statuses from which the answers were made."""
        if self._refused.get((answer.kind, answer.key)) == (self._uid(answer), answer):
            return
        self._refused.pop((answer.kind, answer.key), None)
        informer = self._informers(answer.kind)
        there = informer.objects.get(answer.key)
        space, _, name = answer.key.rpartition("/")
        if answer.gone:
            uid = there["metadata"]["uid"] if there is not None else ""
            if there is not None and answer.uid in ("", uid) and "deletionTimestamp" not in there["metadata"]:
                how = {"propagationPolicy": "Background", "preconditions": {"uid": uid}}
                await self._api.delete(answer.kind, name, space, how)
            return
        if there is None and answer.body is not None:
            there = await self._api.create(answer.kind, answer.body, space)
            informer.observe(there)
            self._record(about, answer.kind, None, there)
        if there is not None and answer.spec is not None:
            there = await self._specify(answer, there)
        if there is not None and answer.finalizers is not None:
            await self._finalize(answer, there)
        if there is not None and answer.annotations is not None:
            before, there = there, await self._annotate(answer, there)
            if there is not before:
                self._record(about, answer.kind, before, there)
        if there is not None and answer.metadata is not None:
            there = await self._belong(answer, there)
        if there is None or answer.status is None:
            return
        old = there.get("status") or {}
        if answer.status == old:
            return
        # The answer was computed from the known status. If another writer has changed the status (a controller that
        # closed a queue), compute it again.
        if old != known[answer.kind, answer.key]:
            self._later(about, self._now_s() + _AGAIN_S)
            return
        meta = {name: there["metadata"][name] for name in ("uid", "resourceVersion")}
        body = {"metadata": meta, "status": _merging(old, answer.status)}
        patch = partial(self._api.patch, answer.kind, name, body, space, fieldManager=FIELD_MANAGER)
        try:
            after = await patch(subresource="" if answer.plain else "status")
        except ApiRefusal as error:
            if error.code != _NOT_FOUND or answer.plain:
                raise
            after = await patch()  # a definition of others may have no such subresource
        informer.observe(after)
        known[answer.kind, answer.key] = after.get("status") or {}
        self._count(about, answer.kind, there, after)
        self._record(about, answer.kind, there, after)

    def _status(self, answer: Answer) -> Object:
        there = self._informers(answer.kind).objects.get(answer.key) or {}
        return there.get("status") or {}

    def _uid(self, answer: Answer) -> str:
        """Return the uid of the answer's object; "" if the object is unknown."""
        there = self._informers(answer.kind).objects.get(answer.key)
        return str(there["metadata"]["uid"]) if there is not None else ""

    def _count(self, gang: str, kind: Kind, before: Object, after: Object) -> None:
        name = self._watch.claimed.get(gang, "")
        told = self._told.get(name, {}).get(gang)
        if name in self._figures and told is not None:
            self._figures[name].wrote(self._watch.defined[name], told, kind, before, after)

    def _record(self, gang: str, kind: Kind, before: Object | None, after: Object) -> None:
        """Record the events of a write, as the dialect's scheduler does."""
        name = self._watch.claimed.get(gang, "")
        told = self._told.get(name, {}).get(gang)
        if told is None or kind not in RECORDED.get(name, ()):
            return
        head = {"apiVersion": kind.api_version, "kind": kind.name}
        for one in EVENTS[name](told, before, {**after, **head}):
            self._report(_kind_of(one.about), one.about["metadata"], one.reason, one.text, warning=one.warning)

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

    async def _belong(self, answer: Answer, there: Object) -> Object:
        meta, wanted = there["metadata"], answer.metadata or {}
        if all(_says(meta.get(key), each) for key, each in wanted.items()):
            return there
        space, _, name = answer.key.rpartition("/")
        body = {"metadata": {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"], **wanted}}
        after = await self._api.patch(answer.kind, name, body, space, fieldManager=FIELD_MANAGER)
        self._informers(answer.kind).observe(after)
        return after

    async def _finalize(self, answer: Answer, there: Object) -> None:
        """Set Phalanx's finalizers on the object (those with the dialect's prefix) to the ones that the answer
        names."""
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


def _merging(old: Mapping[str, Any], new: Mapping[str, Any]) -> Object:
    """Return the merge patch that makes `new` of `old`."""
    found: Object = {key: None for key in old if key not in new}
    for key, value in new.items():
        before = old.get(key)
        if isinstance(before, Mapping) and isinstance(value, Mapping):
            if before != value:
                found[key] = _merging(before, value)
        elif key not in old or before != value:
            found[key] = value
    return found


def _says(there: Any, wanted: Any) -> bool:
    """Return whether a part of an object's metadata has the wanted entries. Further entries do not matter."""
    if isinstance(there, Mapping) and isinstance(wanted, Mapping):
        return all(there.get(key) == text for key, text in wanted.items())
    return bool(there == wanted)


def _kind_of(obj: Object) -> Kind:
    """Return the object's kind for an Event, which needs no plural."""
    group, _, version = str(obj["apiVersion"]).rpartition("/")
    return Kind(group=group, version=version, plural="", name=str(obj["kind"]))
