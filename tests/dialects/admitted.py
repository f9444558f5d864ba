"""Objects as admission policies of a dialect change or refuse them, evaluated by the embedded API server."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import Any

from phalanx.client.kind import Kind
from phalanx.dialects.frame.dialect import Object
from phalanx.embedded.apimachinery.expressions.admission_policy import PolicyReader, Review, mutate, validate
from phalanx.embedded.apimachinery.meta.resource import Resource, User
from phalanx.embedded.apimachinery.meta.status import StatusError
from phalanx.embedded.apiserver.admission.policies import PATCHES
from phalanx.embedded.apiserver.registry.builtin import RESOURCES

Policies = Iterable[tuple[Kind, Object]]
# name -> the object that bindings name as their parameter
Params = Mapping[str, Object]


def _resource(kind: Kind) -> Resource:
    for each in RESOURCES:
        if (each.group, each.version, each.plural) == (kind.group, kind.version, kind.plural):
            return each
    return Resource(
        group=kind.group, version=kind.version, kind=kind.name, plural=kind.plural, namespaced=kind.namespaced
    )


def _review(kind: Kind, obj: Object, old: Object | None, user: User) -> Review:
    return Review(
        resource=_resource(kind),
        operation="CREATE" if old is None else "UPDATE",
        name=obj["metadata"]["name"],
        obj=deepcopy(obj),
        old=deepcopy(old),
        user=user,
    )


def _reader(policies: Policies, params: Params) -> PolicyReader:
    made = list(policies)
    return PolicyReader(
        policies=lambda plural: [body for kind, body in made if kind.plural == plural],
        param=lambda version, kind, namespace, name: params.get(name),
    )


ADA = User(name="ada", groups=("team", "system:authenticated"))


def changed(
    policies: Policies,
    kind: Kind,
    obj: Object,
    *,
    old: Object | None = None,
    params: Params | None = None,
    user: User = ADA,
) -> Object:
    """Return the object as the mutating policies leave it."""
    return mutate(_review(kind, obj, old, user), _reader(policies, params or {}), PATCHES)


def refused(policies: Policies, kind: Kind, obj: Object, *, old: Object | None = None) -> str:
    """Return the error of the validating policies; "" if they allow the object."""
    try:
        validate(_review(kind, obj, old, ADA), _reader(policies, {}))
    except StatusError as error:
        return f"{error.code} {error.message}"
    return ""


def written(kind: Kind, spec: Any = None, **meta: Any) -> Object:
    """An object as a user writes it."""
    where = {"namespace": "default"} if kind.namespaced else {}
    made: Object = {"apiVersion": kind.api_version, "kind": kind.name, "metadata": {"name": "a", **where, **meta}}
    return made if spec is None else {**made, "spec": spec}
