"""Serve the metrics of other schedulers, and the responses and streams at their API paths, so that programs for these
schedulers also work with Phalanx. When Phalanx writes a status in place of another scheduler, the module also records
the Events that this scheduler would record."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from phalanx.client.connection import Object
from phalanx.client.kind import NODES, Kind
from phalanx.client.tally import MetricFamily
from phalanx.dialects.enabled import ANSWERED, EVENTS, FIGURES, JOURNALS, RECORDED, VIEWS
from phalanx.dialects.frame.dialect import Figures, GangHistory, GangView
from phalanx.kube.capacity.dialect_watch import DialectWatch
from phalanx.kube.status.gang_views import GangViews
from phalanx.kube.write.events import EventReporter


class DialectReports:
    """The metrics, API responses and Events of the enabled dialects. `objects`: a function that gets kinds and returns
    the objects of each kind that has a cache. `reporter`: the object that records Events."""

    def __init__(
        self,
        watch: DialectWatch,
        views: GangViews,
        objects: Callable[[Iterable[Kind]], dict[Kind, Mapping[str, Object]]],
        reporter: EventReporter,
        now_s: Callable[[], float],
    ) -> None:
        self._watch, self._views, self._objects, self._now_s = watch, views, objects, now_s
        self._event = reporter.object_event
        self._figures: dict[str, Figures[Any]] = {}
        instance = str(uuid.uuid4())
        self._journals: dict[str, GangHistory] = {
            name: JOURNALS[name](instance) for name in watch.dialects if name in JOURNALS
        }
        self._noted = asyncio.Event()  # set, and replaced by a new object, when a journal gets a new entry

    def see_gang(self, name: str, before: GangView | None, told: GangView | None) -> None:
        """Record in the journal of the dialect `name` that the gang has changed. `before`, `told`: the dialect's
        earlier and present view of the gang (the data about the gang that it gets)."""
        if name in self._journals:
            self._journals[name].saw(before, told, self._now_s())
            self._noted.set()
            self._noted = asyncio.Event()

    def see_all(self, name: str, objects: Mapping[Kind, Mapping[str, Object]]) -> None:
        """Update the metrics of the dialect `name` from the present data about its gangs and from `objects`."""
        if name in self._figures:
            self._figures[name].look(self._watch.defined[name], list(self._views.told[name].values()), objects)

    def see_status(self, gang: str, kind: Kind, before: Object, after: Object) -> None:
        """Update the metrics after the status of an object was written. `before`, `after`: the object before and after
        the write."""
        name, told = self._views.of(gang)
        if name in self._figures and told is not None:
            self._figures[name].wrote(self._watch.defined[name], told, kind, before, after)

    def see_write(self, gang: str, kind: Kind, before: Object | None, after: Object) -> None:
        """Record the Events that the other scheduler would record for this write."""
        name, told = self._views.of(gang)
        if told is None or kind not in RECORDED.get(name, ()):
            return
        head = {"apiVersion": kind.api_version, "kind": kind.name}
        for one in EVENTS[name](told, before, {**after, **head}):
            self._event(kind_of(one.about), one.about["metadata"], one.reason, one.text, warning=one.warning)

    def counted(self) -> Callable[[], Iterable[MetricFamily]]:
        """Begin to count the dialects' metrics, and return a function that returns their present values. The metrics
        have the names that the other schedulers use."""
        self._figures = {name: FIGURES[name]() for name in self._views.told if name in FIGURES}
        return lambda: [family for figures in self._figures.values() for family in figures.families()]

    def view(
        self, group: str, path: tuple[str, ...], query: Mapping[str, str]
    ) -> Callable[[], Object | list[Object]] | None:
        """Return a function that computes a dialect's response for a path of an API group; None if no enabled dialect
        serves the path. The function works on copies, so that it can run in any thread."""
        name = ANSWERED.get(group, "")
        if name not in self._watch.defined:
            return None
        journal = self._journals.get(name)
        if journal is not None and (noted := journal.view(path, query, self._now_s())) is not None:
            return lambda: noted
        objects = {**self._objects(self._watch.dialects[name].answer_kinds), **self._objects([NODES])}
        copies = {kind: dict(found) for kind, found in objects.items()}
        return partial(
            VIEWS[name], self._watch.defined[name], list(self._views.told[name].values()), copies, path, query
        )

    def stream(
        self, group: str, path: tuple[str, ...], query: Mapping[str, str]
    ) -> AsyncIterator[Sequence[Object]] | None:
        """Return the stream that a dialect serves at this path; None if there is no stream at this path, so that the
        caller must use `view`."""
        journal = self._journals.get(ANSWERED.get(group, ""))
        lines = journal.stream(path, query) if journal is not None else None
        return self._follow(lines) if lines is not None else None

    async def _follow(self, lines: Iterable[Sequence[Object]]) -> AsyncIterator[Sequence[Object]]:
        for found in lines:
            if found:
                yield found
            else:
                await self._noted.wait()


def kind_of(obj: Object) -> Kind:
    """Return the object's kind for an Event. The field `plural` is empty, because Events do not need it."""
    group, _, version = str(obj["apiVersion"]).rpartition("/")
    return Kind(group=group, version=version, plural="", name=str(obj["kind"]))
