"""Rules of admission policies and their bindings: defaults, and expressions refused when they are written.

Source: k8s.io/kubernetes/pkg/apis/admissionregistration (v1 defaults, validation). Every expression is compiled at the
write of its policy, so that a policy with a syntax error is refused and never blocks other requests.
"""

from __future__ import annotations

from phalanx.embedded.apimachinery.expressions.cel import ExpressionError, compiled
from phalanx.embedded.apimachinery.expressions.policy_types import judged
from phalanx.embedded.apimachinery.expressions.type_check import DYN
from phalanx.embedded.apimachinery.meta.resource import Object
from phalanx.embedded.apimachinery.meta.status import (
    Cause,
    duplicate,
    forbidden_field,
    invalid_value,
    not_supported,
    required,
)
from phalanx.embedded.apimachinery.schema import formats
from phalanx.embedded.apiserver.registry.kinds.checks import label_selector
from phalanx.embedded.apiserver.registry.kinds.generation import Counted, SpecAndStatus
from phalanx.embedded.apiserver.registry.kinds.policy.webhook import rule_causes

_FAILURE_POLICIES = ("Fail", "Ignore")
_REINVOCATIONS = ("Never", "IfNeeded")
_REASONS = ("Forbidden", "Invalid", "RequestEntityTooLarge")
_ACTIONS = ("Audit", "Deny", "Warn")


def _default_match(match: Object) -> None:
    match.setdefault("namespaceSelector", {})
    match.setdefault("objectSelector", {})
    match.setdefault("matchPolicy", "Equivalent")
    for rule in (*match.get("resourceRules", ()), *match.get("excludeResourceRules", ())):
        rule.setdefault("scope", "*")


class PolicyStrategy(Counted):
    """The strategy of both kinds of policy. `part`: the name of the list of its rules."""

    allow_unconditional_update = False

    def __init__(self, part: str) -> None:
        self.part = part

    def default(self, obj: Object) -> None:
        spec = obj.get("spec")
        if not isinstance(spec, dict):
            return
        spec.setdefault("failurePolicy", "Fail")
        if isinstance(spec.get("matchConstraints"), dict):
            _default_match(spec["matchConstraints"])

    def validate(self, obj: Object) -> list[Cause]:
        spec = obj.get("spec") or {}
        causes = []
        if spec.get("matchConstraints") is None:
            causes.append(required("spec.matchConstraints"))
        elif not spec["matchConstraints"].get("resourceRules"):
            causes.append(required("spec.matchConstraints.resourceRules"))
        for number, rule in enumerate((spec.get("matchConstraints") or {}).get("resourceRules") or ()):
            causes += rule_causes(rule, f"spec.matchConstraints.resourceRules[{number}]")
        if self.part == "validations" and not spec.get(self.part) and not spec.get("auditAnnotations"):
            text = "validations or auditAnnotations must contain at least one item"
            causes += [required(f"spec.{part}", text) for part in ("validations", "auditAnnotations")]
        elif self.part != "validations" and not spec.get(self.part):
            causes.append(required(f"spec.{self.part}", f"{self.part} must contain at least one item"))
        for number, rule in enumerate(spec.get("validations") or ()):
            if (reason := rule.get("reason")) is not None and reason not in _REASONS:
                causes.append(not_supported(f"spec.validations[{number}].reason", reason, _REASONS))
        if spec.get("failurePolicy") not in _FAILURE_POLICIES:
            causes.append(not_supported("spec.failurePolicy", spec.get("failurePolicy"), _FAILURE_POLICIES))
        reinvocation = spec.get("reinvocationPolicy")
        if self.part == "mutations" and reinvocation not in _REINVOCATIONS:
            wrong = not_supported("spec.reinvocationPolicy", reinvocation, _REINVOCATIONS)
            causes.append(wrong if reinvocation else required("spec.reinvocationPolicy"))
        return [*causes, *_expression_causes(spec)]


class ValidatingPolicyStrategy(SpecAndStatus, PolicyStrategy):
    """A policy whose status says what its expressions get wrong (`endpoints/reconcilers`)."""

    counts = True


def _expression_causes(spec: Object) -> list[Cause]:
    causes = []
    for path, text, verdict in judged(spec):
        if not text:
            causes.append(required(path, f"{path.rsplit('.', 1)[1]} is not specified"))
            continue
        try:
            compiled(text)
        except ExpressionError as error:
            causes.append(invalid_value(path, text, f"compilation failed: {error}"))
            continue
        if verdict.errors:
            causes.append(invalid_value(path, text, "compilation failed: " + "\n".join(verdict.errors)))
        elif (wanted := _result_of(path)) and verdict.type not in (wanted, DYN):
            causes.append(invalid_value(path, text, f"must evaluate to {wanted}"))
    return causes


def _result_of(path: str) -> str:
    """Return the type that the value of an expression must have; "": any."""
    if path.endswith("messageExpression"):
        return "string"
    return "bool" if path.startswith(("spec.validations", "spec.matchConditions")) else ""


class BindingStrategy(Counted):
    """The strategy of both kinds of binding. `acts`: True if the binding has validationActions."""

    allow_unconditional_update = False

    def __init__(self, *, acts: bool) -> None:
        self.acts = acts

    def default(self, obj: Object) -> None:
        match = (obj.get("spec") or {}).get("matchResources")
        if isinstance(match, dict):
            _default_match(match)

    def validate(self, obj: Object) -> list[Cause]:
        spec = obj.get("spec") or {}
        causes = [] if spec.get("policyName") else [required("spec.policyName")]
        if name := spec.get("policyName"):
            causes += [invalid_value("spec.policyName", name, problem) for problem in formats.dns_subdomain(name)]
        for key in ("namespaceSelector", "objectSelector"):
            path = f"spec.matchResources.{key}"
            label_selector(causes, (spec.get("matchResources") or {}).get(key), path)
        actions = spec.get("validationActions") or []
        if self.acts and not actions:
            causes.append(required("spec.validationActions", "at least one validation action is required"))
        causes += [
            not_supported(f"spec.validationActions[{number}]", action, _ACTIONS)
            for number, action in enumerate(actions)
            if action not in _ACTIONS
        ]
        causes += [
            duplicate(f"spec.validationActions[{number}]", action)
            for number, action in enumerate(actions)
            if action in actions[:number]
        ]
        if {"Deny", "Warn"} <= set(actions):
            why = "must not contain both Deny and Warn (repeating the same validation failure information in the API "
            causes.append(
                invalid_value("spec.validationActions", actions, f"{why}response and headers serves no purpose)")
            )
        if (spec.get("paramRef") or {}).get("selector"):
            why = "this server finds parameters by name only; use paramRef.name"
            causes.append(forbidden_field("spec.paramRef.selector", why))
        return causes
