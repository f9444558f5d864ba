"""The strategies of admission policies and their bindings: they set defaults, and refuse wrong expressions when a
policy is written.

Every expression is compiled when its policy is written. So a policy with a syntax error is refused, and can never block
other requests. Source: k8s.io/kubernetes/pkg/apis/admissionregistration (v1 defaults, validation).
"""

from __future__ import annotations

import re

from phalanx.embedded.apimachinery.expressions.cel import ExpressionError, compiled
from phalanx.embedded.apimachinery.expressions.policy_types import judged
from phalanx.embedded.apimachinery.expressions.type_check import ANY, DYN, Type, type_text
from phalanx.embedded.apimachinery.meta.resource import Object
from phalanx.embedded.apimachinery.meta.status import (
    Cause,
    duplicate,
    forbidden_field,
    invalid_value,
    not_supported,
    required,
    too_many,
)
from phalanx.embedded.apimachinery.schema import formats
from phalanx.embedded.apimachinery.schema.gotypes.internal import internal
from phalanx.embedded.apiserver.registry.kinds.checks import Found, chosen, formatted, label_selector
from phalanx.embedded.apiserver.registry.kinds.generation import GenerationStrategy, SpecAndStatus
from phalanx.embedded.apiserver.registry.kinds.policy.webhook import rule_causes

_FAILURE_POLICIES = ("Fail", "Ignore")
_MATCH_POLICIES = ("Equivalent", "Exact")
_REINVOCATIONS = ("IfNeeded", "Never")
_REASONS = ("Forbidden", "Invalid", "RequestEntityTooLarge")
_ACTIONS = ("Audit", "Deny", "Warn")
_NOT_FOUND = ("Deny", "Allow")
_MUTATED = ("*", "CONNECT", "CREATE", "UPDATE")
_PATCHES = {"ApplyConfiguration": "applyConfiguration", "JSONPatch": "jsonPatch"}
_IDENTIFIER = re.compile(r"[_a-zA-Z][_a-zA-Z0-9]*")
_WORDS = frozenset(
    (
        *("in", "as", "break", "const", "continue", "else", "false", "for", "function", "if", "import", "let", "loop"),
        *("package", "namespace", "null", "return", "true", "var", "void", "while"),
    )
)
_MOST_CONDITIONS, _MOST_ANNOTATIONS = 64, 20


def _default_match(match: Object) -> None:
    match.setdefault("namespaceSelector", {})
    match.setdefault("objectSelector", {})
    match.setdefault("matchPolicy", "Equivalent")
    for rule in (*match.get("resourceRules", ()), *match.get("excludeResourceRules", ())):
        rule.setdefault("scope", "*")


class PolicyStrategy(GenerationStrategy):
    """The resource strategy of ValidatingAdmissionPolicies and MutatingAdmissionPolicies. `part`: the name of the field
    with the policy's list of validations or mutations."""

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
        found: Found = []
        mutates = self.part == "mutations"
        chosen(found, "spec.failurePolicy", spec.get("failurePolicy"), _FAILURE_POLICIES)
        if (kind := spec.get("paramKind")) is not None:
            _param_kind(found, kind)
        if (match := spec.get("matchConstraints")) is None:
            found.append(required("spec.matchConstraints"))
        else:
            _matches(found, match, "spec.matchConstraints", mutates=mutates)
            if not match.get("resourceRules"):
                found.append(required("spec.matchConstraints.resourceRules"))
        _conditions(found, spec.get("matchConditions") or ())
        for number, one in enumerate(spec.get("variables") or ()):
            _variable(found, one, f"spec.variables[{number}]")
        if mutates:
            _mutations(found, spec)
        else:
            _validations(found, spec, obj["metadata"].get("name", ""))
        return [*found, *_expression_causes(spec)]


class ValidatingPolicyStrategy(SpecAndStatus, PolicyStrategy):
    """The strategy of ValidatingAdmissionPolicies. The status of such a policy reports type errors of its expressions
    (`endpoints/reconcilers`)."""

    status_keeps_metadata = True
    counts = True


def _param_kind(found: Found, given: Object) -> None:
    path, version, kind = "spec.paramKind", given.get("apiVersion", ""), given.get("kind", "")
    group, _, name = version.rpartition("/")
    if not version:
        found.append(required(f"{path}.apiVersion"))
    elif version.count("/") > 1:
        found.append(invalid_value(f"{path}.apiVersion", version, f"unexpected GroupVersion string: {version}"))
    else:
        if group and (problems := formats.dns_subdomain(group)):
            found.append(invalid_value(f"{path}.apiVersion", group, ",".join(problems)))
        if not name:
            found.append(invalid_value(f"{path}.apiVersion", version, "version must be specified"))
        elif problems := formats.dns_1035_label(name):
            found.append(invalid_value(f"{path}.apiVersion", name, ",".join(problems)))
    if not kind:
        found.append(required(f"{path}.kind"))
    elif problems := formats.dns_1035_label(kind.lower()):
        text = "may have mixed case, but should otherwise match: " + ",".join(problems)
        found.append(invalid_value(f"{path}.kind", kind, text))


def _matches(found: Found, match: Object, path: str, *, mutates: bool) -> None:
    """Check the fields of a policy or a binding that state which objects it matches. `mutates`: True for a mutating
    policy, which may match only creates and updates."""
    if (policy := match.get("matchPolicy")) is not None:  # a missing matchPolicy gets its default
        chosen(found, f"{path}.matchPolicy", policy, _MATCH_POLICIES)
    for key in ("namespaceSelector", "objectSelector"):
        label_selector(found, match.get(key), f"{path}.{key}")
    for key in ("resourceRules", "excludeResourceRules"):
        for number, rule in enumerate(match.get(key) or ()):
            names = rule.get("resourceNames") or ()
            for index, name in enumerate(names):
                if name in names[:index]:
                    found.append(duplicate(f"{path}.{key}[{number}].resourceNames[{index}]", name))
            found += rule_causes(rule, f"{path}.{key}[{number}]")
    for rule in (match.get("resourceRules") or ()) if mutates else ():
        for operation in rule.get("operations") or ():
            if operation not in _MUTATED:
                found.append(not_supported(f"{path}.resourceRules.operations", operation, _MUTATED))


def _conditions(found: Found, given: list[Object] | tuple[()]) -> None:
    if len(given) > _MOST_CONDITIONS:
        found.append(too_many("spec.matchConditions", len(given), _MOST_CONDITIONS))
    names: set[str] = set()
    for number, one in enumerate(given):
        path, name = f"spec.matchConditions[{number}]", one.get("name", "")
        if not (one.get("expression") or "").strip():
            found.append(required(f"{path}.expression"))
        if not name:
            found.append(required(f"{path}.name"))
            continue
        formatted(found, f"{path}.name", name, formats.qualified_name)
        if name in names:
            found.append(duplicate(f"{path}.name", name))
        names.add(name)


def _variable(found: Found, given: Object, path: str) -> None:
    name = given.get("name", "")
    if not name.strip():
        found.append(required(f"{path}.name", "name is not specified"))
    elif not _IDENTIFIER.fullmatch(name) or name in _WORDS:
        found.append(invalid_value(f"{path}.name", name, "must be a valid CEL identifier"))


def _mutations(found: Found, spec: Object) -> None:
    mutations = spec.get("mutations") or ()
    if not mutations:
        found.append(required("spec.mutations", "mutations must contain at least one item"))
    for number, one in enumerate(mutations):
        path, sort = f"spec.mutations[{number}]", one.get("patchType", "")
        chosen(found, f"{path}.patchType", sort, sorted(_PATCHES))
        for other, key in _PATCHES.items():
            if other == sort and one.get(key) is None:
                found.append(required(f"{path}.{key}", f"must be specified when patchType is {sort}"))
            elif other != sort and sort in _PATCHES and one.get(key) is not None:
                text = f"must not be specified when patchType is {sort}"
                found.append(invalid_value(f"{path}.{key}", f"{{{key}}}", text))
    chosen(found, "spec.reinvocationPolicy", spec.get("reinvocationPolicy"), _REINVOCATIONS)


def _validations(found: Found, spec: Object, policy: str) -> None:
    """Check the validations and the audit annotations, of which the policy must have at least one. As in Kubernetes,
    the full key of an audit annotation is the name of the policy, a slash and `key`."""
    validations, annotations = spec.get("validations") or (), spec.get("auditAnnotations") or ()
    if not validations and not annotations:
        text = "validations or auditAnnotations must contain at least one item"
        found += [required(f"spec.{part}", text) for part in ("validations", "auditAnnotations")]
    for number, one in enumerate(validations):
        path = f"spec.validations[{number}]"
        for key in ("messageExpression", "message"):
            if (text := one.get(key, "")) and not text.strip():
                found.append(invalid_value(f"{path}.{key}", text, "must be non-empty if specified"))
        if "\n" in one.get("message", "").strip():
            found.append(invalid_value(f"{path}.message", one["message"], "must not contain line breaks"))
        if (reason := one.get("reason")) is not None and reason not in _REASONS:
            found.append(not_supported(f"{path}.reason", reason, _REASONS))
    if len(annotations) > _MOST_ANNOTATIONS:
        text = f"must not have more than {_MOST_ANNOTATIONS} auditAnnotations"
        shown = internal(annotations, "[]admissionregistration.AuditAnnotation")
        found.append(invalid_value("spec.auditAnnotations", shown, text))
    keys: set[str] = set()
    for number, one in enumerate(annotations):
        path, key = f"spec.auditAnnotations[{number}].key", one.get("key", "")
        if policy:
            formatted(found, path, f"{policy}/{key}", formats.qualified_name)
        else:
            found.append(invalid_value(path, key, "requires metadata.name be non-empty"))
        if key in keys:
            found.append(duplicate(path, key))
        keys.add(key)


def _expression_causes(spec: Object) -> list[Cause]:
    causes = []
    for path, text, verdict in judged(spec):
        if not (text or "").strip():
            if not path.startswith("spec.matchConditions"):
                causes.append(required(path, f"{path.rsplit('.', 1)[1]} is not specified"))
            continue
        try:
            compiled(text)
        except ExpressionError as error:
            causes.append(invalid_value(path, text, f"compilation failed: {error}"))
            continue
        if verdict.errors:
            causes.append(invalid_value(path, text, "compilation failed: " + "\n".join(verdict.errors)))
        elif (wanted := _result_of(path)) and not _may_be(verdict.type, wanted, text):
            causes.append(invalid_value(path, text, f"must evaluate to {wanted} but got {type_text(verdict.type)}"))
    return causes


def _may_be(sort: Type, wanted: str, text: str) -> bool:
    """Return True if an expression of the type `sort` may have values of the type `wanted`. An object that the
    expression creates is accepted as `Object`, because its fields are not checked."""
    if wanted.startswith("list"):
        return sort == DYN or (isinstance(sort, tuple) and (sort != ("list", DYN) or "JSONPatch" in text))
    if wanted.startswith("one of"):
        return sort in ("string", "null_type", DYN) or sort is ANY
    return sort in (wanted, DYN) or (wanted == "Object" and not isinstance(sort, str))


def _result_of(path: str) -> str:
    """Return the type that the value of an expression must have; "" if any type is allowed."""
    if path.endswith("messageExpression"):
        return "string"
    if path.endswith("jsonPatch.expression"):
        return "list(JSONPatch)"
    if path.endswith("applyConfiguration.expression"):
        return "Object"
    if path.endswith("valueExpression"):
        return "one of [string null_type]"
    return "bool" if path.startswith(("spec.validations", "spec.matchConditions")) else ""


class BindingStrategy(GenerationStrategy):
    """The strategy of ValidatingAdmissionPolicyBindings and MutatingAdmissionPolicyBindings. `acts`: True if the
    binding has validationActions."""

    allow_unconditional_update = False

    def __init__(self, *, acts: bool) -> None:
        self.acts = acts

    def default(self, obj: Object) -> None:
        match = (obj.get("spec") or {}).get("matchResources")
        if isinstance(match, dict):
            _default_match(match)

    def validate(self, obj: Object) -> list[Cause]:
        spec = obj.get("spec") or {}
        found: Found = []
        if name := spec.get("policyName"):
            formatted(found, "spec.policyName", name, formats.dns_subdomain)
        else:
            found.append(required("spec.policyName"))
        if (reference := spec.get("paramRef")) is not None:
            _param_reference(found, reference)
        if (match := spec.get("matchResources")) is not None:
            _matches(found, match, "spec.matchResources", mutates=not self.acts)
        if self.acts:
            _actions(found, spec.get("validationActions") or [])
        return found


def _param_reference(found: Found, reference: Object) -> None:
    path, name, selector = "spec.paramRef", reference.get("name", ""), reference.get("selector")
    if name:
        formatted(found, f"{path}.name", name, formats.path_segment)
    text = "name and selector are mutually exclusive"
    if name and selector is not None:
        found.append(forbidden_field(f"{path}.name", text))
    if selector is not None:
        label_selector(found, selector, f"{path}.selector")
    if name and selector is not None:
        found.append(forbidden_field(f"{path}.selector", text))
    if not name and selector is None:
        found.append(required(path, "one of name or selector must be specified"))
    chosen(found, f"{path}.parameterNotFoundAction", reference.get("parameterNotFoundAction"), _NOT_FOUND)


def _actions(found: Found, actions: list[str]) -> None:
    path = "spec.validationActions"
    for number, action in enumerate(actions):
        if action not in _ACTIONS:
            found.append(not_supported(f"{path}[{number}]", action, _ACTIONS))
        if action in actions[:number]:
            found.append(duplicate(f"{path}[{number}]", action))
    if {"Deny", "Warn"} <= set(actions):
        why = "must not contain both Deny and Warn (repeating the same validation failure information in the API "
        found.append(invalid_value(path, actions, f"{why}response and headers serves no purpose)"))
    if not actions:
        found.append(required(path, "at least one validation action is required"))
