"""The pipelines of writes: create, update and patch. All kinds share them; the rules of a kind are in its strategy
(`ResourceStrategy`).

No other request is handled from the moment at which a write reads the current object until the result is passed to the
store. So no two writes can be based on the same state. Then the write waits for the disk. The current object is decoded
again from its stored bytes, because readers share the stored object, which must not be edited. A write with webhooks is
suspended while the server calls them. Afterwards admission reads the other objects that it needs again. If the written
object itself has changed meanwhile, a patch is applied again to the new state, and any other write fails with a
conflict.

A write without changes keeps the resourceVersion, is not stored, and causes no event. A write that removes the last
finalizer of an object under deletion removes the object.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import msgspec

from phalanx.embedded.apimachinery.meta import objectmeta
from phalanx.embedded.apimachinery.meta.resource import (
    Resource,
    ResourceStrategy,
    User,
    converted,
    stored_form,
)
from phalanx.embedded.apimachinery.meta.status import (
    Cause,
    StatusError,
    already_exists,
    bad_request,
    conflict,
    invalid,
    invalid_value,
    not_found,
)
from phalanx.embedded.apimachinery.patch.patch import APPLY_PATCH
from phalanx.embedded.apiserver.admission.policies import WHOLE, Beneath
from phalanx.embedded.apiserver.endpoints.decoding import Intent, from_applied, from_body, from_patch
from phalanx.embedded.apiserver.endpoints.parts.knowledge import Knowledge
from phalanx.embedded.apiserver.endpoints.parts.patching import apply_intent, record_fields
from phalanx.embedded.apiserver.registry.kinds.pods.pod import PodStrategy
from phalanx.embedded.apiserver.registry.routing import Registry, RouteTarget
from phalanx.embedded.apiserver.storage.store import Object, Store, Stored, decode, encode
from phalanx.embedded.apiserver.transport.options import not_unsigned

_encode_sorted = msgspec.json.Encoder(order="sorted").encode
_GENERATE_ATTEMPTS = 8
_PATCH_ATTEMPTS = 5
# the query parameters of a connection to a pod
_LISTS, _FLAGS = ("command", "ports"), ("stdin", "stdout", "stderr", "tty")
# error messages of kube-apiserver contain this position in its source code
_SCHEME = "pkg/api/legacyscheme/scheme.go:30"
_STALE = "the object has been modified; please apply your changes to the latest version and try again"


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenObject:
    """The result of a write. `created`: True if the write has created the object (status code 201 instead of 200)."""

    stored: Stored
    created: bool = False


class _Overtaken(StatusError):
    """Raised if the object was changed while the server called webhooks."""


class ObjectWriter:
    """Creates and updates objects. `delete.py` handles deletions, except for the last step when a write removes the
    last finalizer."""

    def __init__(self, store: Store, registry: Registry, knowledge: Knowledge) -> None:
        self._store, self._registry, self._knowledge = store, registry, knowledge

    # --- create --------------------------------------------------------------------------------------------------

    async def create(
        self, target: RouteTarget, body: object, intent: Intent, *, applied: bool = False
    ) -> WrittenObject:
        """Create an object. `applied`: True if its managedFields are already set. Raises `StatusError`."""
        obj = await self._new(target, body, intent, applied=applied)
        if intent.dry_run:
            return WrittenObject(stored=Stored(0, encode(obj), obj), created=True)
        return WrittenObject(stored=await self._put(target, obj), created=True)

    async def create_owned(
        self, owned: RouteTarget, owner: RouteTarget, bodies: tuple[object, object], intent: Intent
    ) -> None:
        """Create two objects in one commit; the second object owns the first. `bodies`: the bodies of the owned object
        and of its owner. If one object is refused, neither is created. If any webhook is registered, both objects are
        refused, because the commit cannot wait for webhooks. Raises `StatusError`."""
        if self._knowledge.has_webhooks:
            raise StatusError(
                404, "NotFound", "as long as webhooks exist, objects must be created one by one", details={}
            )
        made = await self._new(owner, bodies[1], intent)
        first = from_body(self._knowledge, owned.resource, bodies[0], intent)
        reference = {"apiVersion": made["apiVersion"], "kind": made["kind"]}
        reference |= {key: made["metadata"][key] for key in ("name", "uid")}
        objectmeta.metadata_of(first)["ownerReferences"] = [reference]
        with self._knowledge.counting(owner.namespace, owner.resource, made):
            held = await self._new(owned, first, intent)
        for obj in (held, made):  # refuse both objects if one of them is too large
            self._store.require_fits(obj)
        # Store both in one step of the event loop, and so in one commit.
        puts = self._put(owned, held), self._put(owner, made)
        for put in puts:
            await put

    def _put(self, target: RouteTarget, obj: Object) -> Awaitable[Stored]:
        return self._store.put(target.resource.key, target.namespace, obj["metadata"]["name"], obj)

    async def _new(self, target: RouteTarget, body: object, intent: Intent, *, applied: bool = False) -> Object:
        """Return a new object after all checks. The caller must store it in the same step of the event loop. Raises
        `StatusError`."""
        resource, strategy, knowledge = target.resource, target.resource.strategy, self._knowledge
        obj = stored_form(resource, from_body(knowledge, resource, body, intent))
        meta = objectmeta.metadata_of(obj)
        objectmeta.place(meta, resource, target.namespace)
        intent.warn(objectmeta.without_double_owners(meta))
        version = meta.get("resourceVersion")
        # kube-apiserver accepts a version in a dry run, because only etcd refuses it
        if version and not intent.dry_run:
            raise StatusError(500, "", "resourceVersion should not be set on objects to be created")
        objectmeta.fill_new(meta)
        if not meta.get("name") and meta.get("generateName"):
            meta["name"] = self._free_name(resource, target.namespace, meta["generateName"])
        strategy.default(obj)
        if not applied:
            record_fields(resource, obj, None, intent.manager, "")
        knowledge.admit(resource, obj, None, intent.user)
        intent.warn(await knowledge.consult(resource, obj, None, intent.user, dry_run=intent.dry_run) or ())
        meta = objectmeta.metadata_of(obj)
        # this sets, for example, the generated labels of a Job, and the condition of a pod with scheduling gates
        strategy.prepare_create(obj)
        if causes := [*knowledge.validate_new_meta(resource, obj), *strategy.validate(obj)]:
            raise invalid(resource.key[0], resource.kind, meta.get("name", ""), causes)
        intent.warn(strategy.warnings(obj, None))
        intent.warn(knowledge.approve(resource, obj, None, intent.user))
        intent.warn(await knowledge.judge(resource, obj, None, intent.user, dry_run=intent.dry_run) or ())
        if (present := self._store.head(resource.key, target.namespace, meta["name"])) is not None:
            is_terminating = bool(present.obj["metadata"].get("deletionTimestamp"))
            raise already_exists(resource.group, resource.plural, meta["name"], is_terminating=is_terminating)
        if version:
            meta["resourceVersion"] = version
        return obj

    def checked(self, resource: Resource, body: object, intent: Intent) -> Object:
        """Return the object in a body, decoded by the schema of its kind. This method is for kinds that are never
        stored. Raises `StatusError`."""
        return from_body(self._knowledge, resource, body, intent)

    def _free_name(self, resource: Resource, namespace: str, prefix: str) -> str:
        for _ in range(_GENERATE_ATTEMPTS):
            name = objectmeta.generated(prefix)
            if self._store.head(resource.key, namespace, name) is None:
                break
        return name

    # --- update --------------------------------------------------------------------------------------------------

    async def update(
        self, target: RouteTarget, body: object, intent: Intent, *, recorded: bool = False
    ) -> WrittenObject:
        """Replace an object (PUT). `recorded`: True if its managedFields are already set. Raises `StatusError`."""
        resource = target.resource
        obj = stored_form(resource, from_body(self._knowledge, resource, body, intent))
        meta = objectmeta.metadata_of(obj)
        _check_url(meta, target)
        old = self._store.head(resource.key, target.namespace, target.name)
        if old is None:
            if resource.strategy.allow_create_on_update and target.subresource is None:
                return await self.create(target, obj, intent)
            raise not_found(resource.group, resource.plural, target.name)
        _check_uid(resource, meta, old, intent)
        _check_version(resource, meta, old, target)
        intent.warn(objectmeta.without_double_owners(meta))
        return await self.replace(target, obj, old, intent, recorded=recorded)

    async def replace(
        self, target: RouteTarget, obj: Object, old: Stored, intent: Intent, *, recorded: bool = False
    ) -> WrittenObject:
        """Store `obj` over `old`. The write follows the rules for the whole object, or for the subresource that
        `target` names. `recorded`: True if the managedFields of `obj` are already set."""
        resource, strategy = target.resource, target.resource.strategy
        before = old.obj
        meta, old_meta = obj["metadata"], before["metadata"]
        objectmeta.keep_system_fields(meta, old_meta)
        # validation recognizes an existing object by its version
        meta["resourceVersion"] = old_meta["resourceVersion"]
        strategy.default(obj)
        beneath = WHOLE if target.subresource is None else Beneath(name=target.sub)
        self._knowledge.admit(resource, obj, before, intent.user, beneath)
        # Restore fields only after admission, as in kube-apiserver, because admission may have changed any field.
        validate = self._prepare(target, obj, before)
        await self._consulted(target, obj, old, intent, beneath)
        if causes := [*self._knowledge.validate_changed_meta(resource, obj, before, target.sub), *validate()]:
            raise invalid(resource.key[0], resource.kind, target.name, causes)
        if not target.sub:
            intent.warn(strategy.warnings(obj, before))
        match target.sub:
            case "ephemeralcontainers":
                self._knowledge.admit_ephemeral(resource, obj, before)
            case "resize":
                self._knowledge.admit_resize(resource, obj, before)
        intent.warn(self._knowledge.approve(resource, obj, before, intent.user, beneath))
        await self._judged(target, obj, old, intent, beneath)
        if not recorded:
            record_fields(resource, obj, before, intent.manager, target.sub)
        return await self.finish(target, obj, old, intent)

    async def admitted(
        self, target: RouteTarget, part: Resource, body: Object, intent: Intent, old: Object | None = None
    ) -> Object:
        """Run admission on an object that is written to a subresource of another object and is not stored itself
        (Binding, Scale). Return the object after admission. Raises `StatusError`."""
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
        """Run admission for a connection to a pod (exec, attach, port-forward, proxy). `query`: the parameters of the
        request. Raises `StatusError`."""
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

    async def _consulted(self, target: RouteTarget, obj: Object, old: Stored, intent: Intent, beneath: Beneath) -> None:
        resource = target.resource
        warnings = await self._knowledge.consult(resource, obj, old.obj, intent.user, beneath, dry_run=intent.dry_run)
        if warnings is None:
            return
        intent.warn(warnings)
        self._check_unchanged(target, old)
        objectmeta.keep_system_fields(obj["metadata"], old.obj["metadata"])
        obj["metadata"]["resourceVersion"] = old.obj["metadata"]["resourceVersion"]
        # webhooks may have changed fields that this write may not change; undo these changes
        self._prepare(target, obj, old.obj)

    async def _judged(self, target: RouteTarget, obj: Object, old: Stored, intent: Intent, beneath: Beneath) -> None:
        resource = target.resource
        warnings = await self._knowledge.judge(resource, obj, old.obj, intent.user, beneath, dry_run=intent.dry_run)
        if warnings is not None:
            intent.warn(warnings)
            self._check_unchanged(target, old)

    def _check_unchanged(self, target: RouteTarget, old: Stored) -> None:
        """Check that the object has not changed while webhooks were asked about a write to it. Raises `StatusError`."""
        resource = target.resource
        now = self._store.head(resource.key, target.namespace, target.name)
        if now is None:
            raise not_found(resource.group, resource.plural, target.name)
        if now.version != old.version:
            error = conflict(resource.group, resource.plural, target.name, _STALE)
            raise _Overtaken(error.code, error.reason, error.message, details=error.details)

    def _prepare(self, target: RouteTarget, obj: Object, before: Object) -> Callable[[], list[Cause]]:
        """If `obj` changes fields that this write may not change, set them to their values in `before`. Return a
        function that validates `obj`; the caller calls it after admission."""
        strategy = target.resource.strategy
        match target.sub, strategy:
            case "", _:
                strategy.prepare_update(obj, before)
                return lambda: [*strategy.validate(obj), *strategy.validate_update(obj, before)]
            case "finalize", _:  # a write by the namespace controller, after the namespace has become empty
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

    async def finish(self, target: RouteTarget, obj: Object, old: Stored, intent: Intent) -> WrittenObject:
        """Finish a change of an existing object: store nothing, remove the object, or store a new revision."""
        resource = target.resource
        if intent.dry_run:
            return WrittenObject(stored=Stored(old.version, encode(obj), obj))
        # Python's == treats True and 1 as equal, but their JSON differs
        if obj == old.obj and _encode_sorted(obj) == _encode_sorted(old.obj):
            return WrittenObject(stored=old)
        if removable(obj):
            last = as_revision(old.obj)
            await self._store.delete(resource.key, target.namespace, target.name, last)
            # as in kube-apiserver, the response has the old version, and only watches show the version of the deletion
            return WrittenObject(stored=Stored(old.version, encode(obj), obj))
        stored = await self._store.put(resource.key, target.namespace, target.name, obj)
        return WrittenObject(stored=stored)

    # --- patch ---------------------------------------------------------------------------------------------------

    async def patch(
        self, target: RouteTarget, media: str, patch: object, intent: Intent, *, force: bool = False
    ) -> WrittenObject:
        """Change an object by a patch (PATCH) in one of the four patch formats. `force`: True to take over fields of
        other managers. Raises `StatusError`."""
        for _ in range(_PATCH_ATTEMPTS - 1):
            with suppress(_Overtaken):
                return await self._patched(target, media, patch, intent, force=force)
        return await self._patched(target, media, patch, intent, force=force)

    async def _patched(
        self, target: RouteTarget, media: str, patch: object, intent: Intent, *, force: bool
    ) -> WrittenObject:
        resource = target.resource
        old = self._store.head(resource.key, target.namespace, target.name)
        if media == APPLY_PATCH:
            return await self._apply(target, patch, old, intent, force=force)
        if old is None:
            raise not_found(resource.group, resource.plural, target.name)
        current = old.obj if resource.from_stored is None else converted(resource, old.obj)
        obj = stored_form(resource, from_patch(self._knowledge, resource, media, current, patch, intent))
        meta = objectmeta.metadata_of(obj)
        _check_url(meta, target)
        _check_patched_version(meta, old, target)
        intent.warn(objectmeta.without_double_owners(meta, " after mutating admission happens"))
        return await self.replace(target, obj, old, intent)

    async def _apply(
        self, target: RouteTarget, patch: object, old: Stored | None, intent: Intent, *, force: bool
    ) -> WrittenObject:
        resource = target.resource
        if old is None and target.subresource is not None:
            raise not_found(resource.group, resource.plural, target.name)
        current = None if old is None else converted(resource, decode(old.data))
        obj = apply_intent(resource, current, patch, intent.manager, force, target.sub)
        obj = from_applied(self._knowledge, resource, obj, patch)
        meta = objectmeta.metadata_of(obj)
        _check_url(meta, target)
        if old is None:
            if uid := meta.get("uid"):
                why = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
                raise conflict(resource.group, resource.plural, target.name, why)
            return await self.create(target, obj, intent, applied=True)
        _check_patched_version(meta, old, target)
        return await self.replace(target, stored_form(resource, obj), old, intent, recorded=True)


# --- preconditions ----------------------------------------------------------------------------------------------------


def _check_url(meta: objectmeta.Meta, target: RouteTarget) -> None:
    objectmeta.place(meta, target.resource, target.namespace)
    name = meta.get("name")
    if not name:
        why = "name must be provided"
        raise bad_request(f"the name of the object ({target.name} based on URL) was undeterminable: {why}")
    if name != target.name:
        raise bad_request(f"the name of the object ({name}) does not match the name on the URL ({target.name})")


def _check_uid(resource: Resource, meta: objectmeta.Meta, old: Stored, intent: Intent) -> None:
    uid = meta.get("uid")
    if uid and uid != old.obj["metadata"]["uid"]:
        name = meta["name"]
        why = other_uid(resource, old.obj["metadata"], uid, dry_run=intent.dry_run)
        raise conflict(resource.group, resource.plural, name, why)


def _check_version(resource: Resource, meta: objectmeta.Meta, old: Stored, target: RouteTarget) -> None:
    raw = meta.get("resourceVersion") or ""
    if raw and (why := not_unsigned(raw)):
        raise StatusError(500, "", why)
    if raw in ("", "0"):
        if not resource.strategy.allow_unconditional_update:
            cause = invalid_value("metadata.resourceVersion", 0, "must be specified for an update")
            subject = f"{resource.plural}.{resource.group}" if resource.group else resource.plural
            raise _invalid_as(subject, resource, target.name, [cause])
    elif int(raw) != old.version:
        raise conflict(resource.group, resource.plural, target.name, _STALE)


def _check_patched_version(meta: objectmeta.Meta, old: Stored, target: RouteTarget) -> None:
    """Check that the resourceVersion in a patch, if there is one, is the current version of the object. Raises
    `StatusError`."""
    version = meta.get("resourceVersion")
    if not version or version == old.obj["metadata"]["resourceVersion"]:
        return
    if why := not_unsigned(version):
        raise StatusError(500, "", why)
    raise conflict(target.resource.group, target.resource.plural, target.name, _STALE)


def removable(obj: Object) -> bool:
    """Return True if an object under deletion has no finalizer and no grace period left."""
    meta = obj["metadata"]
    if not meta.get("deletionTimestamp") or meta.get("finalizers"):
        return False
    if obj["kind"] == "Namespace" and obj["apiVersion"] == "v1" and (obj.get("spec") or {}).get("finalizers"):
        return False
    return not meta.get("deletionGracePeriodSeconds")


def as_revision(obj: Object) -> Object:
    """Return a copy of a stored object, so that the caller can edit its metadata, for example set the version of its
    last state."""
    return obj | {"metadata": dict(obj["metadata"])}


# Kinds that kube-apiserver stores in etcd under another name than their plural.
_ETCD_NAMES = {
    ("", "replicationcontrollers"): "controllers",
    ("", "endpoints"): "services/endpoints",
    ("", "nodes"): "minions",
    ("", "services"): "services/specs",
    ("networking.k8s.io", "ingresses"): "ingress",
}


def other_uid(resource: Resource, meta: objectmeta.Meta, wanted: str, *, dry_run: bool = False) -> str:
    """Return the message for a write that expects another uid than the stored object has. `meta`: the metadata of the
    stored object."""
    return _broken_precondition(
        resource, meta, f"UID in precondition: {wanted}, UID in object meta: {meta['uid']}", dry_run
    )


def other_version(resource: Resource, meta: objectmeta.Meta, wanted: str) -> str:
    """Return the message for a write that expects another resourceVersion than the stored object has."""
    found = f"ResourceVersion in precondition: {wanted}, ResourceVersion in object meta: {meta['resourceVersion']}"
    return _broken_precondition(resource, meta, found, False)


def _broken_precondition(resource: Resource, meta: objectmeta.Meta, difference: str, dry_run: bool) -> str:
    """Return the message of a broken precondition. As in kube-apiserver, the message contains the object's path in
    etcd. For a dry run, the first part of this path is left out."""
    place = f"{resource.group}/{resource.plural}" if resource.custom else resource.plural
    place = _ETCD_NAMES.get(resource.key, place) if dry_run else f"registry/{_ETCD_NAMES.get(resource.key, place)}"
    where = f"{meta['namespace']}/{meta['name']}" if meta.get("namespace") else meta["name"]
    return (
        f"StorageError: invalid object, Code: 4, Key: /{place}/{where}, ResourceVersion: 0, "
        f"AdditionalErrorMsg: Precondition failed: {difference}"
    )


def _invalid_as(subject: str, resource: Resource, name: str, causes: list[Cause]) -> StatusError:
    """Return an error 422. Its message names the resource instead of the kind."""
    error = invalid(resource.group, resource.kind, name, causes)
    line = causes[0].line()
    details = dict(error.details or {}) | {"kind": resource.plural}
    return StatusError(422, "Invalid", f'{subject} "{name}" is invalid: {line}', details=details)


def is_graceful(strategy: ResourceStrategy) -> bool:
    """Return True if the deletion of objects of this kind has a grace period."""
    return type(strategy).deletion_grace_s is not ResourceStrategy.deletion_grace_s
