"""A write without a server: an object goes through schema, defaults, admission, preparation and validation.

`create`, `update` and `status` answer what would be stored, or what the 422 would say, line by line. The order is that
of the write pipeline; nothing is stored, so a test gives what admission would read.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from phalanx.embedded.apimachinery.meta import metadata
from phalanx.embedded.apimachinery.meta.resource import Object, Resource
from phalanx.embedded.apimachinery.meta.status import Cause
from phalanx.embedded.apimachinery.schema import schema
from phalanx.embedded.apiserver.admission import chain
from phalanx.embedded.apiserver.admission.resource_quota import HeldQuota
from phalanx.embedded.apiserver.registry.builtin import RESOURCES
from phalanx.embedded.apiserver.storage.store import encode

NOW = "2026-01-01T00:00:00Z"


def resource(plural: str, group: str | None = None) -> Resource:
    return next(one for one in RESOURCES if one.plural == plural and group in (None, one.group))


@dataclass
class Cluster:
    """What admission reads. Every namespace exists unless `namespaces` says which do."""

    objects: dict[tuple[str, str], list[Object]] = field(default_factory=dict)
    namespaces: list[Object] | None = None

    def get(self, group: str, plural: str, namespace: str, name: str) -> Object | None:
        if plural == "namespaces" and self.namespaces is None:
            return {"metadata": {"name": name}}
        found = self.namespaces if plural == "namespaces" else self.objects.get((group, plural), [])
        return next((one for one in found or [] if one["metadata"]["name"] == name), None)

    def list(self, group: str, plural: str, namespace: str = "") -> Iterable[Object]:
        return self.objects.get((group, plural), [])

    def decided(self, group: str, plural: str, namespace: str = "") -> Iterable[Object]:
        return self.list(group, plural, namespace)

    def addressed(self) -> Iterable[Object]:
        return self.list("", "services")

    def held(self, namespace: str) -> HeldQuota:
        objects = {key: len(found) for key, found in self.objects.items()}
        return HeldQuota(
            objects=objects, size_bytes=sum(len(encode(one)) for all_ in self.objects.values() for one in all_)
        )


@dataclass
class Refused(Exception):
    """The lines of a 422."""

    causes: list[Cause]

    @property
    def lines(self) -> list[str]:
        return [cause.line() for cause in self.causes]


def create(plural: str, body: Object, cluster: Cluster | None = None, group: str | None = None) -> Object:
    """What would be stored. Raises Refused or StatusError."""
    kind = resource(plural, group)
    obj = decoded(kind, body)
    meta = obj["metadata"]
    meta |= {"uid": "uid-1", "creationTimestamp": NOW} | ({"namespace": "ns"} if kind.namespaced else {})
    meta.setdefault("name", "x")
    kind.strategy.default(obj)
    chain.admit(kind, obj, None, cluster or Cluster())
    kind.strategy.prepare_create(obj)
    if causes := [*metadata.validate_create(kind, obj), *kind.strategy.validate(obj)]:
        raise Refused(causes)
    return obj


def decoded(kind: Resource, body: Object) -> Object:
    """The stored form of what a client sent."""
    obj = {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": {}} | copy.deepcopy(body)
    schema.decode(schema.type_of(kind.schema_name), obj)
    return kind.to_stored(obj) if kind.to_stored else obj


def stored(plural: str, body: Object, **rest: Any) -> Object:
    """A created object as it lies in the store."""
    obj = create(plural, body, **rest)
    obj["metadata"]["resourceVersion"] = "1"
    return obj


def update(plural: str, old: Object, change: Object) -> Object:
    """The object after a merge patch. Raises Refused."""
    kind = resource(plural)
    obj = _patched(kind, old, change)
    kind.strategy.prepare_update(obj, old)
    causes = metadata.validate_update(kind, obj, old)
    causes += [*kind.strategy.validate(obj), *kind.strategy.validate_update(obj, old)]
    if causes:
        raise Refused(causes)
    return obj


def status(plural: str, old: Object, change: Object) -> Object:
    """The object after a merge patch of its status. Raises Refused."""
    kind = resource(plural)
    obj = _patched(kind, old, change)
    kind.strategy.prepare_status_update(obj, old)
    if causes := [*metadata.validate_update(kind, obj, old), *kind.strategy.validate_status_update(obj, old)]:
        raise Refused(causes)
    return obj


def _patched(kind: Resource, old: Object, change: Object) -> Object:
    obj = decoded(kind, merged(copy.deepcopy(old), change))
    kind.strategy.default(obj)
    return obj


def merged(target: Any, change: Any) -> Any:
    """RFC 7396."""
    if not isinstance(change, dict):
        return change
    found = dict(target) if isinstance(target, dict) else {}
    for key, value in change.items():
        if value is None:
            found.pop(key, None)
        else:
            found[key] = merged(found.get(key), value)
    return found


def refusal(plural: str, body: Object, **rest: Any) -> list[str]:
    """Return the causes for which a create is refused; empty if it is accepted."""
    try:
        create(plural, body, **rest)
    except Refused as refused:
        return refused.lines
    return []


def update_refusal(plural: str, old: Object, change: Object) -> list[str]:
    try:
        update(plural, old, change)
    except Refused as refused:
        return refused.lines
    return []


def status_refusal(plural: str, old: Object, change: Object) -> list[str]:
    try:
        status(plural, old, change)
    except Refused as refused:
        return refused.lines
    return []


# --- the least that each kind needs ----------------------------------------------------------------------------------

CONTAINER: Object = {"name": "c", "image": "i"}


def named(**fields: Any) -> Object:
    return {"metadata": {"name": "a"}, **fields}


def pod(**spec: Any) -> Object:
    return {"metadata": {"name": "p"}, "spec": {"containers": [CONTAINER], **spec}}


def job(**spec: Any) -> Object:
    template = {"spec": {"restartPolicy": "Never", "containers": [CONTAINER]}}
    return {"metadata": {"name": "j"}, "spec": {"template": template, **spec}}
