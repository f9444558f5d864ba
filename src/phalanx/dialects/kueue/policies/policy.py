"""Build an admission policy of the API server (CEL) and its binding, in place of one of Kueue's webhooks.


Source: KEP-3488, KEP-3962.
"""

from __future__ import annotations

from typing import Any, Final

from phalanx.client.kind import Kind
from phalanx.dialects.frame.dialect import Object
from phalanx.dialects.kueue import kinds

_GROUP = "admissionregistration.k8s.io"
_MUTATING = Kind(group=_GROUP, plural="mutatingadmissionpolicies", name="MutatingAdmissionPolicy", namespaced=False)
_VALIDATING = Kind(
    group=_GROUP, plural="validatingadmissionpolicies", name="ValidatingAdmissionPolicy", namespaced=False
)


def _bound(kind: Kind) -> Kind:
    return Kind(
        group=_GROUP,
        plural=kind.plural.replace("policies", "policybindings"),
        name=f"{kind.name}Binding",
        namespaced=False,
    )


LABELS: Final = "object.metadata.labels"
QUEUED: Final = f'has({LABELS}) && "{kinds.QUEUE_LABEL}" in {LABELS} && !("phalanx.dev/queue" in {LABELS})'
_OLD = "oldObject.metadata.labels"
QUEUED_BEFORE: Final = (
    f'({QUEUED}) || (request.operation == "UPDATE" && has({_OLD}) && "{kinds.QUEUE_LABEL}" in {_OLD} && '
    f'!("phalanx.dev/queue" in {_OLD}))'
)
NOT_OWNED: Final = (
    "!has(object.metadata.ownerReferences) || "
    "!object.metadata.ownerReferences.exists(o, has(o.controller) && o.controller)"
)
ALIVE: Final = {"alive": "!has(object.metadata.deletionTimestamp)"}


def rule(group: str, plural: str, *operations: str, versions: tuple[str, ...] = ("v1",)) -> Object:
    return {
        "apiGroups": [group],
        "apiVersions": list(versions),
        "operations": list(operations),
        "resources": [plural],
    }


def _constraints(rules: list[Object], conditions: dict[str, str]) -> Object:
    """Return match constraints. If a condition requires a queue name, a selector excludes objects without it, because a
    selector costs less than CEL."""
    selector = [{"key": kinds.QUEUE_LABEL, "operator": "Exists"}] if "queued" in conditions else []
    return {"resourceRules": rules, **({"objectSelector": {"matchExpressions": selector}} if selector else {})}


def mutating(
    name: str, rules: list[Object], conditions: dict[str, str], change: str, *, patch: bool = False
) -> list[tuple[Kind, Object]]:
    """Return a policy that changes matching objects. `patch`: `change` is a JSON patch; otherwise it is an apply
    configuration."""
    how, field = ("JSONPatch", "jsonPatch") if patch else ("ApplyConfiguration", "applyConfiguration")
    spec = {
        "failurePolicy": "Fail",
        "reinvocationPolicy": "IfNeeded",
        "matchConstraints": _constraints(rules, conditions),
        "matchConditions": [{"name": key, "expression": text} for key, text in conditions.items()],
        "mutations": [{"patchType": how, field: {"expression": change}}],
    }
    return _with_binding(_MUTATING, name, spec, {})


def validating(
    name: str, rules: list[Object], conditions: dict[str, str], checks: dict[str, str]
) -> list[tuple[Kind, Object]]:
    """Return a policy that refuses matching objects. `checks`: message -> the expression that must hold."""
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": _constraints(rules, conditions),
        "matchConditions": [{"name": key, "expression": text} for key, text in conditions.items()],
        "validations": [
            {"expression": text, "message": message, "reason": "Forbidden"} for message, text in checks.items()
        ],
    }
    return _with_binding(_VALIDATING, name, spec, {"validationActions": ["Deny"]})


def _with_binding(kind: Kind, name: str, spec: Object, binding: dict[str, Any]) -> list[tuple[Kind, Object]]:
    full, bound = f"{name}.kueue.phalanx.dev", _bound(kind)
    return [
        (kind, {"apiVersion": kind.api_version, "kind": kind.name, "metadata": {"name": full}, "spec": spec}),
        (
            bound,
            {
                "apiVersion": bound.api_version,
                "kind": bound.name,
                "metadata": {"name": full},
                "spec": {"policyName": full, **binding},
            },
        ),
    ]
