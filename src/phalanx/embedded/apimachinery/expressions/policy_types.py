"""The variables of an admission policy's expressions, and their types.

When a policy is written, `object`, `oldObject` and `params` may be of any type, for the kinds that it is about may come
later; what `status.typeChecking` says is found with the types of those kinds. `request` and `namespaceObject` always
have types, and so has each of the policy's own variables, which may use the ones before it.

Source: k8s.io/apiserver/pkg/admission/plugin/cel/compile.go (BuildRequestType, BuildNamespaceType).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from phalanx.embedded.apimachinery.expressions.admission_policy import expressions_of
from phalanx.embedded.apimachinery.expressions.metering import undeclared
from phalanx.embedded.apimachinery.expressions.type_check import ANY, DYN, Type, TypeChecked, TypeShape, check
from phalanx.embedded.apimachinery.meta.resource import Object


def _texts(*names: str) -> dict[str, Type]:
    return dict.fromkeys(names, "string")


_TEXTS: Type = ("list", "string")
_LABELS: Type = ("map", "string", "string")
_KIND = TypeShape(_texts("group", "version", "kind").get)
_RESOURCE = TypeShape(_texts("group", "version", "resource").get)
_USER = TypeShape({**_texts("username", "uid"), "groups": _TEXTS, "extra": ("map", "string", _TEXTS)}.get)
_REQUEST_FIELDS: dict[str, Type] = {
    **_texts("subResource", "requestSubResource", "name", "namespace", "operation"),
    "kind": _KIND,
    "requestKind": _KIND,
    "resource": _RESOURCE,
    "requestResource": _RESOURCE,
    "userInfo": _USER,
    "dryRun": "bool",
    "options": DYN,
}
_META_FIELDS: dict[str, Type] = {
    **_texts("name", "generateName", "namespace", "UID", "resourceVersion"),
    "labels": _LABELS,
    "annotations": _LABELS,
    "finalizers": _TEXTS,
    "creationTimestamp": "timestamp",
    "deletionTimestamp": "timestamp",
    "generation": "int",
    "deletionGracePeriodSeconds": "int",
}
_CONDITION_FIELDS: dict[str, Type] = {
    **_texts("status", "type", "message", "reason"),
    "lastTransitionTime": "timestamp",
}
_SPEC_FIELDS: dict[str, Type] = {"finalizers": _TEXTS}
_STATUS_FIELDS: dict[str, Type] = {"phase": "string", "conditions": ("list", TypeShape(_CONDITION_FIELDS.get))}
_NAMESPACE_FIELDS: dict[str, Type] = {
    "metadata": TypeShape(_META_FIELDS.get),
    "spec": TypeShape(_SPEC_FIELDS.get),
    "status": TypeShape(_STATUS_FIELDS.get),
}
_REQUEST, _NAMESPACE = TypeShape(_REQUEST_FIELDS.get), TypeShape(_NAMESPACE_FIELDS.get)


def judged(spec: Object, of_object: Type = ANY, of_params: Type | None = ANY) -> Iterator[tuple[str, Any, TypeChecked]]:
    """Yield (field path, expression, verdict) of every expression in a policy. `of_params`: None for a kind that is not
    known."""
    declared: dict[str, Type] = {"object": of_object, "oldObject": of_object, "authorizer": DYN}
    declared |= {"request": _REQUEST, "namespaceObject": _NAMESPACE}
    if spec.get("paramKind") and of_params is not None:
        declared["params"] = of_params
    known: dict[str, Type] = {}
    names = iter(spec.get("variables") or ())
    for path, text in expressions_of(spec):
        conditions = path.startswith("spec.matchConditions")
        variables = {} if conditions or not spec.get("variables") else {"variables": TypeShape(known.get)}
        verdict = _verdict(text or "", declared | variables)
        if path.startswith("spec.variables"):
            known[next(names).get("name") or ""] = verdict.type
        yield path, text, verdict


def _verdict(text: str, declared: dict[str, Type]) -> TypeChecked:
    if wrong := undeclared(text, frozenset(declared)):
        return TypeChecked(DYN, (wrong,))
    return check(text, declared)
