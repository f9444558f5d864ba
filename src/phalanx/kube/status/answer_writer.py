"""Write a dialect's answer to an object of another scheduler's API: create the object, delete it, or patch the fields
that differ. (A dialect is the part of Phalanx that reads another scheduler's objects; its *answer* has the objects and
fields that the other scheduler would write.)"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeAlias

from phalanx.client.connection import ApiError, ApiRefusal, Connection, Object
from phalanx.client.informer import Informer
from phalanx.client.kind import Kind
from phalanx.dialects.frame.dialect import Answer
from phalanx.kube.read.labels import FIELD_MANAGER
from phalanx.kube.status.dialect_reports import DialectReports

log = logging.getLogger(__name__)

_NOT_FOUND, _CONFLICT = 404, 409
AGAIN_S, _UNKNOWN_AGAIN_S = 1.0, 5.0  # pauses after a conflict, and after a write without an answer

Statuses: TypeAlias = dict[tuple[Kind, str], Object]  # (kind, key of an object) -> its status


class AnswerWriter:
    """The writer of a dialect's answers (the objects and fields that another scheduler would write). `written`: a set
    to which this class adds the keys of all annotations that it writes. `reports`: the object that records metrics and
    Events about each write."""

    def __init__(
        self,
        api: Connection,
        informers: Callable[[Kind], Informer],
        written: set[str],
        reports: DialectReports,
    ) -> None:
        self._api, self._informers, self._written, self._reports = api, informers, written, reports
        # (kind, key) -> the uid of the object, and the refused write.
        self._refused: dict[tuple[Kind, str], tuple[str, Answer]] = {}

    async def write(self, about: str, answer: Answer, known: Statuses) -> float | None:
        """Write one object, or fields of one object, for a gang or dialect. Return the number of seconds after which
        the write must be checked again; None if a check at the next change is enough. `known`: the statuses from which
        the dialect computed the answer."""
        try:
            return await self._put(about, answer, known)
        except ApiRefusal as error:
            # After a conflict, or if the object was deleted, the cached object is outdated. So the answer is not
            # recorded as refused: the server may accept it for the newer object.
            log.info("%s %s was not written: %s", answer.kind.name, answer.key, error)
            if error.code == _CONFLICT:
                return AGAIN_S
            if error.code != _NOT_FOUND:
                self._refused[answer.kind, answer.key] = (self._uid(answer), answer)
            return None
        except ApiError as error:
            log.info("%s %s was not written: %s", answer.kind.name, answer.key, error)
            return _UNKNOWN_AGAIN_S

    async def _put(self, about: str, answer: Answer, known: Statuses) -> float | None:
        """Write the object or its fields. Return the number of seconds after which the write must be checked again, as
        `write` does. Raises ApiError if a request fails."""
        if self._refused.get((answer.kind, answer.key)) == (self._uid(answer), answer):
            return None
        self._refused.pop((answer.kind, answer.key), None)
        informer = self._informers(answer.kind)
        existing = informer.objects.get(answer.key)
        space, _, name = answer.key.rpartition("/")
        if answer.gone:
            uid = existing["metadata"]["uid"] if existing is not None else ""
            if existing is not None and answer.uid in ("", uid) and "deletionTimestamp" not in existing["metadata"]:
                how = {"propagationPolicy": "Background", "preconditions": {"uid": uid}}
                await self._api.delete(answer.kind, name, space, how)
            return None
        if existing is None and answer.body is not None:
            existing = await self._api.create(answer.kind, answer.body, space)
            informer.observe(existing)
            self._reports.see_write(about, answer.kind, None, existing)
        if existing is not None and answer.spec is not None:
            existing = await self._specify(answer, existing)
        if existing is not None and answer.finalizers is not None:
            await self._finalize(answer, existing)
        if existing is not None and answer.annotations is not None:
            before, existing = existing, await self._annotate(answer, existing)
            if existing is not before:
                self._reports.see_write(about, answer.kind, before, existing)
        if existing is not None and answer.metadata is not None:
            existing = await self._belong(answer, existing)
        if existing is None or answer.status is None:
            return None
        old = existing.get("status") or {}
        if answer.status == old:
            return None
        # The answer was computed from the known status. If another writer (such as a controller that closes a queue)
        # has changed the status since then, the answer must be computed again.
        if old != known[answer.kind, answer.key]:
            return AGAIN_S
        meta = {name: existing["metadata"][name] for name in ("uid", "resourceVersion")}
        body = {"metadata": meta, "status": _merging(old, answer.status)}
        patch = partial(self._api.patch, answer.kind, name, body, space, fieldManager=FIELD_MANAGER)
        try:
            after = await patch(subresource="" if answer.plain else "status")
        except ApiRefusal as error:
            if error.code != _NOT_FOUND or answer.plain:
                raise
            after = await patch()  # the kind's definition may have no status subresource
        informer.observe(after)
        known[answer.kind, answer.key] = after.get("status") or {}
        self._reports.see_status(about, answer.kind, existing, after)
        self._reports.see_write(about, answer.kind, existing, after)
        return None

    async def _patch(self, answer: Answer, body: Object) -> Object:
        space, _, name = answer.key.rpartition("/")
        after = await self._api.patch(answer.kind, name, body, space, fieldManager=FIELD_MANAGER)
        self._informers(answer.kind).observe(after)
        return after

    def status(self, answer: Answer) -> Object:
        existing = self._informers(answer.kind).objects.get(answer.key) or {}
        return existing.get("status") or {}

    def _uid(self, answer: Answer) -> str:
        """Return the uid of the object that this answer (the fields to write) is about; "" if the object is unknown."""
        existing = self._informers(answer.kind).objects.get(answer.key)
        return str(existing["metadata"]["uid"]) if existing is not None else ""

    async def _specify(self, answer: Answer, existing: Object) -> Object:
        spec = existing.get("spec") or {}
        if all(spec.get(key) == value for key, value in (answer.spec or {}).items()):
            return existing
        body = {"metadata": {"uid": existing["metadata"]["uid"]}, "spec": answer.spec}
        return await self._patch(answer, body)

    async def _annotate(self, answer: Answer, existing: Object) -> Object:
        old, wanted = existing["metadata"].get("annotations") or {}, answer.annotations or {}
        self._written.update(wanted)
        if all(old.get(key) == text for key, text in wanted.items()):
            return existing
        body = {"metadata": {"uid": existing["metadata"]["uid"], "annotations": dict(wanted)}}
        return await self._patch(answer, body)

    async def _belong(self, answer: Answer, existing: Object) -> Object:
        meta, wanted = existing["metadata"], answer.metadata or {}
        if all(_says(meta.get(key), each) for key, each in wanted.items()):
            return existing
        body = {"metadata": {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"], **wanted}}
        return await self._patch(answer, body)

    async def _finalize(self, answer: Answer, existing: Object) -> None:
        """Replace those finalizers of the object that have the dialect's prefix by the finalizers in the answer."""
        meta = existing["metadata"]
        prefix = f"{answer.kind.group}/"
        others = [one for one in meta.get("finalizers") or () if not one.startswith(prefix)]
        own = [] if "deletionTimestamp" in meta else list(answer.finalizers or ())
        kept = [one for one in meta.get("finalizers") or () if one in (answer.finalizers or ())]
        wanted = [*others, *(own or kept)]
        if wanted == list(meta.get("finalizers") or ()):
            return
        body = {"metadata": {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"], "finalizers": wanted}}
        await self._patch(answer, body)


def _merging(old: Mapping[str, object], new: Mapping[str, object]) -> Object:
    """Return the merge patch that turns `old` into `new`."""
    found: Object = {key: None for key in old if key not in new}
    for key, value in new.items():
        before = old.get(key)
        if isinstance(before, Mapping) and isinstance(value, Mapping):
            if before != value:
                found[key] = _merging(before, value)
        elif key not in old or before != value:
            found[key] = value
    return found


def _says(existing: object, wanted: object) -> bool:
    """Return whether `existing`, a part of an object's metadata, contains all entries of `wanted` (and perhaps
    others)."""
    if isinstance(existing, Mapping) and isinstance(wanted, Mapping):
        return all(existing.get(key) == text for key, text in wanted.items())
    return bool(existing == wanted)
