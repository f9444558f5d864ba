"""MutatingAdmissionPolicy and ValidatingAdmissionPolicy (admissionregistration.k8s.io/v1): admission rules that users
write in CEL.

A policy defines its mutations or validations, and the requests to which they apply (`matchConstraints`,
`matchConditions`). A policy takes effect only through bindings that name it. The `matchResources` of a binding may
restrict the policy to fewer requests. Mutating policies run first. An ApplyConfiguration is merged into the object, and
its lists are merged by the merge keys of the object's kind. A JSONPatch is applied unchanged. At the end of admission,
the object must satisfy every validation. The binding determines whether a violation denies the request or only causes a
warning.

A kind may be served in several versions, and a rule names some of them. With `matchPolicy: Equivalent`, the default, a
rule matches requests in any version, and expressions get the object in the version that the rule names. A write to a
subresource (`pods/status`, `pods/binding`) matches only rules that name this subresource.

If an expression cannot be evaluated, the policy has failed. The server then refuses the request if the `failurePolicy`
is Fail, and ignores the failure if it is Ignore. Source: KEP-3488, KEP-3962 and
k8s.io/apiserver/pkg/admission/plugin/policy. Two features are not supported: `paramRef.selector` (a write of such a
binding is refused) and audit annotations (there is no audit log).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

from phalanx.embedded.apimachinery.expressions.authorizer import AUTHORIZER, Rights, asking
from phalanx.embedded.apimachinery.expressions.cel import CelScope, CelView, ExpressionError, compiled
from phalanx.embedded.apimachinery.meta.resource import Object, Resource, User, converted, stored_form
from phalanx.embedded.apimachinery.meta.status import StatusError, qualified

GROUP = "admissionregistration.k8s.io"
_CODES = {"Invalid": 422, "Forbidden": 403, "Unauthorized": 401, "RequestEntityTooLarge": 413}


@dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    """A request under admission. `obj`: the object to store; None for DELETE. `namespace`: the Namespace object of the
    object's namespace.

    `forms`: all served versions of the kind, including `resource`. `part`: the kind in the request body if it is not
    the kind of the object, as in a write to a subresource (Binding, Scale). `rights`: the rights of the user; None if
    they are unknown, so that expressions about rights cannot be evaluated."""

    resource: Resource
    forms: tuple[Resource, ...] = ()
    part: Resource | None = None
    operation: str  # one of CREATE, UPDATE, DELETE and CONNECT
    name: str
    obj: Object | None
    old: Object | None = None
    namespace: Object | None = None
    user: User
    dry_run: bool = False
    subresource: str = ""
    rights: Rights | None = None

    def shown(self, form: Resource, obj: Object | None) -> Object | None:
        """Return an object of the request in the version of `form`."""
        if obj is None or self.part is not None or _has_form(form, obj):
            return obj
        return converted(form, obj)

    def kept(self, form: Resource, obj: Object) -> Object:
        """Convert an object from the version of `form` to the version of the request."""
        if self.part is not None or self.obj is None or _has_form(form, self.obj):
            return obj
        return stored_form(form, obj) | {key: self.obj[key] for key in ("kind", "apiVersion")}


def _has_form(form: Resource, obj: Object) -> bool:
    return obj.get("apiVersion") in (form.api_version, None)


@dataclass(frozen=True, slots=True)
class BoundPolicy:
    """A policy with one of its bindings. `view`: the fields that the policy's expressions read. `form`: the version of
    the kind that the policy's rule names; None if the policy's rules and selectors must be checked for each request,
    because the kind and the operation do not decide whether the policy applies. `asked`: the fields that the match
    conditions of all policies for this kind and operation read; None if the match conditions of this policy also read
    its parameters or variables."""

    policy: Object
    binding: Object
    view: CelView
    form: Resource | None = None
    asked: CelView | None = None


class PolicyReader:
    """Reads policies, bindings and parameters from the store. `policies`: a function that returns all objects of a kind
    of the group admissionregistration.k8s.io. `param`, `params`: functions that return one parameter object, or all of
    them. The policies for each kind are cached until `forget` is called."""

    def __init__(
        self,
        policies: Callable[[str], Iterable[Object]],
        param: Callable[[str, str, str, str], Object | None],  # apiVersion, kind, namespace, name
        params: Callable[[str, str, str], Iterable[Object]] = lambda *_: (),  # apiVersion, kind, namespace
    ) -> None:
        self._policies, self.param, self.params = policies, param, params
        self._known: dict[tuple[str, ...], tuple[BoundPolicy, ...]] = {}

    def forget(self) -> None:
        self._known.clear()

    def bound(self, plural: str, review: Review) -> tuple[BoundPolicy, ...]:
        """Return the policies that may apply to the kind and operation of the request, in the order in which they are
        evaluated."""
        key = (plural, *kind_of(review))
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = tuple(self._find(plural, review))
        return known

    def _find(self, plural: str, review: Review) -> Iterator[BoundPolicy]:
        bindings: dict[str, list[Object]] = {}
        for binding in self._policies(plural.removesuffix("policies") + "policybindings"):
            bindings.setdefault(binding["spec"]["policyName"], []).append(binding)
        found = [one for one in self._policies(plural) if about(one["spec"].get("matchConstraints") or {}, review)]
        found.sort(key=lambda one: str(one["metadata"]["name"]))
        asked = CelView(text for one in found for text in _conditions(one))
        for policy in found:
            view = CelView(text for _, text in expressions_of(policy["spec"]) if text)
            shared = asked if _are_plain(_conditions(policy)) else None
            constraints = policy["spec"]["matchConstraints"]
            form = None if _is_narrowed(constraints) else matched(constraints, review)
            for one in bindings.get(policy["metadata"]["name"], ()):
                yield BoundPolicy(policy, one, view, form, shared)


def kind_of(review: Review) -> tuple[str, ...]:
    """Return the properties of a request that the policies' rules compare, except the name of the object."""
    of = review.resource
    scope = "Namespaced" if of.namespaced else "Cluster"
    return of.group, of.version, of.plural, scope, review.subresource, review.operation


def expressions_of(spec: Object) -> Iterator[tuple[str, Any]]:
    """Yield (field path, expression) for every expression in a policy."""
    for part in ("variables", "matchConditions", "validations"):
        for number, one in enumerate(spec.get(part) or ()):
            yield f"spec.{part}[{number}].expression", one.get("expression")
            if one.get("messageExpression"):
                yield f"spec.{part}[{number}].messageExpression", one["messageExpression"]
    for number, one in enumerate(spec.get("auditAnnotations") or ()):
        yield f"spec.auditAnnotations[{number}].valueExpression", one.get("valueExpression")
    for number, one in enumerate(spec.get("mutations") or ()):
        for form in ("applyConfiguration", "jsonPatch"):
            if one.get(form):
                yield f"spec.mutations[{number}].{form}.expression", one[form].get("expression")


def _conditions(policy: Object) -> list[str]:
    return [one["expression"] for one in policy["spec"].get("matchConditions") or ()]


def _are_plain(conditions: Iterable[str]) -> bool:
    """Return True if the match conditions read only the request, and no parameters or variables of the policy."""
    return not any("variables" in text or "params" in text for text in conditions)


def _is_narrowed(constraints: Mapping[str, Any]) -> bool:
    """Return True if the constraints depend on more than the kind and the operation of a request."""
    by_object = ("excludeResourceRules", "namespaceSelector", "objectSelector")
    return any(constraints.get(key) for key in by_object) or any(
        rule.get("resourceNames") for rule in constraints.get("resourceRules") or ()
    )


Patch = Callable[[Resource, Object, Any], Object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Patches:
    """The two functions with which a mutation can change an object. Both return a new object."""

    merge: Patch
    json: Patch


def _scope(view: CelView, review: Review, form: Resource, obj: Object | None, params: Object | None = None) -> CelScope:
    variables = {
        "authorizer": AUTHORIZER,
        "object": obj,
        "oldObject": review.shown(form, review.old),
        "namespaceObject": review.namespace,
        "params": params,
        "request": _request(review, form) if view.looks_at("request") else {},
        "variables": {},
    }
    return CelScope(view.of(variables), functions=asking(review.rights) if view.looks_at("authorizer") else {})


def _request(review: Review, form: Resource) -> dict[str, object]:
    return {
        "uid": str(uuid4()),
        **named(review, form),
        "subResource": review.subresource,
        "requestSubResource": review.subresource,
        "name": review.name,
        "namespace": (review.namespace or {}).get("metadata", {}).get("name", ""),
        "operation": review.operation,
        "userInfo": {"username": review.user.name, "groups": list(review.user.groups), "uid": review.user.uid},
        "dryRun": review.dry_run,
    }


class _Broken(Exception):
    """Raised if a match condition of a policy cannot be evaluated and the failure policy is Fail."""


@dataclass
class _Case:
    """A policy that is applied to a request, with the variables that its expressions use. `form`: the version that its
    rule names."""

    bound: BoundPolicy
    review: Review
    form: Resource
    params: Object | None = None
    broken: str = ""  # the reason why the policy cannot be evaluated, which counts as a violation
    _scope: CelScope | None = None  # the scope that was created for the object `_seen`
    _seen: Object | None = None
    _shown: Object | None = None
    _computed: bool = False

    @property
    def policy(self) -> Object:
        return self.bound.policy

    @property
    def binding(self) -> Object:
        return self.bound.binding

    @property
    def spec(self) -> Object:
        spec: Object = self.policy["spec"]
        return spec

    def shown(self) -> Object | None:
        """Return the object in the form in which expressions read it. Each call returns the same Python object, because
        results for this Python object are cached."""
        if self._shown is None:
            self._shown = self.review.shown(self.form, self.review.obj)
        return self._shown

    def evaluate(self, text: str, obj: Object | None) -> object:
        """Evaluate the expression on the object. All variables of the policy are evaluated, in their order, as soon as
        an expression uses one of them. Each variable may use the earlier variables."""
        if self._scope is None or self._seen is not obj:
            self._scope = _scope(self.bound.view, self.review, self.form, obj, self.params)
            self._seen, self._computed = obj, False
        if "variables" in text and not self._computed:
            self._computed = True
            known: dict[str, Any] = {}
            for variable in self.spec.get("variables", ()):
                known[variable["name"]] = compiled(variable["expression"]).evaluate(self._scope)
                self._scope.add("variables", known)
        return compiled(text).evaluate(self._scope)

    def not_mutated(self, why: str) -> StatusError:
        review, names = self.review, [one["metadata"]["name"] for one in (self.policy, self.binding)]
        text = f"policy '{names[0]}' with binding '{names[1]}' denied request: {why}"
        details = {"name": review.name, "group": review.resource.group, "kind": review.resource.plural}
        found = {key: value for key, value in details.items() if value} | {"causes": [{"message": text}]}
        return StatusError(403, "Invalid", text, details=found)

    def denied(self, why: str, reason: str = "Invalid") -> StatusError:
        review, resource = self.review, self.review.resource
        kind, name = self.policy["kind"], self.policy["metadata"]["name"]
        text = f"{kind} '{name}' with binding '{self.binding['metadata']['name']}' denied request: {why}"
        subject = f'{qualified(resource.plural, resource.group)} "{review.name}"'
        details = {"name": review.name, "group": resource.group, "kind": resource.plural, "causes": [{"message": text}]}
        return StatusError(
            _CODES.get(reason, 422),
            reason,
            f"{subject} is forbidden: {text}",
            details={key: value for key, value in details.items() if value},
        )


def named(review: Review, form: Resource) -> dict[str, dict[str, str]]:
    """Return the fields of the variable `request` that name the kind and the resource: in the version of `form`
    (`kind`, `resource`), and in the version of the request (`requestKind`, `requestResource`)."""
    found: dict[str, dict[str, str]] = {}
    for of, kind, resource in ((form, "kind", "resource"), (review.resource, "requestKind", "requestResource")):
        said = review.part or of
        found[kind] = {"group": said.group, "version": said.version, "kind": said.kind}
        found[resource] = {"group": of.group, "version": of.version, "resource": of.plural}
    return found


def mutate(review: Review, reader: PolicyReader, patches: Patches, *, reinvoked: bool = False) -> Object:
    """Return the object with the changes of all mutating policies that apply; `review.obj` itself if none applies.
    Raises `StatusError`.

    Policies run in the order of their names. The policies run a second time if a policy with `reinvocationPolicy:
    IfNeeded` could react to a change by a later policy. `reinvoked`: True if a webhook has changed the object after the
    policies ran; then only policies with `reinvocationPolicy: IfNeeded` run."""
    assert review.obj is not None
    obj = review.obj
    cases = list(_cases("mutatingadmissionpolicies", review, reader))
    for case in cases:
        if case.broken:
            raise case.not_mutated(case.broken)
    for again in (True,) if reinvoked else (False, True):
        before = obj
        for case in cases:
            if not again or case.spec.get("reinvocationPolicy") == "IfNeeded":
                obj = replace(review, obj=obj).kept(case.form, _mutated(case, obj, patches))
        if obj == before or len(cases) < 2:
            break
    return obj


def validate(review: Review, reader: PolicyReader) -> list[str]:
    """Return the warnings of the validating policies that apply. Raises `StatusError` if one of them denies the
    request."""
    warnings = []
    for case in _cases("validatingadmissionpolicies", review, reader):
        actions = case.binding["spec"].get("validationActions", ())
        for why, reason in [(case.broken, "Invalid")] if case.broken else _violations(case):
            if "Deny" in actions:
                raise case.denied(why, reason)
            if "Warn" in actions:
                policy, binding = case.policy["metadata"]["name"], case.binding["metadata"]["name"]
                warnings.append(
                    f"Validation failed for ValidatingAdmissionPolicy '{policy}' with binding '{binding}': {why}"
                )
    return warnings


def _cases(plural: str, review: Review, reader: PolicyReader) -> Iterator[_Case]:
    """Yield every pair of a policy and a binding that applies to the request. The match conditions are checked as
    well."""
    if review.resource.group == GROUP:
        return  # policies do not apply to policies, so that users can always correct a wrong policy
    # All policies share these scopes, because passing an object to the CEL library costs more than evaluating an
    # expression.
    scopes: dict[str, CelScope] = {}
    for bound in reader.bound(plural, review):
        narrowed = bound.binding["spec"].get("matchResources")
        form = bound.form or matched(bound.policy["spec"].get("matchConstraints") or {}, review)
        if form is None:
            continue
        if narrowed and matched(narrowed, review, rules_required=False) is None:
            continue
        case = _Case(bound=bound, review=review, form=form)
        scope = None
        if bound.asked is not None:
            scope = scopes.get(form.api_version)
            if scope is None:
                scope = scopes[form.api_version] = _scope(bound.asked, review, form, case.shown())
        for params in _params(case, reader):
            one = case if params is None else replace(case, params=params)
            try:
                if _conditions_hold(one, scope):
                    yield one
            except _Broken as broken:
                yield replace(one, broken=str(broken))


def matched(constraints: Mapping[str, Any], review: Review, *, rules_required: bool = True) -> Resource | None:
    """Return the version of the kind in which the constraints (`MatchResources`) match the request; None if they do not
    match. The constraints match if a resource rule and both selectors match, and no exclusion matches."""
    rules, form = constraints.get("resourceRules") or (), review.resource
    if rules or rules_required:
        found = _form(constraints, rules, review)
        if found is None:
            return None
        form = found
    if _form(constraints, constraints.get("excludeResourceRules") or (), review) is not None:
        return None
    namespace = _labels(_home(review))
    if namespace is not None and not selected(constraints.get("namespaceSelector") or {}, namespace):
        return None
    selector = constraints.get("objectSelector") or {}
    states = [_labels(one) or {} for one in (review.obj, review.old) if one is not None]
    return form if not selector or any(selected(selector, labels) for labels in states) else None


def _home(review: Review) -> Object | None:
    """Return the Namespace object that a namespace selector tests: the namespace of the object, or the object itself if
    it is a Namespace."""
    if review.resource.key == ("", "namespaces"):
        return review.old or review.obj
    return review.namespace


def _labels(obj: Object | None) -> Mapping[str, str] | None:
    return None if obj is None else (obj.get("metadata") or {}).get("labels") or {}


def about(constraints: Mapping[str, Any], review: Review) -> bool:
    """Return True if a resource rule matches requests of this kind and operation for at least one object."""
    rules = constraints.get("resourceRules") or ()
    return any(_about(rule, review, form) for rule in rules for form in _forms(constraints, review))


def _form(constraints: Mapping[str, object], rules: Iterable[Mapping[str, object]], review: Review) -> Resource | None:
    """Return the first version of the kind that a rule matches. The version of the request is tried first."""
    for form in _forms(constraints, review):
        if any(_rule_matches(rule, review, form) for rule in rules):
            return form
    return None


def _forms(constraints: Mapping[str, object], review: Review) -> Iterator[Resource]:
    yield review.resource
    if constraints.get("matchPolicy", "Equivalent") == "Equivalent":
        yield from (form for form in review.forms if form is not review.resource)


def _rule_matches(rule: Mapping[str, Any], review: Review, form: Resource) -> bool:
    return _about(rule, review, form) and (not rule.get("resourceNames") or review.name in rule["resourceNames"])


def _about(rule: Mapping[str, Any], review: Review, resource: Resource) -> bool:
    """Return True if a rule matches the request. The names of objects in the rule are not compared."""
    scope = rule.get("scope", "*")
    return (
        _listed(rule.get("operations"), review.operation)
        and _listed(rule.get("apiGroups"), resource.group)
        and _listed(rule.get("apiVersions"), resource.version)
        and not _names(resource.plural, review.subresource).isdisjoint(rule["resources"])
        and scope in ("*", "Namespaced" if resource.namespaced else "Cluster")
    )


def _names(plural: str, subresource: str) -> set[str]:
    """Return the names by which a rule may list this resource."""
    if subresource:
        return {f"{plural}/{subresource}", f"{plural}/*", f"*/{subresource}", "*/*"}
    return {plural, "*", f"{plural}/*", "*/*"}


def _listed(values: Iterable[str] | None, wanted: str) -> bool:
    return any(value in ("*", wanted) for value in values or ())


def selected(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Return True if a `LabelSelector` object (metav1) selects the labels. All matchLabels and matchExpressions must be
    satisfied; an empty selector selects everything."""
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    return all(_expression_holds(one, labels) for one in selector.get("matchExpressions") or ())


def _expression_holds(one: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    value = labels.get(one["key"])
    match one["operator"]:
        case "In":
            return value in one["values"]
        case "NotIn":
            return value not in one["values"]
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case _:
            return False


def _params(case: _Case, reader: PolicyReader) -> list[Object | None]:
    """Return the parameter objects of the binding; the policy is evaluated once with each of them. Return [None] for a
    binding without parameters, and [] if the policy does not apply because no parameter object exists. Raises
    `StatusError` if no parameter object exists and the binding's `parameterNotFoundAction` is Deny."""
    kind, ref = case.spec.get("paramKind"), case.binding["spec"].get("paramRef")
    if not kind or not ref:
        return [None]
    space = ref.get("namespace") or (case.review.namespace or {}).get("metadata", {}).get("name", "")
    if ref.get("name") or ref.get("selector") is None:
        one = reader.param(kind["apiVersion"], kind["kind"], space, ref.get("name", ""))
        found = [] if one is None else [one]
    else:
        all_of_kind = reader.params(kind["apiVersion"], kind["kind"], space)
        found = [one for one in all_of_kind if selected(ref["selector"], _labels(one) or {})]
    if not found and ref.get("parameterNotFoundAction") == "Deny":
        why = "no params found for policy binding with `Deny` parameterNotFoundAction"
        raise case.denied(f"failed to configure binding: {why}")
    return [*found]


def applies(bound: BoundPolicy, review: Review, form: Resource) -> bool:
    """Return True if all match conditions are true. Raises `StatusError` if a condition cannot be evaluated and the
    failure policy is Fail."""
    case = _Case(bound=bound, review=review, form=form)
    try:
        return _conditions_hold(case)
    except _Broken as broken:
        raise case.denied(str(broken)) from None


def _conditions_hold(case: _Case, scope: CelScope | None = None) -> bool:
    """Return True if all match conditions are true. `scope`: a scope that the conditions of several policies share;
    None to create a new one."""
    for condition in case.spec.get("matchConditions") or ():
        text = condition["expression"]
        try:
            found = compiled(text).evaluate(scope) if scope is not None else case.evaluate(text, case.shown())
            if found is not True:
                return False
        except ExpressionError as error:
            if case.spec.get("failurePolicy") == "Ignore":
                return False
            raise _Broken(f"expression '{condition['expression']}' resulted in error: {error}") from None
    return True


def _mutated(case: _Case, obj: Object, patches: Patches) -> Object:
    """Return the object after the policy's mutations, in the version that the policy's rule names."""
    obj = case.review.shown(case.form, obj) or obj
    kind = case.review.part or case.form
    for mutation in case.spec.get("mutations") or ():
        configured = mutation["patchType"] == "ApplyConfiguration"
        text = mutation["applyConfiguration" if configured else "jsonPatch"]["expression"]
        try:
            value = case.evaluate(text, obj)
            change = patches.merge if configured else patches.json
            obj = change(kind, obj, value)
        except ExpressionError as error:
            why = f"expression '{text}' resulted in error: {error}"
        except StatusError as error:
            why = f"{'error applying patch' if configured else 'JSON Patch'}: {error}"
        else:
            continue
        if case.spec.get("failurePolicy") != "Ignore":
            raise case.not_mutated(why)
    return obj


def _violations(case: _Case) -> Iterator[tuple[str, str]]:
    """Yield (message, reason) for each validation that the object does not satisfy."""
    for rule in case.spec.get("validations") or ():
        reason = rule.get("reason") or "Invalid"
        try:
            if case.evaluate(rule["expression"], case.shown()) is not True:
                yield _message(case, rule), reason
        except ExpressionError as error:
            if case.spec.get("failurePolicy") != "Ignore":
                yield f"expression '{rule['expression']}' resulted in error: {error}", "Invalid"


def _message(case: _Case, rule: Mapping[str, Any]) -> str:
    if rule.get("messageExpression"):
        try:
            text = case.evaluate(rule["messageExpression"], case.shown())
            if isinstance(text, str) and text.strip():
                return text.strip()
        except ExpressionError:
            pass  # like kube-apiserver, use `message` if `messageExpression` fails
    return rule.get("message") or f"failed expression: {rule['expression']}"
