"""The only calls by which the engine uses the modules about kinds: schema, admission, field ownership, tables and
conversion.

The *engine* is the part of the server that handles all kinds alike: the store, the watches, the pipelines of writes,
and HTTP. The engine uses the rules of single kinds only through the functions of this module. So the modules about
kinds do not depend on the engine, and this module shows all connections between the engine and these modules."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from phalanx.embedded.apimachinery.caching import cached
from phalanx.embedded.apimachinery.meta import metadata
from phalanx.embedded.apimachinery.meta.objectmeta import now_text
from phalanx.embedded.apimachinery.meta.resource import Object, Resource, User, converted
from phalanx.embedded.apimachinery.meta.status import Cause, bad_request
from phalanx.embedded.apimachinery.patch import managed_fields
from phalanx.embedded.apimachinery.patch import patch as patches
from phalanx.embedded.apimachinery.patch.apply import apply
from phalanx.embedded.apimachinery.patch.json_patch import go_kind, unknown_fields, wrong_operation
from phalanx.embedded.apimachinery.patch.patch import APPLY_PATCH as APPLY_PATCH
from phalanx.embedded.apimachinery.schema import schema
from phalanx.embedded.apiserver.admission import chain, pod_security, volcano
from phalanx.embedded.apiserver.admission.hooks.webhooks import Webhooks
from phalanx.embedded.apiserver.admission.policies import WHOLE, Beneath, Forms, Policies, RightsOf
from phalanx.embedded.apiserver.admission.resource_quota import HeldQuota
from phalanx.embedded.apiserver.auth.rbac import MASTERS
from phalanx.embedded.apiserver.registry.crd.crd import CustomStrategy
from phalanx.embedded.apiserver.registry.discovery import Catalogue
from phalanx.embedded.apiserver.registry.kinds.policy import signing
from phalanx.embedded.apiserver.registry.routing import Registry, method_not_allowed
from phalanx.embedded.apiserver.storage.store import Store, Stored, decode, encode
from phalanx.embedded.apiserver.transport import negotiation
from phalanx.embedded.apiserver.transport.go_json import duplicates
from phalanx.embedded.apiserver.transport.request import HttpRequest, Response
from phalanx.embedded.apiserver.transport.tables import table

_OF_EVERY_VERSION = ("Status", "APIVersions", "APIGroup", "APIGroupList", "APIResourceList")
_WITH_SPEC = ("", "ephemeralcontainers", "resize")  # the subresources whose writes change the containers of a pod


class Committed:
    """The stored objects, as admission plug-ins read them (`chain.Reader`)."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting: list[Object] = []
        self._counted: list[tuple[str, Resource, Object]] = []

    def get(self, group: str, plural: str, namespace: str, name: str) -> Object | None:
        found = self._store.get((group, plural), namespace, name)
        return found.obj if found is not None else None

    def list(self, group: str, plural: str, namespace: str = "") -> Iterator[Object]:
        return (one.obj for one in self._store.scan((group, plural), namespace or None))

    def decided(self, group: str, plural: str, namespace: str = "") -> Iterator[Object]:
        return (one.obj for one in self._store.decided((group, plural), namespace or None))

    def addressed(self) -> Iterator[Object]:
        yield from self.decided(*chain.SERVICES)
        yield from self._waiting

    @contextmanager
    def keeping_addresses(self, resource: Resource, obj: Object) -> Iterator[None]:
        """Reserve the addresses of `obj`, if it is a service, while this context is open: no other service gets them
        while webhooks are asked about `obj`."""
        kept = [obj] if resource.key == chain.SERVICES else []
        self._waiting += kept
        try:
            yield
        finally:
            self._waiting = [one for one in self._waiting if one is not obj]

    @contextmanager
    def counting(self, namespace: str, resource: Resource, obj: Object) -> Iterator[None]:
        """Count `obj` for quotas while this context is open. The object is not stored yet, because the server stores it
        in one commit with a second object."""
        counted = (namespace, resource, obj)
        self._counted.append(counted)
        try:
            yield
        finally:
            self._counted.remove(counted)

    def held(self, namespace: str) -> HeldQuota:
        tally = self._store.tally
        objects, size_bytes = tally.objects(namespace), tally.size_bytes(namespace)
        for _, resource, obj in [one for one in self._counted if one[0] == namespace]:
            objects, size_bytes = objects + Counter([resource.key]), size_bytes + len(encode(obj))
        return HeldQuota(objects=objects, size_bytes=size_bytes)


class Knowledge:
    """The functions about kinds that the pipelines of writes call."""

    def __init__(
        self,
        store: Store,
        forms: Forms,
        guard: Callable[[Resource, Object, Object | None, User], None],
        rights: RightsOf,
    ) -> None:
        """`forms`: returns all served versions of a kind. `guard`: raises `StatusError` for a write that would give its
        user new rights. `rights`: returns the rights of a user."""
        self._store, self._guard = store, guard
        self._policies = Policies(store, forms, rights)
        self._webhooks = Webhooks(store)
        self._reader = Committed(store)

    def counting(self, namespace: str, resource: Resource, obj: Object) -> AbstractContextManager[None]:
        """Count `obj` for quotas while this context is open (see `Committed.counting`)."""
        return self._reader.counting(namespace, resource, obj)

    @property
    def has_webhooks(self) -> bool:
        """Return True if any webhook is registered."""
        return self._webhooks.any

    def check_schema(self, resource: Resource, obj: Object) -> list[str]:
        """Convert `obj` to the form of its schema, remove its unknown fields, and return their paths. Raises
        `StatusError` 400."""
        try:
            return self.decode(resource, obj)
        except schema.DecodeError as error:
            kind = resource.kind
            raise bad_request(
                f'{kind} in version "{resource.version}" cannot be handled as a {kind}: {error}'
            ) from None

    def decode(self, resource: Resource, obj: Object) -> list[str]:
        """Do the same as `check_schema`, but raise `DecodeError` if the object does not match the schema of a built-in
        kind."""
        if isinstance(resource.strategy, CustomStrategy):
            return resource.strategy.decode(obj)
        return schema.decode(schema.type_of(resource.schema_name), obj) if resource.schema_name else []

    def validate_new_meta(self, resource: Resource, obj: Object) -> list[Cause]:
        return metadata.validate_create(resource, obj)

    def validate_changed_meta(self, resource: Resource, obj: Object, old: Object, subresource: str) -> list[Cause]:
        return metadata.validate_update(resource, obj, old, subresource)

    def admit(self, resource: Resource, obj: Object, old: Object | None, user: User, beneath: Beneath = WHOLE) -> bool:
        """Run mutating admission on a new or changed object, before validation. For a write to a subresource, only
        policies and the quota of bytes apply. The quota of bytes does not apply to writes of the control plane, which
        must be able to report that a pod has ended. Return True if a policy has changed the object. Raises
        `StatusError` 403."""
        if beneath is WHOLE:
            if old is None and resource.group == signing.GROUP:
                signing.ask_as(obj, user)
            chain.admit(resource, obj, old, self._reader)
        if old is not None and beneath.part is None and MASTERS not in user.groups:
            chain.grown(resource, obj, old, self._reader)
        return self._policies.mutate(resource, obj, old, user, beneath=beneath)

    def admit_ephemeral(self, resource: Resource, obj: Object, old: Object) -> None:
        """Check that a node would start the new ephemeral containers. Raises `StatusError` 403."""
        chain.ephemeral_containers(resource, obj, old, self._reader)

    def admit_resize(self, resource: Resource, obj: Object, old: Object) -> None:
        """Check that limit ranges and quotas allow the resize of a pod. Raises `StatusError` 403."""
        chain.resized(resource, obj, old, self._reader)

    async def consult(
        self,
        resource: Resource,
        obj: Object,
        old: Object | None,
        user: User,
        beneath: Beneath = WHOLE,
        *,
        dry_run: bool,
    ) -> list[str] | None:
        """Call the mutating webhooks of a write, and apply their changes to `obj`. Return their warnings. The caller is
        suspended meanwhile, so objects that it read before may have changed. If no webhook applies, return None without
        suspending the caller. Raises `StatusError`."""
        if not self._webhooks.any:
            return None
        review = self._policies.review(resource, obj, old, user, beneath=beneath, dry_run=dry_run)
        hooks = self._webhooks.about(review)
        if not hooks:
            return None

        def settle(changed: Object) -> Object:
            again: Object = {}
            self._become(beneath.part or resource, again, changed)
            if beneath is WHOLE:
                chain.admit(resource, again, old, self._reader)
            self._policies.mutate(resource, again, old, user, beneath=beneath, reinvoked=True)
            return again

        with self._reader.keeping_addresses(resource, obj):
            found = await self._webhooks.mutate(review, hooks, settle)
        if found is None:
            return None
        changed, warnings = found
        if changed is not obj:
            self._become(beneath.part or resource, obj, changed)
        if beneath is WHOLE:
            # Check quotas and namespaces again. No other request runs between this check and the storing of the object.
            chain.admit(resource, obj, old, self._reader)
        return warnings

    async def allow_deletion(
        self, resource: Resource, old: Object, user: User, warn: Callable[[list[str]], object], *, dry_run: bool
    ) -> bool:
        """Ask policies and webhooks about a deletion. Return True if the request was suspended meanwhile, so that the
        object may have changed. `warn`: called with the warnings of policies. Raises `StatusError` if a policy or
        webhook refuses."""
        volcano.check_deletion(resource, old, self._reader)
        warn(self._policies.validate(resource, None, old, user, operation="DELETE"))
        if not self._webhooks.any:
            return False
        review = self._policies.review(resource, None, old, user, operation="DELETE", dry_run=dry_run)
        return await self._webhooks.allow(review)

    async def allow_connection(self, resource: Resource, obj: Object, user: User, beneath: Beneath) -> None:
        """Ask policies and webhooks about a connection to a pod. Raises `StatusError` if one of them refuses."""
        self.approve(resource, obj, None, user, beneath, operation="CONNECT")
        if self._webhooks.any:
            review = self._policies.review(resource, obj, None, user, beneath=beneath, operation="CONNECT")
            await self._webhooks.allow(review)

    async def judge(
        self,
        resource: Resource,
        obj: Object,
        old: Object | None,
        user: User,
        beneath: Beneath = WHOLE,
        *,
        dry_run: bool,
    ) -> list[str] | None:
        """Ask the validating webhooks about an object that will be stored. Return their warnings. The caller is
        suspended meanwhile, so objects that it read before may have changed. If no webhook applies, return None without
        suspending the caller. Raises `StatusError` if a webhook refuses."""
        if not self._webhooks.any:
            return None
        review = self._policies.review(resource, obj, old, user, beneath=beneath, dry_run=dry_run)
        with self._reader.keeping_addresses(resource, obj):
            warnings = await self._webhooks.validate(review)
        if warnings is not None and beneath is WHOLE:
            chain.admit(resource, obj, old, self._reader)  # check quotas and namespaces once more
        return warnings

    def _become(self, resource: Resource, obj: Object, changed: Object) -> None:
        """Replace the content of `obj` by the object that a webhook returned, `changed`, converted to the form of its
        schema and with defaults. Raises `StatusError`."""
        obj.clear()
        obj.update(decode(encode(changed)))
        if resource.to_stored is None:  # otherwise webhooks get and return objects in the stored form
            self.check_schema(resource, obj)
        resource.strategy.default(obj)

    def approve(
        self,
        resource: Resource,
        obj: Object,
        old: Object | None,
        user: User,
        beneath: Beneath = WHOLE,
        operation: str = "",
    ) -> list[str]:
        """Run validating admission on a valid object, and return its warnings. Raises `StatusError`."""
        warnings = []
        if beneath is WHOLE:
            self._guard(resource, obj, old, user)
            volcano.check(resource, obj, old, self._reader)
        if beneath.name in _WITH_SPEC:
            warnings = pod_security.review(resource, obj, old, self._reader)
        decided = self._policies.validate(resource, obj, old, user, beneath=beneath, operation=operation)
        return warnings + decided

    def own_fields(self, resource: Resource, obj: Object, old: Object | None, manager: str, subresource: str) -> None:
        """Record in managedFields which fields this write has set."""
        if old is not None:
            managed_fields.track_update(resource, obj, old, manager, subresource, now_text())
        elif managed_fields.is_tracked_from_birth(resource, obj):
            managed_fields.track_create(resource, obj, manager, now_text())
        else:
            obj["metadata"].pop("managedFields", None)

    def patched(self, resource: Resource, media: str, current: Object, patch: object) -> Object:
        """Return `current` after a patch. The result shares with `current` the parts that the patch does not touch.
        Raises `StatusError`."""
        return patches.apply_patch(media, current, patch, resource.schema_name or None)

    def applied(
        self, resource: Resource, current: Object | None, intent: object, manager: str, force: bool, subresource: str
    ) -> Object:
        """Return the object after a server-side apply of `intent`. Raises `StatusError` 409 for conflicts."""
        return apply(resource, current, intent, manager, force=force, subresource=subresource, now=now_text())


def table_row(
    resource: Resource, include: str, *, version: str = "v1", headers: bool = True
) -> Callable[[Stored], bytes]:
    """Return a function that renders an object as a Table with one row. Watches use it."""

    def render(stored: Stored) -> bytes:
        meta = {"resourceVersion": str(stored.version)}
        shown, now_s = [converted(resource, stored.obj)], time.time()
        found = table.as_table(resource, shown, include, now_s=now_s, metadata=meta, version=version)
        return encode(found if headers else found | {"columnDefinitions": None})

    return render


def table_list(
    resource: Resource, found: Sequence[Stored], meta: Mapping[str, object], include: str, version: str
) -> bytes:
    """Return a Table with one row for each object."""
    objects = [converted(resource, one.obj) for one in found]
    return encode(table.as_table(resource, objects, include, now_s=time.time(), metadata=meta, version=version))


def empty(resource: Resource) -> Object:
    """Return an empty object of a kind, as Go writes one: with the structs that Go never omits."""
    obj: Object = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": {}}
    if resource.schema_name:
        schema.decode(schema.type_of(resource.schema_name), obj)
    return obj


@cached(1024)
def is_known_kind(group: str, version: str, kind: str) -> bool:
    """Return True if Kubernetes has this kind, even if this server does not serve it."""
    if kind in _OF_EVERY_VERSION:
        return True
    wanted = {"group": group, "version": version, "kind": kind}
    return any(wanted in one.get("x-kubernetes-group-version-kind", ()) for one in schema.definitions().values())


def check_patch_media(resource: Resource, media: str) -> None:
    """Check that the kind accepts the patch format of a PATCH. Raises `StatusError` 415."""
    if media == APPLY_PATCH:
        return
    known = media in (patches.JSON_PATCH, patches.MERGE_PATCH, patches.STRATEGIC_MERGE_PATCH)
    if not known or (resource.custom and media == patches.STRATEGIC_MERGE_PATCH):
        raise patches.unsupported_media_type(custom=resource.custom)


def patch_body(media: str, body: bytes, validation: str) -> tuple[Any, list[str]]:
    """Return the patch in the body of a PATCH, and messages about fields that occur twice or that no operation of a
    JSON patch has. Raises `StatusError` 400."""
    if media == APPLY_PATCH:
        return negotiation.decode_apply(body), []
    prefix = "" if validation == "Ignore" or media == patches.STRATEGIC_MERGE_PATCH else "error decoding patch: "
    patch = negotiation.decode_patch(body, prefix)
    if validation == "Ignore":
        return _or_empty(media, patch), []
    found = [f'duplicate field "{path}"' for path in duplicates(body, patch)]
    if media == patches.JSON_PATCH:
        if why := wrong_operation(patch):
            raise bad_request(f"{prefix}json: cannot unmarshal {why}")
        found += [f'unknown field "{path}"' for path in unknown_fields(patch or ())]
        return patch or [], [f"json patch {one}" for one in found]
    if patch is not None and not isinstance(patch, dict):
        go_type = "map[string]interface {}"
        raise bad_request(f"{prefix}json: cannot unmarshal {go_kind(patch)} into Go value of type {go_type}")
    return _or_empty(media, patch), found


def _or_empty(media: str, patch: object) -> Any:
    """Return the patch; for `null`, return an empty patch, without operations or fields. `null` as a merge patch is an
    error, so it is returned unchanged."""
    if patch is not None or media == patches.MERGE_PATCH:
        return patch
    return [] if media == patches.JSON_PATCH else {}


def touched_fields(media: str, patch: object, current: Object) -> set[str]:
    """Return the top-level fields of an object that a patch can change. `metadata` is always one of them."""
    found = {"metadata"}
    match media, patch:
        case ((patches.MERGE_PATCH | patches.STRATEGIC_MERGE_PATCH), dict()) if (
            media == patches.MERGE_PATCH or not {"$patch", "$retainKeys"} & patch.keys()
        ):
            return found | {key for key in patch if key not in ("kind", "apiVersion")}
        case patches.JSON_PATCH, list():
            pointers = [one.get(key) for one in patch if isinstance(one, dict) for key in ("path", "from")]
            first = {text.split("/")[1] for text in pointers if isinstance(text, str) and text.startswith("/")}
            if len(patch) and all(isinstance(one, dict) and str(one.get("path")).startswith("/") for one in patch):
                return found | {key for key in first if key not in ("kind", "apiVersion")}
    return found | {key for key in current if key not in ("kind", "apiVersion")}


class Discovery:
    """The discovery documents: /api, /apis and /openapi. `last`: a function that returns the groups that clients search
    last for a resource without a group."""

    def __init__(self, registry: Registry, last: Callable[[], tuple[str, ...]] = tuple) -> None:
        self._registry, self._catalogue = registry, Catalogue(registry, last)

    def answer(self, request: HttpRequest, path: str) -> Response | None:
        """Return the response of discovery; None if the path does not belong to discovery. Raises `StatusError` 405,
        406."""
        found = self._catalogue.answer(path, request.accept, request.host)
        if found is None:
            return None
        if request.method != "GET" and not (path.startswith("/openapi") or self._is_aggregated(path)):
            raise method_not_allowed()
        if not request.accept and not path.startswith("/openapi"):
            raise negotiation.not_acceptable()
        if path not in ("/api", "/apis") and request.accept and all(one.as_kind for one in request.accept):
            raise negotiation.no_such_form()
        if request.accept and request.accept[0].media != negotiation.JSON and found.media == negotiation.JSON:
            media, body = negotiation.render(request.accept, decode(found.body))
            return Response(body=body, media=media, headers=((b"vary", b"Accept"),))
        headers = ((b"etag", found.etag.encode()), (b"vary", b"Accept"))
        return Response(body=found.body, media=found.media, headers=headers)

    def _is_aggregated(self, path: str) -> bool:
        """Return True if kube-apiserver's aggregator responds at `path`. The aggregator ignores the HTTP method."""
        _, root, *below = path.split("/")
        return root == "apis" and (len(below) < 2 or not self._registry.builds_in(below[0]))
