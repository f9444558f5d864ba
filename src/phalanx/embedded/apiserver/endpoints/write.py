"""The pipelines of writes: create, update, patch, delete. All kinds share them; the rules of a kind are in its
Strategy.

A write is decided without interruption, from reading the current object to passing the result to the store, so no two
decisions can use the same state. Then it waits for the disk. The current object is decoded again from the stored bytes,
because readers share the stored object, which must not be edited. A write with webhooks is suspended while they are
called. Afterwards admission reads its objects again. If the written object itself has changed, a patch is applied again
to the new state, and any other write is a conflict.

A write without changes keeps the resourceVersion, is not stored, and causes no event. A write that removes the last
finalizer of an object that is being deleted removes the object.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from phalanx.embedded.apiserver.admission.policies import WHOLE, Beneath
from phalanx.embedded.apiserver.apimachinery.limits import CAUSES
from phalanx.embedded.apiserver.apimachinery.meta import objectmeta
from phalanx.embedded.apiserver.apimachinery.meta.resource import (
    Resource,
    ResourceStrategy,
    User,
    converted,
    stored_form,
)
from phalanx.embedded.apiserver.apimachinery.meta.status import (
    ApiError,
    Cause,
    already_exists,
    bad_request,
    conflict,
    invalid,
    invalid_value,
    not_found,
)
from phalanx.embedded.apiserver.apimachinery.patch import patch as patches
from phalanx.embedded.apiserver.apimachinery.patch import strategic
from phalanx.embedded.apiserver.endpoints import parts
from phalanx.embedded.apiserver.registry.kinds.pods.pod import PodStrategy
from phalanx.embedded.apiserver.registry.routing import Registry, RouteTarget
from phalanx.embedded.apiserver.storage.store import Object, Store, Stored, decode, encode
from phalanx.embedded.apiserver.transport import negotiation
from phalanx.embedded.apiserver.transport.options import not_unsigned

_GENERATE_ATTEMPTS = 8
_PATCH_ATTEMPTS = 5
_LISTS, _FLAGS = ("command", "ports"), ("stdin", "stdout", "stderr", "tty")  # parameters in the query of a connection
_SCHEME = "pkg/api/legacyscheme/scheme.go:30"  # the place in the source of the real server that its errors name
_STALE = "the object has been modified; please apply your changes to the latest version and try again"


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """How a write is meant, besides its object. `validation` is Ignore, Warn or Strict."""

    user: User
    manager: str
    dry_run: bool = False
    validation: str = "Warn"
    duplicates: Sequence[str] = ()  # paths that occur twice in the body


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenObject:
    """The result of a write. `created` tells 201 from 200."""

    stored: Stored
    created: bool = False
    warnings: Sequence[str] = ()


class _Overtaken(ApiError):
    """The object was changed while webhooks were asked."""


class ObjectWriter:
    """Creates and updates objects. Deletion is `delete.py`'s, except for its last step."""

    def __init__(self, store: Store, registry: Registry, knowledge: parts.Knowledge) -> None:
        self._store, self._registry, self._knowledge = store, registry, knowledge

    # --- create --------------------------------------------------------------------------------------------------

    async def create(
        self, target: RouteTarget, body: object, intent: Intent, *, applied: bool = False
    ) -> WrittenObject:
        """`applied` says that managedFields are made already. Raises `ApiError`."""
        obj, warnings = await self._new(target, body, intent, applied=applied)
        if intent.dry_run:
            return WrittenObject(stored=Stored(0, encode(obj), obj), created=True, warnings=warnings)
        stored = await self._put(target, obj)
        return WrittenObject(stored=stored, created=True, warnings=warnings)

    async def create_owned(
        self, owned: RouteTarget, owner: RouteTarget, bodies: tuple[object, object], intent: Intent
    ) -> None:
        """Create two objects in one commit, of which the second owns the first. `bodies`: both objects. Neither is
        created if one is refused, or if there are webhooks, which may take time. Raises `ApiError`."""
        if self._knowledge.has_webhooks:
            raise ApiError(404, "NotFound", "objects are created one by one while there are webhooks", details={})
        made, _ = await self._new(owner, bodies[1], intent)
        first = ordered(owned.resource, bodies[0])
        reference = {"apiVersion": made["apiVersion"], "kind": made["kind"]}
        reference |= {key: made["metadata"][key] for key in ("name", "uid")}
        objectmeta.metadata_of(first)["ownerReferences"] = [reference]
        held, _ = await self._new(owned, first, intent)
        for obj in (held, made):  # both are stored, or neither
            self._store.require_fits(obj)
        puts = self._put(owned, held), self._put(owner, made)  # in one turn of the event loop, so in one commit
        for put in puts:
            await put

    def _put(self, target: RouteTarget, obj: Object) -> Awaitable[Stored]:
        return self._store.put(target.resource.key, target.namespace, obj["metadata"]["name"], obj)

    async def _new(
        self, target: RouteTarget, body: object, intent: Intent, *, applied: bool = False
    ) -> tuple[Object, list[str]]:
        """Return a new object that may be stored in this turn of the event loop, and warnings. Raises `ApiError`."""
        resource = target.resource
        obj = ordered(resource, body)
        warnings = self._schema(resource, obj, intent, code=400)
        obj = stored_form(resource, obj)
        with _carried(warnings):
            return await self._admitted_new(target, obj, intent, warnings, applied=applied)

    async def _admitted_new(
        self, target: RouteTarget, obj: Object, intent: Intent, warnings: list[str], *, applied: bool
    ) -> tuple[Object, list[str]]:
        """Return the new object, after admission and validation, and `warnings` with those about it."""
        resource, strategy = target.resource, target.resource.strategy
        meta = objectmeta.metadata_of(obj)
        objectmeta.place(meta, resource, target.namespace)
        warnings += objectmeta.without_double_owners(meta)
        if meta.get("resourceVersion"):
            raise ApiError(500, "", "resourceVersion should not be set on objects to be created")
        objectmeta.fill_new(meta)
        if not meta.get("name") and meta.get("generateName"):
            meta["name"] = self._free_name(resource, target.namespace, meta["generateName"])
        strategy.default(obj)
        if not applied:
            self._knowledge.own_fields(resource, obj, None, intent.manager, "")
        self._knowledge.admit(resource, obj, None, intent.user)
        warnings += await self._knowledge.consult(resource, obj, None, intent.user, dry_run=intent.dry_run) or ()
        meta = objectmeta.metadata_of(obj)
        strategy.prepare_create(obj)  # a Job's labels name it, a pod's status tells of its gates
        if causes := [*self._knowledge.validate_new_meta(resource, obj), *strategy.validate(obj)]:
            raise invalid(resource.key[0], resource.kind, meta.get("name", ""), causes)
        warnings += self._knowledge.approve(resource, obj, None, intent.user)
        warnings += await self._knowledge.judge(resource, obj, None, intent.user, dry_run=intent.dry_run) or ()
        if self._store.head(resource.key, target.namespace, meta["name"]) is not None:
            raise already_exists(resource.group, resource.plural, meta["name"])
        warnings += strategy.warnings(obj, None)
        return obj, warnings

    def checked(self, resource: Resource, body: object, intent: Intent) -> Object:
        """An object that is not to be stored, in its schema's form. Raises `ApiError`."""
        obj = ordered(resource, body)
        self._schema(resource, obj, intent, code=400)
        return obj

    def _free_name(self, resource: Resource, namespace: str, prefix: str) -> str:
        for _ in range(_GENERATE_ATTEMPTS):
            name = objectmeta.generated(prefix)
            if self._store.head(resource.key, namespace, name) is None:
                break
        return name

    def _schema(
        self, resource: Resource, obj: Object, intent: Intent, *, code: int, merged: Object | None = None
    ) -> list[str]:
        """Drop unknown fields; warnings about them, or `ApiError` with Strict. `merged`: the strategic patch that was
        merged into `obj`."""
        shown = encode(obj).decode() if code == 422 else ""
        if merged is not None:
            shown = strategic.go_text(merged)
        try:
            unknown = self._knowledge.check_schema(resource, obj)
        except ApiError as error:
            if code == 422:
                why = error.message.partition(": ")[2]
                raise _bad_patch(shown, strategic.conversion_error(why) if merged is not None else why) from None
            raise
        if intent.validation == "Ignore" or not (unknown or intent.duplicates):
            return []
        found = [f'duplicate field "{path}"' for path in intent.duplicates[:CAUSES]]
        found += [f'unknown field "{path}"' for path in unknown[:CAUSES]]
        if intent.validation == "Strict":
            listed = ", ".join(found)
            if code == 400:
                kind = resource.kind
                where = f'{kind} in version "{resource.version}" cannot be handled as a {kind}'
                raise bad_request(f"{where}: strict decoding error: {listed}")
            raise _bad_patch(shown, f"strict decoding error: {listed}")
        return found

    # --- update --------------------------------------------------------------------------------------------------

    async def update(self, target: RouteTarget, body: object, intent: Intent) -> WrittenObject:
        """PUT. Raises `ApiError`."""
        resource = target.resource
        obj = ordered(resource, body)
        warnings = self._schema(resource, obj, intent, code=400)
        obj = stored_form(resource, obj)
        meta = objectmeta.metadata_of(obj)
        self._check_url(meta, target)
        old = self._store.head(resource.key, target.namespace, target.name)
        if old is None:
            if resource.strategy.allow_create_on_update and target.subresource is None:
                return await self.create(target, obj, intent)
            raise not_found(resource.group, resource.plural, target.name)
        self._check_version(resource, meta, old, target)
        warnings += objectmeta.without_double_owners(meta)
        return await self.replace(target, obj, old, intent, warnings)

    def _check_url(self, meta: objectmeta.Meta, target: RouteTarget) -> None:
        objectmeta.place(meta, target.resource, target.namespace)
        name = meta.get("name")
        if not name:
            why = "name must be provided"
            raise bad_request(f"the name of the object ({target.name} based on URL) was undeterminable: {why}")
        if name != target.name:
            raise bad_request(f"the name of the object ({name}) does not match the name on the URL ({target.name})")

    def _check_version(self, resource: Resource, meta: objectmeta.Meta, old: Stored, target: RouteTarget) -> None:
        raw = meta.get("resourceVersion") or ""
        if raw and (why := not_unsigned(raw)):
            raise ApiError(500, "", why)
        if raw in ("", "0"):
            if not resource.strategy.allow_unconditional_update:
                cause = invalid_value("metadata.resourceVersion", 0, "must be specified for an update")
                subject = f"{resource.plural}.{resource.group}" if resource.group else resource.plural
                raise _invalid_as(subject, resource, target.name, [cause])
        elif int(raw) != old.version:
            raise conflict(resource.group, resource.plural, target.name, _STALE)
        uid = meta.get("uid")
        if uid and uid != old.obj["metadata"]["uid"]:
            registry = f"{resource.group}/{resource.plural}" if resource.group else resource.plural
            why = other_uid(registry, old.obj["metadata"], uid)
            raise conflict(resource.group, resource.plural, target.name, why)

    async def replace(
        self,
        target: RouteTarget,
        obj: Object,
        old: Stored,
        intent: Intent,
        warnings: list[str],
        *,
        applied: bool = False,
    ) -> WrittenObject:
        """Store `obj` over `old`, by the rules for the whole object or for the subresource that `target` names."""
        with _carried(warnings):
            return await self._replaced(target, obj, old, intent, warnings, applied=applied)

    async def _replaced(
        self, target: RouteTarget, obj: Object, old: Stored, intent: Intent, warnings: list[str], *, applied: bool
    ) -> WrittenObject:
        resource, strategy = target.resource, target.resource.strategy
        before = old.obj
        meta, old_meta = obj["metadata"], before["metadata"]
        objectmeta.keep_system_fields(meta, old_meta)
        meta["resourceVersion"] = old_meta["resourceVersion"]  # tells validation that the object is not new
        strategy.default(obj)
        validate = self._prepare(target, obj, before)
        beneath = WHOLE if target.subresource is None else Beneath(name=target.sub)
        if self._knowledge.admit(resource, obj, before, intent.user, beneath) and beneath is not WHOLE:
            self._prepare(target, obj, before)  # undo forbidden changes by policies
        warnings = [*warnings, *await self._consulted(target, obj, old, intent, beneath)]
        if causes := [*self._knowledge.validate_changed_meta(resource, obj, before, target.sub), *validate()]:
            raise invalid(resource.key[0], resource.kind, target.name, causes)
        match target.sub:
            case "ephemeralcontainers":
                self._knowledge.admit_ephemeral(resource, obj, before)
            case "resize":
                self._knowledge.admit_resize(resource, obj, before)
        warnings = [*warnings, *self._knowledge.approve(resource, obj, before, intent.user, beneath)]
        warnings += await self._judged(target, obj, old, intent, beneath)
        if not applied:
            self._knowledge.own_fields(resource, obj, before, intent.manager, target.sub)
        warnings = [*warnings, *strategy.warnings(obj, before)]
        return await self.finish(target, obj, old, intent, warnings)

    async def admitted(
        self, target: RouteTarget, part: Resource, body: Object, intent: Intent, old: Object | None = None
    ) -> Object:
        """Return what admission makes of something that is written beneath an object and stored nowhere (Binding,
        Scale). Raises `ApiError`."""
        meta = {**(body.get("metadata") or {}), "namespace": target.namespace}
        meta["name"] = target.name or meta.get("name", "")
        found: Object = {"kind": part.kind, "apiVersion": part.api_version, **body, "metadata": meta}
        beneath = Beneath(name=target.sub, part=part)
        self._knowledge.admit(target.resource, found, old, intent.user, beneath)
        await self._knowledge.consult(target.resource, found, old, intent.user, beneath, dry_run=intent.dry_run)
        self._knowledge.approve(target.resource, found, old, intent.user, beneath)
        await self._knowledge.judge(target.resource, found, old, intent.user, beneath, dry_run=intent.dry_run)
        return found

    async def connecting(self, target: RouteTarget, user: User, query: Mapping[str, Sequence[str]]) -> None:
        """Admit a connection to a pod (exec, attach, port-forward, proxy), which is asked for by a query. Raises
        `ApiError`."""
        assert target.subresource is not None
        kind, version = target.subresource.kind, target.subresource.version
        part = Resource(group="", version=version, kind=kind, plural=target.resource.plural, namespaced=True)
        asked: Object = {key: values[0] for key, values in query.items() if key not in (*_LISTS, *_FLAGS)}
        asked |= {key: list(query[key]) for key in _LISTS if key in query}
        asked |= {key: query[key][0].lower() not in ("false", "0", "") for key in _FLAGS if key in query}
        meta = {"name": target.name, "namespace": target.namespace}
        obj = {"kind": kind, "apiVersion": part.api_version, **asked, "metadata": meta}
        beneath = Beneath(name=target.sub, part=part)
        await self._knowledge.allow_connection(target.resource, obj, user, beneath)

    async def _consulted(
        self, target: RouteTarget, obj: Object, old: Stored, intent: Intent, beneath: Beneath
    ) -> list[str]:
        resource = target.resource
        warnings = await self._knowledge.consult(resource, obj, old.obj, intent.user, beneath, dry_run=intent.dry_run)
        if warnings is None:
            return []
        self._check_unchanged(target, old)
        objectmeta.keep_system_fields(obj["metadata"], old.obj["metadata"])
        obj["metadata"]["resourceVersion"] = old.obj["metadata"]["resourceVersion"]
        self._prepare(target, obj, old.obj)  # a webhook may not change the fields that the user may not change
        return warnings

    async def _judged(
        self, target: RouteTarget, obj: Object, old: Stored, intent: Intent, beneath: Beneath
    ) -> list[str]:
        resource = target.resource
        warnings = await self._knowledge.judge(resource, obj, old.obj, intent.user, beneath, dry_run=intent.dry_run)
        if warnings is None:
            return []
        self._check_unchanged(target, old)
        return warnings

    def _check_unchanged(self, target: RouteTarget, old: Stored) -> None:
        """Raises `ApiError` if the object has changed while webhooks were asked about a write to it."""
        resource = target.resource
        now = self._store.head(resource.key, target.namespace, target.name)
        if now is None:
            raise not_found(resource.group, resource.plural, target.name)
        if now.version != old.version:
            error = conflict(resource.group, resource.plural, target.name, _STALE)
            raise _Overtaken(error.code, error.reason, error.message, details=error.details)

    def _prepare(self, target: RouteTarget, obj: Object, before: Object) -> Callable[[], list[Cause]]:
        """Restore the fields that may not change. Return the validation that must run after admission."""
        strategy = target.resource.strategy
        match target.sub, strategy:
            case "", _:
                strategy.prepare_update(obj, before)
                return lambda: [*strategy.validate(obj), *strategy.validate_update(obj, before)]
            case "finalize", _:  # for a namespace: its controller reports that it is empty
                obj["status"] = before.get("status") or {}
                return list
            case "resize", PodStrategy():
                strategy.prepare_resize(obj, before)
                return lambda: strategy.validate_resize(obj, before)
            case "ephemeralcontainers", PodStrategy():
                strategy.prepare_ephemeral(obj, before)
                return lambda: strategy.validate_ephemeral(obj, before)
        strategy.prepare_status_update(obj, before)
        return lambda: strategy.validate_status_update(obj, before)

    async def finish(
        self, target: RouteTarget, obj: Object, old: Stored, intent: Intent, warnings: Sequence[str] = ()
    ) -> WrittenObject:
        """The last step of every change to an existing object: nothing, a removal, or a new revision."""
        resource = target.resource
        if intent.dry_run:
            return WrittenObject(stored=Stored(old.version, encode(obj), obj), warnings=warnings)
        if obj == old.obj:
            return WrittenObject(stored=old, warnings=warnings)
        if removable(obj):
            last = as_revision(old.obj)
            removed = await self._store.delete(resource.key, target.namespace, target.name, last)
            shown = obj | {"metadata": obj["metadata"] | {"resourceVersion": str(removed.version)}}
            return WrittenObject(stored=Stored(removed.version, encode(shown), shown), warnings=warnings)
        stored = await self._store.put(resource.key, target.namespace, target.name, obj)
        return WrittenObject(stored=stored, warnings=warnings)

    # --- patch ---------------------------------------------------------------------------------------------------

    async def patch(
        self, target: RouteTarget, media: str, patch: object, intent: Intent, *, force: bool = False
    ) -> WrittenObject:
        """PATCH in any of its four languages. Raises `ApiError`."""
        for _ in range(_PATCH_ATTEMPTS - 1):
            with suppress(_Overtaken):
                return await self._patched(target, media, patch, intent, force=force)
        return await self._patched(target, media, patch, intent, force=force)

    async def _patched(
        self, target: RouteTarget, media: str, patch: object, intent: Intent, *, force: bool
    ) -> WrittenObject:
        resource = target.resource
        old = self._store.head(resource.key, target.namespace, target.name)
        if media == parts.APPLY_PATCH:
            return await self._apply(target, patch, old, intent, force=force)
        if old is None:
            raise not_found(resource.group, resource.plural, target.name)
        current = old.obj if resource.from_stored is None else converted(resource, old.obj)
        touched = parts.touched_fields(media, patch, current)
        made = self._knowledge.patched(resource, media, _unshared(current, touched), patch)
        obj = ordered(resource, made, patched=True)
        merged = patch if media == patches.STRATEGIC_MERGE_PATCH and isinstance(patch, dict) else None
        warnings = self._schema_of(resource, obj, touched, intent, merged)
        obj = stored_form(resource, obj)
        meta = objectmeta.metadata_of(obj)
        self._check_url(meta, target)
        version = meta.get("resourceVersion")
        if version and (why := not_unsigned(version)):
            raise ApiError(500, "", why)
        if version and version != old.obj["metadata"]["resourceVersion"]:
            raise conflict(resource.group, resource.plural, target.name, _STALE)
        warnings += objectmeta.without_double_owners(meta, " after mutating admission happens")
        return await self.replace(target, obj, old, intent, warnings)

    def _schema_of(
        self, resource: Resource, obj: Object, touched: Collection[str], intent: Intent, merged: Object | None
    ) -> list[str]:
        """The schema check of the fields that a patch has touched; the others are as they were stored."""
        part = {key: obj[key] for key in ("kind", "apiVersion", *touched) if key in obj}
        warnings = self._schema(resource, part, intent, code=422, merged=merged)
        for key in touched:
            if key in part:
                obj[key] = part[key]
            else:
                obj.pop(key, None)
        return warnings

    async def _apply(
        self, target: RouteTarget, patch: object, old: Stored | None, intent: Intent, *, force: bool
    ) -> WrittenObject:
        resource = target.resource
        if old is None and target.subresource is not None:
            raise not_found(resource.group, resource.plural, target.name)
        current = None if old is None else converted(resource, decode(old.data))
        obj = self._knowledge.applied(resource, current, patch, intent.manager, force, target.sub)
        meta = objectmeta.metadata_of(obj)
        self._check_url(meta, target)
        if old is None:
            if uid := meta.get("uid"):
                why = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
                raise conflict(resource.group, resource.plural, target.name, why)
            return await self.create(target, obj, intent, applied=True)
        version = meta.get("resourceVersion")
        if version and version != old.obj["metadata"]["resourceVersion"]:
            raise conflict(resource.group, resource.plural, target.name, _STALE)
        obj = ordered(resource, obj)
        warnings = self._schema(resource, obj, intent, code=422)
        return await self.replace(target, stored_form(resource, obj), old, intent, warnings, applied=True)


@contextmanager
def _carried(warnings: Sequence[str]) -> Iterator[None]:
    """Add to a refusal the warnings that the request has already got."""
    told = tuple(warnings)
    try:
        yield
    except ApiError as error:
        error.warnings = (*told, *error.warnings)
        raise


def _unshared(old: Object, touched: Collection[str]) -> Object:
    """A stored object to be changed in the fields that are named: those are copied, the others shared with readers.

    Nothing downstream may edit the others in place. Strategies do not: defaults are idempotent, and what an update
    puts back (`obj["status"] = old["status"]`) is shared just so. The record of managedFields, which is often most of
    an object and is never edited, is shared in any case.
    """
    copied = {key: decode(encode(old[key])) for key in touched if key in old and key != "metadata"}
    metadata = {key: value for key, value in old["metadata"].items() if key != "managedFields"}
    copied["metadata"] = decode(encode(metadata))
    if record := old["metadata"].get("managedFields"):
        copied["metadata"]["managedFields"] = record
    return old | copied


def ordered(resource: Resource, body: object, *, patched: bool = False) -> Object:
    """The object of a request, beginning with kind and apiVersion as `answers.head_of` expects. `patched`: it is the
    result of a patch.

    Raises `ApiError` 400 or 422 if it is not an object, or an object of another kind.
    """
    if body is None:
        body = {}
    if not isinstance(body, dict):
        raise negotiation.no_object(body, encode(body), resource.kind)
    kind, version = body.get("kind") or resource.kind, body.get("apiVersion") or resource.api_version
    for field, value in (("kind", kind), ("apiVersion", version)):
        if not isinstance(value, str):
            raise negotiation.no_type(field, value, encode(body), resource.kind)
    if kind != resource.kind or version != resource.api_version:
        raise _of_another_kind(resource, body, kind, version, patched=patched)
    obj = {"kind": kind, "apiVersion": version, "metadata": {} if body.get("metadata") is None else body["metadata"]}
    for key, value in body.items():
        obj.setdefault(key, value)
    return obj


def _bad_patch(patched: str, why: str) -> ApiError:
    """Return a 422 for a patch whose result is not an object of its kind."""
    return invalid("", "", "", [invalid_value("patch", patched, why)])


def _of_another_kind(resource: Resource, body: Object, kind: str, api_version: str, *, patched: bool) -> ApiError:
    """Return the error for a body of another kind or version than the path's."""
    group, _, version = api_version.rpartition("/")
    is_known = parts.is_known_kind(group, version, kind)
    unregistered = f'no kind "{kind}" is registered for version "{api_version}" in scheme "{_SCHEME}"'
    if resource.custom and (patched or api_version == resource.api_version):
        name = (body.get("metadata") or {}).get("name", "")
        field, value, wanted = ("kind", kind, resource.kind)
        if kind == resource.kind:
            field, value, wanted = ("apiVersion", api_version, resource.api_version)
        return invalid(resource.group, kind, name, [invalid_value(field, value, f"must be {wanted}")])
    if patched:
        unlike = f"unable to decode {group}/{version}, Kind={kind} into *{_package(resource)}.{resource.kind}"
        return _bad_patch(encode(body).decode(), unlike if is_known else unregistered)
    if (group, kind) == (resource.group, resource.kind) and (is_known or resource.custom):
        return bad_request(
            f"the API version in the data ({api_version}) does not match the expected API version "
            f"({resource.api_version})"
        )
    converting = f"converting ({version}.{kind}) to ({_package(resource)}.{resource.kind}): unknown conversion"
    why = converting if is_known else unregistered
    return bad_request(f'{kind} in version "{version}" cannot be handled as a {resource.kind}: {why}')


def _package(resource: Resource) -> str:
    """Return the Go package of a built-in kind."""
    return resource.group.partition(".")[0] or "core"


def removable(obj: Object) -> bool:
    """Is nothing left to wait for in an object that is being deleted?"""
    meta = obj["metadata"]
    if not meta.get("deletionTimestamp") or meta.get("finalizers"):
        return False
    if obj["kind"] == "Namespace" and obj["apiVersion"] == "v1" and (obj.get("spec") or {}).get("finalizers"):
        return False
    return not meta.get("deletionGracePeriodSeconds")


def as_revision(obj: Object) -> Object:
    """A copy of a stored object whose metadata may be edited (the version of a last state)."""
    return obj | {"metadata": dict(obj["metadata"])}


def other_uid(registry: str, meta: objectmeta.Meta, wanted: str) -> str:
    """Say that a stored object is another one than a write expects. `registry`: its place in etcd, for instance
    `apps/deployments`. `meta`: its metadata."""
    where = f"{meta['namespace']}/{meta['name']}" if meta.get("namespace") else meta["name"]
    return (
        f"StorageError: invalid object, Code: 4, Key: /registry/{registry}/{where}, ResourceVersion: 0, "
        f"AdditionalErrorMsg: Precondition failed: UID in precondition: {wanted}, UID in object meta: {meta['uid']}"
    )


def _invalid_as(subject: str, resource: Resource, name: str, causes: list[Cause]) -> ApiError:
    """A 422 that names the resource instead of the kind."""
    error = invalid(resource.group, resource.kind, name, causes)
    line = causes[0].line()
    details = dict(error.details or {}) | {"kind": resource.plural}
    return ApiError(422, "Invalid", f'{subject} "{name}" is invalid: {line}', details=details)


def is_graceful(strategy: ResourceStrategy) -> bool:
    """Does deletion of this kind have a grace period at all?"""
    return type(strategy).deletion_grace_s is not ResourceStrategy.deletion_grace_s
