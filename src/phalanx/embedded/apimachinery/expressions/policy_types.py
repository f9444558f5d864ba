"""The variables in an admission policy's expressions, and their types.

When a user writes a policy, `object`, `oldObject` and `params` may have any type, because the kinds that the policy
names may be defined later. The errors in `status.typeChecking` are found afterwards, with the types of these kinds.
`request` and `namespaceObject` always have known types. Each variable that the policy defines has the type of its
expression, which may use the variables that are defined before it.

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
    """Yield (field path, expression, result of the type check) for every expression in a policy. `of_object`: the type
    of `object`. `of_params`: the type of the parameters; None if their kind is not known."""
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
