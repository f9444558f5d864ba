"""Schema, admission and validation of an object that is written."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from phalanx.embedded.apimachinery.meta import metadata
from phalanx.embedded.apimachinery.meta.resource import Object, Resource, User
from phalanx.embedded.apimachinery.meta.status import Cause, bad_request
from phalanx.embedded.apimachinery.schema import schema
from phalanx.embedded.apiserver.admission import chain, pod_security, volcano
from phalanx.embedded.apiserver.admission.hooks.webhooks import Webhooks
from phalanx.embedded.apiserver.admission.policies import WHOLE, Beneath, Forms, Policies, RightsOf
from phalanx.embedded.apiserver.auth.rbac import MASTERS
from phalanx.embedded.apiserver.endpoints.parts.committed import Committed
from phalanx.embedded.apiserver.registry.crd.crd import CustomStrategy
from phalanx.embedded.apiserver.registry.kinds.policy import signing
from phalanx.embedded.apiserver.storage.store import Store, decode, encode

_WITH_SPEC = ("", "ephemeralcontainers", "resize")  # the subresources whose writes change the containers of a pod


class Knowledge:
    """The steps of a write that depend on the kind of the object: decoding by its schema, admission and validation. The
    pipelines of writes (`write.py`, `delete.py`) call them."""

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
        """Decode `obj` by the schema of its kind, in place. Remove its unknown fields, and return their paths. Raises
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
            # Check quotas and namespaces again, because they may have changed while webhooks were called. No other
            # request runs between this check and the storing of the object.
            chain.admit(resource, obj, old, self._reader)
        return warnings

    async def allow_deletion(
        self, resource: Resource, old: Object, user: User, warn: Callable[[list[str]], object], *, dry_run: bool
    ) -> bool:
        """Ask policies and webhooks about a deletion. Return True if the request was suspended during the calls, so
        that the object may have changed. `warn`: called with the warnings of policies. Raises `StatusError` if a policy
        or webhook refuses."""
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
            chain.admit(resource, obj, old, self._reader)  # quotas may have changed meanwhile
        return warnings

    def _become(self, resource: Resource, obj: Object, changed: Object) -> None:
        """Replace the content of `obj` by `changed`, the object that a webhook returned. Decode it by the schema of its
        kind, and set defaults. Raises `StatusError`."""
        obj.clear()
        obj.update(decode(encode(changed)))
        # if the kind has `to_stored`, webhooks get and return the stored form, to which the schema of the kind does not
        # apply
        if resource.to_stored is None:
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
