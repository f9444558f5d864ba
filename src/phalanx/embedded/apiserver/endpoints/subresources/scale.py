"""The subresource `/scale`: it shows and sets the number of replicas of an object as a Scale (autoscaling/v1).

For a custom resource, three JSON paths in the CustomResourceDefinition name the fields. The field manager of a write to
`/scale` owns only the field with the number of replicas. Sources:
k8s.io/apiextensions-apiserver/pkg/registry/customresource/etcd.go (ScaleREST),
k8s.io/apimachinery/pkg/util/managedfields/scalehandler.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from msgspec.structs import replace

from phalanx.embedded.apimachinery.expressions.jsonpath import find
from phalanx.embedded.apimachinery.meta.resource import Object, Resource
from phalanx.embedded.apimachinery.meta.status import (
    StatusError,
    bad_request,
    conflict,
    invalid,
    invalid_value,
    not_found,
)
from phalanx.embedded.apimachinery.patch.managed_fields import FieldOwner, read, store, write
from phalanx.embedded.apimachinery.patch.patch import APPLY_PATCH
from phalanx.embedded.apimachinery.schema.field_set import MEMBER, Node, difference, intersection
from phalanx.embedded.apiserver.endpoints.decoding import Intent, from_applied, from_body, from_patch
from phalanx.embedded.apiserver.endpoints.parts.knowledge import Knowledge
from phalanx.embedded.apiserver.endpoints.parts.patching import apply_intent, record_fields
from phalanx.embedded.apiserver.endpoints.write import ObjectWriter
from phalanx.embedded.apiserver.registry.routing import RouteTarget
from phalanx.embedded.apiserver.storage.store import Store, Stored, decode, encode
from phalanx.embedded.apiserver.transport.tables.printer import selector_text

_SCALE = "io.k8s.api.autoscaling.v1.Scale"
SCALE = Resource(
    group="autoscaling",
    version="v1",
    kind="Scale",
    plural="scales",
    namespaced=True,
    verbs=("get", "update", "patch"),
    schema_name=_SCALE,
)
_METADATA = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def scale_of(resource: Resource, obj: Object, *, is_written: bool = False) -> Object:
    """Return the Scale of an object. `is_written`: True if a write is about to set the number of replicas; the number
    is then 0 if the spec has none. If `is_written` is False, a spec without the number raises StatusError 500."""
    paths = resource.scale or {}
    wanted = _first(obj, paths.get("specReplicasPath"))
    if wanted is None and is_written:
        wanted = 0
    if wanted is None:
        why = f'the spec replicas field "{paths.get("specReplicasPath")}" does not exist'
        raise StatusError(
            500, "InternalError", f"Internal error occurred: {why}", details={"causes": [{"message": why}]}
        )  # fmt: skip
    status: Object = {"replicas": _first(obj, paths.get("statusReplicasPath")) or 0}
    if selector := _selector(resource, obj, paths.get("labelSelectorPath")):
        status["selector"] = selector
    metadata = obj["metadata"]
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {key: metadata[key] for key in _METADATA if key in metadata},
        "spec": {"replicas": wanted} if wanted else {},
        "status": status,
    }


def _selector(resource: Resource, obj: Object, path: str | None) -> object:
    """Return the selector of the pods as text. A custom resource stores the selector as text, a built-in kind as an
    object."""
    if resource.custom:
        return _first(obj, path)
    selector = obj["spec"].get("selector") or {}
    labels = "matchLabels" in selector or "matchExpressions" in selector
    return selector_text(selector if labels else {"matchLabels": selector}) if selector else ""


def _first(obj: Object, path: str | None) -> object:
    found = find(obj, path) if path else []
    return found[0] if found else None


def scaled(resource: Resource, obj: Object, scale: object) -> Object:
    """Return `obj` with the number of replicas of a Scale. All other fields are shared with `obj`. For a custom
    resource, this function accepts a negative number, because the schema is checked later. Raises StatusError 400 or
    422."""
    if not isinstance(scale, dict) or scale.get("kind") not in (None, "", "Scale"):
        raise bad_request("wrong object passed to Scale update: expected autoscaling/v1 Scale")
    path = (resource.scale or {}).get("specReplicasPath", "")
    replicas = (scale.get("spec") or {}).get("replicas") or 0
    if replicas < 0 and not resource.custom:
        cause = invalid_value("spec.replicas", replicas, "must be greater than or equal to 0")
        raise invalid(SCALE.group, SCALE.kind, obj["metadata"]["name"], [cause])
    found: Object = _with(obj, path.strip(".").split("."), replicas)
    return found


def _with(obj: object, keys: list[str], value: object) -> Any:
    """Return a copy of `obj` with `value` at the path `keys`. The path has plain keys only, because the API allows no
    other paths for the number of replicas."""
    if not keys:
        return value
    held = obj if isinstance(obj, dict) else {}
    return {**held, keys[0]: _with(held.get(keys[0]), keys[1:], value)}


# --- the owners of the number -------------------------------------------------------------------------------------

_REPLICAS: Node = {"f:spec": {"f:replicas": MEMBER}}


def _number(resource: Resource) -> Node:
    """Return a field set (managedFields) with only one field: the number of replicas of an object of this kind."""
    node: Node = MEMBER
    for name in reversed((resource.scale or {}).get("specReplicasPath", "").strip(".").split(".")):
        node = {f"f:{name}": node}
    return node


def owners_of_scale(resource: Resource, owners: Iterable[FieldOwner]) -> list[FieldOwner]:
    """Return the owners of fields in the Scale of an object: those owners of the object that own its number of
    replicas."""
    number = _number(resource)
    return [
        replace(owner, api_version=SCALE.api_version, fields=_REPLICAS, source=None)
        for owner in owners
        if intersection(owner.fields, number)
    ]


def owners_of_object(
    resource: Resource, owners: Iterable[FieldOwner], of_scale: Iterable[FieldOwner]
) -> Iterator[FieldOwner]:
    """Yield the owners of an object's fields after a write of its Scale. `owners`: the owners before the write.
    `of_scale`: the owners of the written Scale. As in kube-apiserver, new entries in managedFields have no time."""
    number = _number(resource)
    left = {owner.key: owner for owner in of_scale}
    for owner in owners:
        if not intersection(owner.fields, number) or left.pop(owner.key, None) is not None:
            yield owner
        else:
            yield replace(owner, fields=difference(owner.fields, number))
    for owner in left.values():
        if intersection(owner.fields, _REPLICAS):
            yield replace(owner, api_version=resource.api_version, fields=number, time="", source=None)


def _shown(scale: Object) -> Stored:
    """Return a Scale as responses show it. No Scale is stored."""
    return Stored(int(scale["metadata"].get("resourceVersion") or 0), encode(scale), scale)


class Scales:
    """Handles requests for `/scale`. An update of the Scale also updates the object, and admission checks both."""

    def __init__(self, store: Store, writer: ObjectWriter, knowledge: Knowledge) -> None:
        self._store, self._writer, self._knowledge = store, writer, knowledge

    def read(self, target: RouteTarget) -> Stored:
        return _shown(scale_of(target.resource, self._object(target)))

    async def update(self, target: RouteTarget, scale: object, intent: Intent) -> Stored:
        """Set the number of replicas by a Scale (PUT). Raises `StatusError`."""
        scale = from_body(self._knowledge, SCALE, scale, intent)
        now = self._owned_scale(target)
        record_fields(SCALE, scale, now, intent.manager, target.sub)
        return await self._written(target, scale, now, intent)

    async def patch(self, target: RouteTarget, media: str, patch: Any, intent: Intent, *, force: bool) -> Stored:
        """Set the number of replicas by a patch of the Scale (PATCH) in one of the four patch formats. Raises
        `StatusError`."""
        now = self._owned_scale(target)
        if media == APPLY_PATCH:
            scale = apply_intent(SCALE, now, patch, intent.manager, force, target.sub)
            scale = from_applied(self._knowledge, SCALE, scale, patch)
        else:
            scale = from_patch(self._knowledge, SCALE, media, now, patch, intent)
            record_fields(SCALE, scale, now, intent.manager, target.sub)
        return await self._written(target, scale, now, intent)

    async def _written(self, target: RouteTarget, scale: Object, now: Object, intent: Intent) -> Stored:
        resource, obj = target.resource, self._object(target)
        meta = scale["metadata"]
        name = meta.get("name") or target.name
        if name != target.name:
            raise bad_request(f"the name of the object ({name}) does not match the name on the URL ({target.name})")
        of_scale = read(meta)
        scale = await self._writer.admitted(target, SCALE, scale, intent, now)
        wanted = scaled(resource, obj, scale)
        held = obj["metadata"]
        if (uid := meta.get("uid")) and uid != held["uid"]:
            why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {held['uid']}"
            raise conflict(resource.group, f"{resource.plural}/scale", name, why)
        version = (scale["metadata"].get("resourceVersion")) or held["resourceVersion"]
        wanted = {**wanted, "metadata": {**held, "resourceVersion": version}}
        store(wanted, owners_of_object(resource, read(held), of_scale))
        whole = RouteTarget(resource=resource, namespace=target.namespace, name=target.name)
        written = await self._writer.update(whole, wanted, intent, recorded=True)
        return _shown(scale_of(resource, written.stored.obj))

    def _owned_scale(self, target: RouteTarget) -> Object:
        """Return the Scale of the object, with the owners of its number of replicas."""
        obj = self._object(target)
        scale = scale_of(target.resource, obj, is_written=True)
        if owners := owners_of_scale(target.resource, read(obj["metadata"])):
            scale["metadata"]["managedFields"] = write(owners)
        return scale

    def _object(self, target: RouteTarget) -> Object:
        head = self._store.head(target.resource.key, target.namespace, target.name)
        if head is None:
            raise not_found(target.resource.group, target.resource.plural, target.name)
        found: Object = decode(head.data)
        return {**found, "apiVersion": target.resource.api_version}
