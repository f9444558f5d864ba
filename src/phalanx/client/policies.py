"""Build admission policies (ValidatingAdmissionPolicy, MutatingAdmissionPolicy) and their bindings as API objects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from phalanx.client.kind import Kind

Made: TypeAlias = tuple[Kind, dict[str, Any]]  # the kind of an object, and the object


def _kind(plural: str, name: str) -> Kind:
    return Kind(group="admissionregistration.k8s.io", plural=plural, name=name, namespaced=False)


VALIDATING: Final = _kind("validatingadmissionpolicies", "ValidatingAdmissionPolicy")
VALIDATING_BINDINGS: Final = _kind("validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding")
MUTATING: Final = _kind("mutatingadmissionpolicies", "MutatingAdmissionPolicy")
MUTATING_BINDINGS: Final = _kind("mutatingadmissionpolicybindings", "MutatingAdmissionPolicyBinding")
_BINDINGS: Final = {VALIDATING: VALIDATING_BINDINGS, MUTATING: MUTATING_BINDINGS}


def rule(group: str, plural: str, *operations: str, versions: Sequence[str] = ("v1",)) -> dict[str, object]:
    """Return a rule that matches requests with these operations on objects of one kind."""
    return {
        "apiGroups": [group],
        "apiVersions": list(versions),
        "operations": list(operations),
        "resources": [plural],
    }


def refusing(
    name: str,
    rules: Sequence[dict[str, object]],
    conditions: Mapping[str, str],
    checks: Mapping[str, str],
    *,
    reason: str = "Forbidden",
    **more: object,
) -> list[Made]:
    """Return a policy that refuses objects, and its binding. `rules`: the requests to which the policy applies.
    `conditions`: name of a condition -> CEL expression; only objects for which all these expressions are true are
    checked. `checks`: message of a refusal -> CEL expression; an object is accepted only if all these expressions are
    true. `reason`: the reason in the Status of a refusal; empty for the default reason.
    `more`: further fields of the spec."""
    said = {"reason": reason} if reason else {}
    found = [{"expression": text, "message": message, **said} for message, text in checks.items()]
    return _policy(VALIDATING, name, rules, conditions, {**more, "validations": found})


def changing(
    name: str,
    rules: Sequence[dict[str, object]],
    conditions: Mapping[str, str],
    change: str,
    *,
    patch: bool = False,
    **more: object,
) -> list[Made]:
    """Return a policy that changes objects, and its binding. `rules`: the requests to which the policy applies.
    `conditions`: name of a condition -> CEL expression; only objects for which all these expressions are true are
    changed. `more`: further fields of the spec. `change`: a CEL expression. `patch`: True if `change` is a JSON patch,
    False if it is an apply configuration."""
    how, field = ("JSONPatch", "jsonPatch") if patch else ("ApplyConfiguration", "applyConfiguration")
    found = [{"patchType": how, field: {"expression": change}}]
    return _policy(MUTATING, name, rules, conditions, {**more, "mutations": found})


def made(kind: Kind, name: str, spec: dict[str, Any]) -> Made:
    """Return a cluster-scoped object with this kind, name and spec."""
    return kind, {"apiVersion": kind.api_version, "kind": kind.name, "metadata": {"name": name}, "spec": spec}


def bound(kind: Kind, name: str) -> Made:
    """Return the binding of the policy with this kind and name."""
    return made(
        _BINDINGS[kind], name, {"policyName": name, **({"validationActions": ["Deny"]} if kind is VALIDATING else {})}
    )


def _policy(
    kind: Kind, name: str, rules: Sequence[dict[str, object]], conditions: Mapping[str, str], spec: dict[str, object]
) -> list[Made]:
    whole = {
        "failurePolicy": "Fail",
        **({"reinvocationPolicy": "IfNeeded"} if kind is MUTATING else {}),
        "matchConstraints": {"resourceRules": list(rules)},
        "matchConditions": [{"name": key, "expression": text} for key, text in conditions.items()],
        **spec,
    }
    return [made(kind, name, whole), bound(kind, name)]
