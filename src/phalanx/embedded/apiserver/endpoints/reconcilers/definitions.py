"""Reconcile the CustomResourceDefinitions of a running server: serve their kinds, and delete the objects of a deleted
definition.

This is a controller inside the server. It gets every committed definition, and brings three things in line with the
definition. The first is the definition's status (whether its names are free, and whether it is served). The second is
the registry of the served kinds. The third are the objects of a deleted definition: the controller deletes them, and
then removes its own finalizer from the definition. Each decision uses the newest state, so the controller may get
changes late, twice or combined.

Sources: k8s.io/apiextensions-apiserver/pkg/controller (status, establish, finalizer).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace

from phalanx.embedded.apimachinery.meta.objectmeta import now_text
from phalanx.embedded.apimachinery.meta.resource import Object, Resource
from phalanx.embedded.apiserver.endpoints.delete import DeleteOptions, Deleter
from phalanx.embedded.apiserver.registry.crd.crd import (
    CLEANUP,
    KEY,
    condition,
    has_condition,
    resources_of,
    with_condition,
)
from phalanx.embedded.apiserver.registry.routing import Registry, RouteTarget
from phalanx.embedded.apiserver.storage.store import Event, Store, decode

_log = logging.getLogger(__name__)
_NAMES = ("plural", "singular", "kind", "listKind")


class DefinitionReconciler:
    """Keeps the registry of served kinds up to date. It contains the built-in kinds and the kinds of definitions. The
    caller calls `start` before the first request."""

    def __init__(self, store: Store, registry: Registry, deleter: Deleter, builtin: Sequence[Resource]) -> None:
        self._store, self._registry, self._deleter, self._builtin = store, registry, deleter, tuple(builtin)
        self._tasks: set[asyncio.Task[None]] = set()
        self._terminating: set[tuple[str, str]] = set()  # kinds whose definition is being deleted

    def start(self) -> None:
        """Serve the kinds of the established definitions, and continue work that was interrupted."""
        self._store.subscribe(self._heard)
        self._serve()
        for stored in self._store.scan(KEY):
            self._reconcile(stored.obj["metadata"]["name"])

    def _heard(self, events: Iterable[Event]) -> None:
        names = {event.name for event in events if event.key == KEY}
        if names:
            self._serve()
        # If the definition of a deleted object is being deleted, check the definition again: it is deleted after its
        # last object.
        names |= {_definition_name(event.key) for event in events if event.key in self._terminating}
        for name in names:
            self._reconcile(name)

    def _serve(self) -> None:
        definitions = [stored.obj for stored in self._store.scan(KEY)]
        established = [one for one in definitions if has_condition(one, "Established")]
        # The sort is stable. The registry searches kinds in this order if only a name without a group is known.
        established.sort(key=_is_outdated)
        self._terminating = {_key_of(one) for one in definitions if one["metadata"].get("deletionTimestamp")}
        self._registry.replace([*self._builtin, *(kind for one in established for kind in _served(one))])

    def _reconcile(self, name: str) -> None:
        task = asyncio.get_running_loop().create_task(self._bring_in_line(name))
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Log the error of a task. No retry is needed: the next change of the definition starts another task, which
        then also writes the state that could not be stored."""
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.warning("a CustomResourceDefinition is not reconciled yet: %s", error)

    async def _bring_in_line(self, name: str) -> None:
        head = self._store.head(KEY, "", name)
        if head is None:
            return
        if head.obj["metadata"].get("deletionTimestamp"):
            await self._clean_up(name)
            return
        definition: Object = decode(head.data)
        definition["status"] = accepted(definition, self._taken_names(name), now_text())
        if definition["status"] != head.obj.get("status"):
            await self._store.put(KEY, "", name, definition)

    def _taken_names(self, name: str) -> dict[str, set[str]]:
        """Return the names that other definitions of the group, or built-in kinds, use."""
        group = name.partition(".")[2]
        others = [s.obj for s in self._store.scan(KEY) if s.obj["metadata"]["name"] != name]
        accepted_names = [one["status"]["acceptedNames"] for one in others if one["spec"]["group"] == group]
        return taken_names(accepted_names, [one for one in self._builtin if one.group == group])

    async def _clean_up(self, name: str) -> None:
        """Delete the remaining objects of the definition. When no object is left, remove this server's finalizer from
        the definition, and delete the definition if it has no other finalizer."""
        head = self._store.head(KEY, "", name)
        if head is None or CLEANUP not in (head.obj["metadata"].get("finalizers") or ()):
            return
        kind = _any_kind(head.obj)
        places = [(space, one) for space, one, _ in self._store.walk(_key_of(head.obj))]
        for namespace, one in places:
            stored = self._store.head(_key_of(head.obj), namespace, one)
            if stored is not None and not stored.obj["metadata"].get("deletionTimestamp"):
                target = RouteTarget(resource=kind, namespace=namespace, name=one)
                await self._deleter.delete(target, DeleteOptions(policy="Background"))
        if next(self._store.walk(_key_of(head.obj)), None) is None:
            await self._release(name)

    async def _release(self, name: str) -> None:
        head = self._store.head(KEY, "", name)
        if head is None:
            return
        definition: Object = decode(head.data)
        finalizers = [one for one in definition["metadata"].get("finalizers") or () if one != CLEANUP]
        if finalizers:
            definition["metadata"]["finalizers"] = finalizers
            await self._store.put(KEY, "", name, definition)
        else:
            await self._store.delete(KEY, "", name, definition)


def _is_outdated(definition: Object) -> bool:
    return all(version.get("deprecated") for version in definition["spec"]["versions"])


def _served(definition: Object) -> list[Resource]:
    """Return the kinds of a definition. They lack the verb `create` if the definition is being deleted."""
    kinds = resources_of(definition)
    if not definition["metadata"].get("deletionTimestamp"):
        return kinds
    return [replace(kind, verbs=tuple(verb for verb in kind.verbs if verb != "create")) for kind in kinds]


def _any_kind(definition: Object) -> Resource:
    """Return a kind of the definition, even if no version of the definition is served. It is needed for the deletion of
    the definition's objects."""
    versions = [{**version, "served": True} for version in definition["spec"]["versions"]]
    return resources_of({**definition, "spec": {**definition["spec"], "versions": versions}})[0]


def _key_of(definition: Object) -> tuple[str, str]:
    return definition["spec"]["group"], definition["spec"]["names"]["plural"]


def _definition_name(key: tuple[str, str]) -> str:
    return f"{key[1]}.{key[0]}"


def taken_names(accepted_names: Iterable[Object], builtin: Iterable[Resource]) -> dict[str, set[str]]:
    """Return the names that are in use in a group, in two sets: "resources" (plural, singular and short names) and
    "kinds"."""
    resources: set[str] = set()
    kinds: set[str] = set()
    for names in accepted_names:
        resources |= {names.get("plural", ""), names.get("singular", ""), *(names.get("shortNames") or ())}
        kinds |= {names.get("kind", ""), names.get("listKind", "")}
    for one in builtin:
        resources |= {one.plural, one.singular, *one.short_names}
        kinds |= {one.kind, one.list_kind}
    return {"resources": resources - {""}, "kinds": kinds - {""}}


def accepted(definition: Object, taken: dict[str, set[str]], now: str) -> Object:
    """Return the status of a definition. The condition NamesAccepted is True if its names are free. A definition whose
    names are free also becomes Established, and stays so."""
    names, status = definition["spec"]["names"], definition.get("status") or {}
    conflict = _conflict(names, taken)
    conditions: Iterable[Object] = status.get("conditions") or ()
    if conflict:
        verdict = condition("NamesAccepted", "False", *conflict, now)
    else:
        verdict = condition("NamesAccepted", "True", "NoConflicts", "no conflicts found", now)
    conditions = with_condition(conditions, verdict)
    if not conflict:
        message = "the initial names have been accepted"
        conditions = with_condition(conditions, condition("Established", "True", "InitialNamesAccepted", message, now))
    elif not any(one["type"] == "Established" for one in conditions):
        message = "not all names are accepted"
        conditions = with_condition(conditions, condition("Established", "False", "NotAccepted", message, now))
    free = status.get("acceptedNames") or {} if conflict else names
    return {**status, "conditions": conditions, "acceptedNames": {"plural": "", "kind": "", **free}}


def _conflict(names: Object, taken: dict[str, set[str]]) -> tuple[str, str] | None:
    """Return the reason and the message about the first name that is in use; None if all names are free."""
    checks = [(field, "kinds" if "ind" in field else "resources", [names.get(field) or ""]) for field in _NAMES]
    checks.append(("shortNames", "resources", names.get("shortNames") or []))
    words = {"plural": "PluralConflict", "singular": "SingularConflict", "kind": "KindConflict",
             "listKind": "ListKindConflict", "shortNames": "ShortNamesConflict"}  # fmt: skip
    for field, sort, values in checks:
        for value in values:
            if value in taken[sort]:
                return words[field], f'"{value}" is already in use'
    return None
