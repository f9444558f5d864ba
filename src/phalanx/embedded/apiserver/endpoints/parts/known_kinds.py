"""The kinds of Kubernetes, including those that this server does not serve."""

from __future__ import annotations

from phalanx.embedded.apimachinery.caching import cached
from phalanx.embedded.apimachinery.meta.resource import Object, Resource
from phalanx.embedded.apimachinery.patch.patch import APPLY_PATCH as APPLY_PATCH
from phalanx.embedded.apimachinery.schema import schema

_OF_EVERY_VERSION = ("Status", "APIVersions", "APIGroup", "APIGroupList", "APIResourceList")


def empty_object(resource: Resource) -> Object:
    """Return an empty object of a kind as Go encodes it. Go writes some empty structs, such as `metadata`, and omits
    others."""
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
