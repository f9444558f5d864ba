"""Find the admission policies in the store, and apply them to a write. The policies for each kind are cached until a
policy or a binding changes, so a write of a kind without policies costs one look-up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from phalanx.embedded.apimachinery.expressions.admission_policy import (
    GROUP,
    Patches,
    PolicyReader,
    Review,
    mutate,
    validate,
)
from phalanx.embedded.apimachinery.expressions.authorizer import Rights
from phalanx.embedded.apimachinery.meta.resource import Object, Resource, User
from phalanx.embedded.apimachinery.meta.status import StatusError
from phalanx.embedded.apimachinery.patch import patch as patches
from phalanx.embedded.apimachinery.schema import schema
from phalanx.embedded.apimachinery.schema.typed import merged, problems
from phalanx.embedded.apiserver.storage.store import Event, Store

DEFINITIONS = "apiextensions.k8s.io"  # a change of an object of this API group may change the served versions


@dataclass(frozen=True, slots=True, kw_only=True)
class Beneath:
    """The subresource that a request is about. `name`: the name of the subresource; empty for the whole object.
    `part`: the kind of the subresource, if it differs from that of the object (Binding, Scale)."""

    name: str = ""
    part: Resource | None = None


WHOLE = Beneath()
Forms = Callable[[Resource], tuple[Resource, ...]]
RightsOf = Callable[[User], Rights]


class Policies:
    """The admission policies of one server. `forms`: returns all served versions of a kind. `rights`: returns the
    rights of a user."""

    def __init__(self, store: Store, forms: Forms, rights: RightsOf) -> None:
        self._store, self._forms, self._rights = store, forms, rights
        self._reader = PolicyReader(policies=self._objects, param=self._param, params=self._params)
        store.subscribe(self._changed)

    def _changed(self, events: list[Event]) -> None:
        if any(event.key[0] in (GROUP, DEFINITIONS) for event in events):
            self._reader.forget()

    def mutate(
        self,
        resource: Resource,
        obj: Object,
        old: Object | None,
        user: User,
        *,
        beneath: Beneath = WHOLE,
        reinvoked: bool = False,
    ) -> bool:
        """Apply the mutating policies to `obj` in place, and then set defaults again. Return True if a policy has
        changed the object. Raises `StatusError`."""
        review = self._found("mutatingadmissionpolicies", resource, obj, old, user, beneath)
        if review is None:
            return False
        changed = mutate(review, self._reader, PATCHES, reinvoked=reinvoked)
        if changed is obj:
            return False
        obj.clear()
        obj.update(changed)
        kind = beneath.part or resource
        if kind.schema_name and kind.to_stored is None:
            schema.decode(schema.type_of(kind.schema_name), obj)
        if beneath.part is None:
            resource.strategy.default(obj)
        return True

    def validate(
        self,
        resource: Resource,
        obj: Object | None,
        old: Object | None,
        user: User,
        *,
        beneath: Beneath = WHOLE,
        operation: str = "",
    ) -> list[str]:
        """Return the warnings of the validating policies. Raises `StatusError` if one of them denies the request."""
        plural = "validatingadmissionpolicies"
        review = self._found(plural, resource, obj, old, user, beneath, operation)
        return [] if review is None else validate(review, self._reader)

    def _found(
        self,
        plural: str,
        resource: Resource,
        obj: Object | None,
        old: Object | None,
        user: User,
        beneath: Beneath,
        operation: str = "",
    ) -> Review | None:
        """Return the request in the form that policies need; None if no policy applies to such requests."""
        review = self.review(resource, obj, old, user, beneath=beneath, operation=operation, located=False)
        if resource.group == GROUP or not self._reader.bound(plural, review):
            return None
        return replace(review, namespace=self._namespace(obj, old))

    def review(
        self,
        resource: Resource,
        obj: Object | None,
        old: Object | None,
        user: User,
        *,
        beneath: Beneath = WHOLE,
        operation: str = "",
        dry_run: bool = False,
        located: bool = True,
    ) -> Review:
        """Return the request in the form that policies and webhooks need. `located`: True to include the Namespace
        object."""
        meta = (old or obj or {})["metadata"]
        return Review(
            resource=resource,
            forms=self._forms(resource),
            part=beneath.part,
            subresource=beneath.name,
            operation=operation or ("CREATE" if old is None else "UPDATE"),
            name=meta.get("name", ""),
            obj=obj,
            old=old,
            namespace=self._namespace(obj, old) if located else None,
            user=user,
            dry_run=dry_run,
            rights=self._rights(user),
        )

    def _namespace(self, obj: Object | None, old: Object | None) -> Object | None:
        name = (old or obj or {})["metadata"].get("namespace")
        found = self._store.get(("", "namespaces"), "", name) if name else None
        return found.obj if found is not None else None

    def _objects(self, plural: str) -> Iterable[Object]:
        return (stored.obj for stored in self._store.scan((GROUP, plural)))

    def _param(self, api_version: str, kind: str, namespace: str, name: str) -> Object | None:
        """Return the parameter object with this kind and name; None if it does not exist. The store identifies kinds by
        their plural names, so all kinds of the group are searched for this kind."""
        for key, space in ((key, space) for key in self._keys(api_version) for space in (namespace, "")):
            found = self._store.get(key, space, name)
            if found is not None and found.obj["kind"] == kind:
                return found.obj
        return None

    def _params(self, api_version: str, kind: str, namespace: str) -> Iterable[Object]:
        """Return the parameter objects of a kind in a namespace; for a cluster-scoped kind, all of them."""
        for key, space in ((key, space) for key in self._keys(api_version) for space in {namespace, ""}):
            yield from (one.obj for one in self._store.scan(key, space) if one.obj["kind"] == kind)

    def _keys(self, api_version: str) -> list[tuple[str, str]]:
        group = api_version.rpartition("/")[0]
        return [key for key in self._store.keys() if key[0] == group]  # noqa: SIM118 a method, not a mapping's


def _merge(resource: Resource, obj: Object, value: object) -> Object:
    """Return the object with an apply configuration merged into it. Lists with keys are merged by their keys, as in a
    server-side apply. Raises `StatusError` for a field that the schema does not have."""
    kind = schema.type_of(resource.schema_name) if resource.schema_name else None
    if kind is not None and (wrong := list(problems(value, kind))):
        text = wrong[0] if len(wrong) == 1 else "\n  ".join(["errors:", *wrong])
        raise StatusError(500, "", f"failed to convert patch object to typed object: {text}")
    changed: Object = merged(obj, value, kind)
    return changed


def _json(resource: Resource, obj: Object, value: object) -> Object:
    """Return the object after a JSON patch. If a test in the patch fails, return the object unchanged. Raises
    `StatusError`."""
    if not isinstance(value, list):
        return patches.apply_patch(patches.JSON_PATCH, obj, value, resource.schema_name or None)
    found = obj
    for step in value:
        try:
            found = patches.apply_patch(patches.JSON_PATCH, found, [step], resource.schema_name or None)
        except StatusError as error:
            if error.code != 422:
                raise
            if step["op"] == "test":
                return obj
            raise StatusError(422, "Invalid", _failed(step)) from None
    return found


def _failed(step: Object) -> str:
    """Return the message about a step of a JSON patch, if the path in the step does not exist in the object."""
    name, path = step["op"], step.get("path", "")
    key = path.rpartition("/")[2]
    why = f"Unable to remove nonexistent key: {key}: missing value" if name == "remove" else "missing value"
    return f"error in {name} for path: '{path}': {why}"


PATCHES = Patches(merge=_merge, json=_json)
