"""Delete objects: check preconditions, and handle grace periods, finalizers and dependents.

The steps are those of registry.Store.Delete and rest.BeforeDelete in k8s.io/apiserver. The server does not change
dependents. It writes the propagation policy (orphan, foreground, background) as a finalizer. The garbage collector, an
ordinary client, reads the finalizer and acts on the dependents.

The server records the user who deletes a pod or a job in an annotation of the terminating object. The last state that
watches deliver has the annotation, too. So the node, the scheduler and the ledger can report that user. A deletion by a
system component (a user system:...) records no name."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from phalanx.embedded.apimachinery.meta import objectmeta
from phalanx.embedded.apimachinery.meta.resource import Resource, User
from phalanx.embedded.apimachinery.meta.status import (
    StatusError,
    bad_request,
    conflict,
    forbidden,
    invalid,
    invalid_value,
    not_found,
    not_supported,
)
from phalanx.embedded.apimachinery.schema import schema
from phalanx.embedded.apiserver.endpoints.decoding import SCHEME
from phalanx.embedded.apiserver.endpoints.parts.knowledge import Knowledge
from phalanx.embedded.apiserver.endpoints.write import as_revision, is_graceful
from phalanx.embedded.apiserver.registry.kinds.nodes.scheduling import SYSTEM
from phalanx.embedded.apiserver.registry.routing import RouteTarget
from phalanx.embedded.apiserver.storage.store import Object, Store, Stored, decode, encode
from phalanx.embedded.apiserver.transport import negotiation
from phalanx.embedded.apiserver.transport.options import is_dry_run, number
from phalanx.embedded.apiserver.transport.request import HttpRequest

ORPHAN, FOREGROUND = "orphan", "foregroundDeletion"
_OPTIONS = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"
_KIND = "DeleteOptions"
_POLICIES = ("Background", "Foreground", "Orphan")
_DELETED_BY = objectmeta.DELETED_BY
_PODS = ("", "pods")
_TRIES = 5  # the maximum number of admission checks of a deletion, if the object changes during each check
_TRACKING, _JOB_CONTROLLER = "batch.kubernetes.io/job-tracking", "kubernetes.io/job-controller"
# Pods, and objects of these API groups, record the user who deleted them, because other users ask why a job ended.
_SIGNED_GROUPS = ("batch", "kubeflow.org", "jobset.x-k8s.io", "trainer.kubeflow.org")
_PRIORITY_CLASSES = ("scheduling.k8s.io", "priorityclasses")
_PROTECTED_NAMESPACES = ("default", "kube-system", "kube-public")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteOptions:
    """The options of a deletion. `grace_s`: the grace period in seconds; None for the default of the kind. `policy`:
    the propagation policy; "" if the request has none. `by`: the name of the deleting user; "" for a system component.
    `user`: the user that admission gets; None if the API server itself deletes the object. `warnings`: a list; the
    deletion appends the warnings of admission to it."""

    grace_s: int | None = None
    policy: str = ""
    uid: str = ""
    version: str = ""
    dry_run: bool = False
    by: str = ""
    user: User | None = None
    warnings: list[str] = field(default_factory=list)


def delete_options(request: HttpRequest, body: object) -> DeleteOptions:
    """Return the options of a deletion: those of the body (a DeleteOptions object), or, if the request has no body
    (None), those of the query. Raises `StatusError` 400 or 422."""
    given = _from_query(request) if body is None else _decoded(body)
    grace = given.get("gracePeriodSeconds")
    if grace is not None and grace < 0:
        grace = 1  # by Kubernetes' API reference, a negative grace period means one second
    policy, orphan = given.get("propagationPolicy") or "", given.get("orphanDependents")
    if policy and policy not in _POLICIES:
        cause = not_supported("propagationPolicy", policy, ("Foreground", "Background", "Orphan", "nil"))
        raise invalid("meta.k8s.io", "DeleteOptions", "", [cause])
    if policy and orphan is not None:
        why = "orphanDependents and deletionPropagation cannot be both set"
        raise invalid("meta.k8s.io", "DeleteOptions", "", [invalid_value("propagationPolicy", policy, why)])
    if orphan is not None:
        policy = "Orphan" if orphan else "Background"
    conditions = given.get("preconditions") or {}
    return DeleteOptions(
        grace_s=grace,
        policy=policy,
        uid=conditions.get("uid") or "",
        version=conditions.get("resourceVersion") or "",
        dry_run=is_dry_run(given.get("dryRun") or (), _KIND),
        by="" if request.user.name.startswith("system:") else request.user.name,
        user=request.user,
    )


def delete_body(request: HttpRequest) -> object:
    """Return the value in the body of a DELETE; None if there is no body. Raises `StatusError` 400, 415."""
    value = negotiation.decoded(request.body, request.content_type) if request.body else None
    if why := negotiation.kind_problem(value):
        raise bad_request(why)
    return value


def _from_query(request: HttpRequest) -> Object:
    """Return the options that the query of the request sets. Raises `StatusError` 400."""
    if not request.query:
        return {}
    given: Object = {"gracePeriodSeconds": number(request, "gracePeriodSeconds")}
    if "orphanDependents" in request.query:
        given["orphanDependents"] = request.flag("orphanDependents")
    return given | {"propagationPolicy": request.text("propagationPolicy"), "dryRun": request.query.get("dryRun")}


def _decoded(body: Any) -> Object:
    """Return the options that the body sets. An invalid body prevents the deletion. Raises `StatusError` 400."""
    found: Object = body
    kind, version = found.get("kind") or _KIND, found.get("apiVersion") or "meta.k8s.io/v1"
    if kind != _KIND:
        raise bad_request(f'no kind "{kind}" is registered for version "{version}" in scheme "{SCHEME}"')
    try:
        schema.decode(schema.type_of(_OPTIONS), found)
    except schema.DecodeError as error:
        raise bad_request(str(error)) from None
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Deleted:
    """The result of a deletion. `gone`: True if the object is removed; False if it is only marked for deletion. A
    marked object stays until its finalizers are removed or its grace period has ended."""

    stored: Stored
    gone: bool


class Deleter:
    """Deletes single objects and collections."""

    def __init__(self, store: Store, knowledge: Knowledge) -> None:
        self._store, self._knowledge = store, knowledge

    async def delete(self, target: RouteTarget, options: DeleteOptions) -> Deleted:
        """Delete one object. Raises `StatusError`."""
        resource = target.resource
        if resource.key == _PRIORITY_CLASSES and target.name in SYSTEM:
            why = "this is a system priority class and cannot be deleted"
            raise forbidden(resource.group, resource.plural, target.name, why)
        old = await self._allowed(target, options)
        if resource.key == ("", "namespaces"):
            return await self._namespace(target, old, options)
        deleted = await self._by_steps(target, old, options)
        return Deleted(stored=unsigned(deleted.stored), gone=deleted.gone)

    async def _allowed(self, target: RouteTarget, options: DeleteOptions) -> Stored:
        """Ask admission about the deletion, and return the object as admission has seen it. Raises `StatusError`: 404,
        the refusal of admission, or 409 if the object changes each time that admission is asked."""
        resource = target.resource
        for _ in range(_TRIES):
            old = self._store.head(resource.key, target.namespace, target.name)
            if old is None:
                raise not_found(resource.group, resource.plural, target.name)
            check_preconditions(resource, target.name, old, options)
            suspended = await self._consulted(resource, old, options)
            now = self._store.head(resource.key, target.namespace, target.name)
            if not suspended or (now is not None and now.version == old.version):
                return old
        why = "the object changed each time that admission was asked about its deletion; try again"
        raise conflict(resource.group, resource.plural, target.name, why)

    async def _consulted(self, resource: Resource, old: Stored, options: DeleteOptions) -> bool:
        """Ask the admission policies and webhooks about the deletion. Return True if the request was suspended
        meanwhile, so that the object may have changed. Raises `StatusError` if admission refuses."""
        if options.user is None:
            return False
        warn = options.warnings.extend
        return await self._knowledge.allow_deletion(resource, old.obj, options.user, warn, dry_run=options.dry_run)

    async def _by_steps(self, target: RouteTarget, old: Stored, options: DeleteOptions) -> Deleted:
        resource = target.resource
        obj: Object = decode(old.data)
        marked, pending = _mark_gracefully(resource, obj, options)
        if pending:
            return Deleted(stored=old, gone=False)
        meta = obj["metadata"]
        if not old.obj["metadata"].get("deletionTimestamp"):
            resource.strategy.begin_deletion(obj, objectmeta.now_text())
        wanted = gc_finalizers(resource, meta.get("finalizers") or [], options.policy)
        if resource.key == _PODS and _TRACKING in wanted and not self._will_be_counted(obj):
            wanted.remove(_TRACKING)
        if wanted:
            meta["finalizers"] = wanted
        else:
            meta.pop("finalizers", None)
        if wanted and not marked:
            _mark_now(meta, counts=resource.strategy.deletion_counts)
        if wanted or (marked and meta["deletionGracePeriodSeconds"] > 0):
            _sign(resource, obj, old, options)
            return Deleted(stored=await self._keep(target, old, obj, options), gone=False)
        return await self._remove(target, old, obj, options, marked=marked)

    def _will_be_counted(self, pod: Object) -> bool:
        """Return False if the pod's Job has ended or was deleted, so that the Job controller of this server will not
        count the pod any more. The pod's tracking finalizer then has no effect, and no separate write is needed to
        remove it first."""
        meta = pod["metadata"]
        owner = next((one for one in meta.get("ownerReferences") or () if one.get("controller")), None)
        if owner is None or owner["kind"] != "Job":
            return True
        # Read the Job that is on the disk. A newer write of the Job may still fail, and then the pod would never be
        # counted.
        job = self._store.get(("batch", "jobs"), meta["namespace"], owner["name"])
        if job is None or job.obj["metadata"]["uid"] != owner["uid"]:
            return False
        conditions = (job.obj.get("status") or {}).get("conditions") or ()
        is_over = any(one["type"] in ("Complete", "Failed") and one["status"] == "True" for one in conditions)
        return not is_over or job.obj["spec"].get("managedBy", _JOB_CONTROLLER) != _JOB_CONTROLLER

    async def _keep(self, target: RouteTarget, old: Stored, obj: Object, options: DeleteOptions) -> Stored:
        if options.dry_run or obj == old.obj:
            return Stored(old.version, encode(obj), obj)
        return await self._store.put(target.resource.key, target.namespace, target.name, obj)

    async def _remove(
        self, target: RouteTarget, old: Stored, obj: Object, options: DeleteOptions, *, marked: bool
    ) -> Deleted:
        key, namespace, name = target.resource.key, target.namespace, target.name
        if options.dry_run:
            return Deleted(stored=Stored(old.version, encode(obj), obj), gone=True)
        last = as_revision(old.obj)
        if marked:
            # As in kube-apiserver, watches first show that the object is marked for deletion, and then its removal.
            # Both changes are in one commit.
            self._store.put(key, namespace, name, obj)
            last = as_revision(obj)
        _sign(target.resource, last, old, options)
        return Deleted(stored=await self._store.delete(key, namespace, name, last), gone=True)

    async def _namespace(self, target: RouteTarget, old: Stored, options: DeleteOptions) -> Deleted:
        """Mark the namespace for deletion. The namespace controller then deletes its objects and removes its
        finalizer."""
        resource = target.resource
        if target.name in _PROTECTED_NAMESPACES:
            raise forbidden("", "namespaces", target.name, "this namespace may not be deleted")
        obj: Object = decode(old.data)
        meta = obj["metadata"]
        if not meta.get("deletionTimestamp"):
            meta["deletionTimestamp"] = objectmeta.now_text()
            obj.setdefault("status", {})["phase"] = "Terminating"
            wanted = gc_finalizers(resource, meta.get("finalizers") or [], options.policy)
            meta.pop("finalizers", None)
            if wanted:
                meta["finalizers"] = wanted
            return Deleted(stored=await self._keep(target, old, obj, options), gone=False)
        if (obj.get("spec") or {}).get("finalizers") or meta.get("finalizers"):
            return Deleted(stored=old, gone=False)
        return await self._remove(target, old, obj, options, marked=False)

    async def collection(
        self, target: RouteTarget, found: Sequence[tuple[str, str, Stored]], options: DeleteOptions
    ) -> None:
        """First ask admission about all objects in `found`; if it refuses one deletion, delete no object. Then delete
        the objects, and skip those that no longer exist. Raises `StatusError`."""
        resource = target.resource
        for _, name, stored in found:
            check_preconditions(resource, name, stored, options)
            await self._consulted(resource, stored, options)
        waiting = []
        for namespace, name, asked in found:
            old = self._store.head(resource.key, namespace, name)
            if old is not None:
                one = RouteTarget(resource=resource, namespace=namespace, name=name)
                is_same = old.version == asked.version
                waiting.append(self._by_steps(one, old, options) if is_same else self._again(one, options))
        await asyncio.gather(*waiting)

    async def _again(self, target: RouteTarget, options: DeleteOptions) -> None:
        """Delete an object that has changed since admission was asked about it. An object that no longer exists is not
        an error."""
        try:
            await self.delete(target, options)
        except StatusError as error:
            if error.code != 404:
                raise


def check_preconditions(resource: Resource, name: str, old: Stored, options: DeleteOptions) -> None:
    """Check that the object has the uid and the resourceVersion that the options name. Raises `StatusError` 409."""
    meta = old.obj["metadata"]
    if options.uid and options.uid != meta["uid"]:
        raise conflict(
            resource.group, resource.kind, name,
            f"the UID in the precondition ({options.uid}) does not match the UID in record ({meta['uid']}). "
            "The object might have been deleted and then recreated",
        )  # fmt: skip
    if options.version and options.version != meta["resourceVersion"]:
        raise conflict(
            resource.group, resource.kind, name,
            f"the ResourceVersion in the precondition ({options.version}) does not match the ResourceVersion in "
            f"record ({meta['resourceVersion']}). The object might have been modified",
        )  # fmt: skip


def _mark_gracefully(resource: Resource, obj: Object, options: DeleteOptions) -> tuple[bool, bool]:
    """Mark an object for deletion if its kind has a grace period. Return two booleans. The first is True if this call
    has marked the object or shortened its grace period. The second is True if the deletion had begun earlier and this
    call does not change it."""
    if not is_graceful(resource.strategy):
        return False, False
    meta = obj["metadata"]
    if meta.get("deletionTimestamp"):
        before = meta.get("deletionGracePeriodSeconds")
        if before is None:
            return False, False
        if options.grace_s is None or options.grace_s >= before:
            return False, True
        since = dt.datetime.fromisoformat(meta["deletionTimestamp"]) - dt.timedelta(seconds=before)
        meta["deletionTimestamp"] = objectmeta.later_text(since, options.grace_s)
        meta["deletionGracePeriodSeconds"] = options.grace_s
        return True, False
    grace_s = resource.strategy.deletion_grace_s(obj, options.grace_s)
    meta["deletionTimestamp"] = objectmeta.later_text(dt.datetime.now(dt.UTC), grace_s)
    meta["deletionGracePeriodSeconds"] = grace_s
    _raise_generation(meta)
    return True, False


def _sign(resource: Resource, obj: Object, old: Stored, options: DeleteOptions) -> None:
    """Record the deleting user in the object. A user who is recorded already stays recorded, and clients cannot write
    the annotation."""
    if resource.key != ("", "pods") and resource.group not in _SIGNED_GROUPS:
        return
    meta = obj["metadata"] = dict(obj["metadata"])
    notes = dict(meta.pop("annotations", None) or {})
    first = notes.pop(_DELETED_BY, "") if old.obj["metadata"].get("deletionTimestamp") else ""
    if by := first or options.by:
        notes = {**notes, _DELETED_BY: by}
    else:
        notes.pop(_DELETED_BY, None)
    if notes:
        meta["annotations"] = notes


def unsigned(stored: Stored) -> Stored:
    """Return the object without the annotation that names the deleting user, because kube-apiserver's response has no
    such annotation."""
    meta = stored.obj["metadata"]
    if _DELETED_BY not in (meta.get("annotations") or {}):
        return stored
    others = {key: value for key, value in meta["annotations"].items() if key != _DELETED_BY}
    bare = {key: value for key, value in meta.items() if key != "annotations"}
    obj = stored.obj | {"metadata": bare | ({"annotations": others} if others else {})}
    return Stored(stored.version, encode(obj), obj)


def _mark_now(meta: objectmeta.Meta, *, counts: bool = True) -> None:
    """Mark an object for deletion that has finalizers and no grace period. `counts`: True if the start of the deletion
    sets a grace period and increments the generation, as it does for some kinds."""
    if not meta.get("deletionTimestamp"):
        meta["deletionTimestamp"] = objectmeta.now_text()
        if counts:
            _raise_generation(meta)
    if counts:
        meta["deletionGracePeriodSeconds"] = 0


def _raise_generation(meta: objectmeta.Meta) -> None:
    if meta.get("generation"):
        meta["generation"] += 1


def gc_finalizers(resource: Resource, present: Sequence[str], policy: str) -> list[str]:
    """Return the finalizers of a deleted object. The propagation policy determines which of the finalizers `orphan` and
    `foregroundDeletion` the result has: one of them, or neither."""
    if not policy:
        if ORPHAN in present:
            policy = "Orphan"
        elif FOREGROUND in present:
            policy = "Foreground"
        elif resource.strategy.default_propagation == "orphan":
            policy = "Orphan"
    kept = [one for one in present if one not in (ORPHAN, FOREGROUND)]
    match policy:
        case "Orphan":
            return [*kept, ORPHAN]
        case "Foreground":
            return [*kept, FOREGROUND]
        case _:
            return kept
