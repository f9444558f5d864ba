"""Admission policies at work: finds those in the store, and applies them to one write.

A write of a kind that no policy is about costs a look-up: which are about which is found once, and again when a policy
or a binding has changed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from phalanx.embedded.apiserver.apimachinery.expressions.admission_policy import (
    GROUP,
    Patches,
    Reader,
    Review,
    mutate,
    validate,
)
from phalanx.embedded.apiserver.apimachinery.meta.resource import Object, Resource, User
from phalanx.embedded.apiserver.apimachinery.patch import patch as patches
from phalanx.embedded.apiserver.apimachinery.schema import schema
from phalanx.embedded.apiserver.apimachinery.schema.typed import merged
from phalanx.embedded.apiserver.storage.store import Event, Store


class Policies:
    """The policies of one server."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._reader = Reader(policies=self._objects, param=self._param)
        store.subscribe(self._changed)

    def _changed(self, events: list[Event]) -> None:
        if any(event.key[0] == GROUP for event in events):
            self._reader.forget()

    def mutate(
        self, resource: Resource, obj: Object, old: Object | None, user: User, *, reinvoked: bool = False
    ) -> None:
        """Change `obj` in place as the mutating policies say, and fill defaults again. Raises `ApiError`."""
        review = self.review(resource, obj, old, user)
        if not self._reader.bound("mutatingadmissionpolicies", review):
            return
        changed = mutate(review, self._reader, PATCHES, reinvoked=reinvoked)
        if changed is obj:
            return
        obj.clear()
        obj.update(changed)
        if resource.schema_name:
            schema.decode(schema.type_of(resource.schema_name), obj)
        resource.strategy.default(obj)

    def validate(self, resource: Resource, obj: Object, old: Object | None, user: User) -> list[str]:
        """Warnings; raises `ApiError` where a policy denies."""
        return validate(self.review(resource, obj, old, user), self._reader)

    def review(
        self, resource: Resource, obj: Object, old: Object | None, user: User, *, dry_run: bool = False
    ) -> Review:
        meta = obj["metadata"]
        space = self._store.get(("", "namespaces"), "", meta["namespace"]) if meta.get("namespace") else None
        return Review(
            resource=resource,
            operation="CREATE" if old is None else "UPDATE",
            name=meta.get("name", ""),
            obj=obj,
            old=old,
            namespace=space.obj if space is not None else None,
            user=user,
            dry_run=dry_run,
        )

    def _objects(self, plural: str) -> Iterable[Object]:
        return (stored.obj for stored in self._store.scan((GROUP, plural)))

    def _param(self, api_version: str, kind: str, namespace: str, name: str) -> Object | None:
        """A parameter is named by its kind, the store is keyed by plural: the kinds of the group are looked through."""
        group = api_version.rpartition("/")[0]
        keys = [key for key in self._store.keys() if key[0] == group]  # noqa: SIM118 a method, not a mapping's
        for place in ((key, space, name) for key in keys for space in (namespace, "")):
            found = self._store.get(*place)
            if found is not None and found.obj["kind"] == kind:
                return found.obj
        return None


def _merge(resource: Resource, obj: Object, value: Any) -> Object:
    """An apply configuration: lists merge by their keys where the kind has such, as in a server-side apply."""
    changed: Object = merged(obj, value, schema.type_of(resource.schema_name) if resource.schema_name else None)
    return changed


def _json(resource: Resource, obj: Object, value: Any) -> Object:
    return patches.apply_patch(patches.JSON_PATCH, obj, value, resource.schema_name or None)


PATCHES = Patches(merge=_merge, json=_json)
