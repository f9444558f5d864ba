"""Policies in CEL change and refuse requests as KEP-3488 and KEP-3962 say."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from phalanx.embedded.apimachinery.expressions import admission_policy
from phalanx.embedded.apimachinery.expressions.admission_policy import (
    Patches,
    PolicyReader,
    Review,
    mutate,
    selected,
    validate,
)
from phalanx.embedded.apimachinery.expressions.authorizer import AuthorizationQuestion
from phalanx.embedded.apimachinery.expressions.cel import CelScope
from phalanx.embedded.apimachinery.meta.resource import Object, Resource, User
from phalanx.embedded.apimachinery.meta.status import StatusError
from phalanx.embedded.apimachinery.patch.json_patch import json_patch

JOBS = Resource(group="batch", version="v1", kind="Job", plural="jobs", namespaced=True)
JOB_RULE = {"apiGroups": ["batch"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["jobs"]}
SUSPEND = {
    "patchType": "ApplyConfiguration",
    "applyConfiguration": {"expression": "Object{spec: Object.spec{suspend: true}}"},
}


def merged(resource: Resource, obj: Object, value: Any) -> Object:
    return {**obj, **{key: {**obj.get(key, {}), **part} for key, part in value.items()}}


PATCHES = Patches(merge=merged, json=lambda resource, obj, value: json_patch(obj, value))


def policy(kind: str, **spec: Any) -> Object:
    return {
        "kind": kind,
        "metadata": {"name": "p"},
        "spec": {"matchConstraints": {"resourceRules": [JOB_RULE]}, **spec},
    }


def reader(*objects: Object, binding: Object | None = None) -> PolicyReader:
    bindings = [
        {"metadata": {"name": "b"}, "spec": {"policyName": "p", "validationActions": ["Deny"], **(binding or {})}}
    ]
    kinds = {"mutatingadmissionpolicies": "Mutating", "validatingadmissionpolicies": "Validating"}

    def policies(plural: str) -> list[Object]:
        if plural.endswith("bindings"):
            return bindings
        return [one for one in objects if one["kind"].startswith(kinds[plural])]

    return PolicyReader(policies=policies, param=lambda *where: {"max": 3} if where[-1] == "limits" else None)


def review(operation: str = "CREATE", labels: dict[str, str] | None = None, **spec: Any) -> Review:
    obj = {"metadata": {"name": "j", "labels": labels or {}}, "spec": spec}
    namespace = {"metadata": {"name": "team-a", "labels": {"tier": "batch"}}}
    return Review(resource=JOBS, operation=operation, name="j", obj=obj, namespace=namespace, user=User(name="alice"))


def test_a_mutation_applies_where_its_condition_holds() -> None:
    condition = {"name": "queued", "expression": '"phalanx.dev/queue" in object.metadata.labels'}
    known = reader(policy("MutatingAdmissionPolicy", matchConditions=[condition], mutations=[SUSPEND]))
    assert mutate(review(labels={"phalanx.dev/queue": "a"}), known, PATCHES)["spec"] == {"suspend": True}
    untouched = review()
    assert mutate(untouched, known, PATCHES) is untouched.obj


def test_a_json_patch_sees_what_the_mutation_before_it_did() -> None:
    patch = '[JSONPatch{op: "replace", path: "/spec/suspend", value: !object.spec.suspend}]'
    second = {"patchType": "JSONPatch", "jsonPatch": {"expression": patch}}
    known = reader(policy("MutatingAdmissionPolicy", mutations=[SUSPEND, second]))
    assert mutate(review(), known, PATCHES)["spec"] == {"suspend": False}


def test_a_violation_denies_in_the_words_of_the_policy() -> None:
    rule = {"expression": "object.spec.parallelism <= params.max", "messageExpression": '"over " + string(params.max)'}
    parameter = {"paramKind": {"apiVersion": "x/v1", "kind": "Limit"}}
    known = reader(
        policy("ValidatingAdmissionPolicy", validations=[{**rule, "reason": "Forbidden"}], **parameter),
        binding={"paramRef": {"name": "limits"}},
    )
    with pytest.raises(StatusError) as refused:
        validate(review(parallelism=5), known)
    assert refused.value.code == 403
    assert refused.value.message == (
        "jobs.batch \"j\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: over 3"
    )
    assert validate(review(parallelism=3), known) == []


def test_a_match_condition_sees_the_parameter() -> None:
    condition = {"name": "limited", "expression": "params.max == 3"}
    parameter = {"paramKind": {"apiVersion": "x/v1", "kind": "Limit"}, "failurePolicy": "Ignore"}
    known = reader(
        policy("MutatingAdmissionPolicy", matchConditions=[condition], mutations=[SUSPEND], **parameter),
        binding={"paramRef": {"name": "limits"}},
    )
    assert mutate(review(), known, PATCHES)["spec"] == {"suspend": True}


def test_a_warning_lets_the_request_pass() -> None:
    known = reader(
        policy("ValidatingAdmissionPolicy", validations=[{"expression": "false", "message": "old"}]),
        binding={"validationActions": ["Warn"]},
    )
    assert validate(review(), known) == ["Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': old"]


@pytest.mark.parametrize(("failure_policy", "denied"), [("Fail", True), ("Ignore", False)])
def test_an_expression_that_fails_is_a_failure_of_the_policy(failure_policy: str, denied: bool) -> None:
    broken = policy(
        "ValidatingAdmissionPolicy", failurePolicy=failure_policy, validations=[{"expression": "object.spec.none > 1"}]
    )
    if denied:
        with pytest.raises(StatusError, match="resulted in error: no such key: none"):
            validate(review(), reader(broken))
    else:
        assert validate(review(), reader(broken)) == []


@pytest.mark.parametrize(
    ("binding", "applies"),
    [
        ({}, True),
        ({"matchResources": {"namespaceSelector": {"matchLabels": {"tier": "batch"}}}}, True),
        ({"matchResources": {"namespaceSelector": {"matchLabels": {"tier": "web"}}}}, False),
        ({"matchResources": {"objectSelector": {"matchLabels": {"deny": "yes"}}}}, False),
        ({"matchResources": {"excludeResourceRules": [JOB_RULE]}}, False),
        ({"policyName": "another"}, False),
    ],
)
def test_a_binding_narrows_its_policy(binding: Object, applies: bool) -> None:
    known = reader(policy("MutatingAdmissionPolicy", mutations=[SUSPEND]), binding=binding)
    assert ("suspend" in mutate(review(), known, PATCHES)["spec"]) is applies


def test_other_operations_are_not_matched() -> None:
    known = reader(policy("MutatingAdmissionPolicy", mutations=[SUSPEND]))
    assert "suspend" not in mutate(review("UPDATE"), known, PATCHES)["spec"]


@pytest.mark.parametrize(
    ("expression", "holds"),
    [
        ({"key": "a", "operator": "In", "values": ["1"]}, True),
        ({"key": "a", "operator": "NotIn", "values": ["1"]}, False),
        ({"key": "b", "operator": "NotIn", "values": ["1"]}, True),
        ({"key": "a", "operator": "Exists"}, True),
        ({"key": "a", "operator": "DoesNotExist"}, False),
    ],
)
def test_label_selectors(expression: Object, holds: bool) -> None:
    assert selected({"matchExpressions": [expression]}, {"a": "1"}) is holds


def test_conditions_of_several_policies_look_at_a_request_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[CelScope] = []

    def scope(variables: Any, **more: Any) -> CelScope:
        made.append(CelScope(variables, **more))
        return made[-1]

    monkeypatch.setattr(admission_policy, "CelScope", scope)
    texts = ('"queue" in object.metadata.labels', 'object.spec.kind == "x"', 'request.name == "other"')
    found = [
        {
            **policy(
                "ValidatingAdmissionPolicy",
                matchConditions=[{"name": "c", "expression": text}],
                validations=[{"expression": "false", "message": f"no {number}"}],
            ),
            "metadata": {"name": f"p{number}"},
        }
        for number, text in enumerate(texts)
    ]
    bindings = [
        {"metadata": {"name": name}, "spec": {"policyName": name, "validationActions": ["Warn"]}}
        for name in ("p0", "p1", "p2")
    ]
    known = PolicyReader(
        policies=lambda plural: bindings if plural.endswith("bindings") else found, param=lambda *where: None
    )
    assert validate(review(kind="y"), known) == []
    assert len(made) == 1
    (warning,) = validate(review(kind="x"), known)  # each decides for itself
    assert warning.endswith("no 1")


@pytest.mark.parametrize(
    ("asked", "question"),
    [
        ('group("").resource("pods").subresource("exec").namespace("a").name("p").check("create")',
         AuthorizationQuestion(verb="create", resource="pods/exec", namespace="a", name="p")),
        ('group("batch").resource("jobs").check("list")',
         AuthorizationQuestion(verb="list", group="batch", resource="jobs")),
        ('path("/healthz").check("get")', AuthorizationQuestion(verb="get", path="/healthz")),
    ],
)  # fmt: skip
def test_an_expression_asks_what_else_its_user_may_do(asked: str, question: AuthorizationQuestion) -> None:
    conditions = [{"name": "may", "expression": f"authorizer.{asked}.allowed()"}]
    check = policy(
        "ValidatingAdmissionPolicy", matchConditions=conditions, validations=[{"expression": "false", "message": "no"}]
    )
    heard: list[AuthorizationQuestion] = []

    def rights(of: AuthorizationQuestion) -> bool:
        heard.append(of)
        return of.verb != "list"

    known = reader(check, binding={"validationActions": ["Warn"]})
    assert len(validate(replace(review(), rights=rights), known)) == (question.verb != "list")
    assert heard == [question]


def test_what_is_asked_where_nobody_knows_the_rights_is_a_failure_of_the_policy() -> None:
    asking = [{"expression": 'authorizer.path("/healthz").check("get").allowed()'}]
    with pytest.raises(StatusError, match="resulted in error"):
        validate(review(), reader(policy("ValidatingAdmissionPolicy", validations=asking)))


def test_what_one_user_may_do_is_not_remembered_of_another() -> None:
    asking = [{"expression": 'authorizer.path("/healthz").check("get").allowed()', "message": "no"}]
    known = reader(policy("ValidatingAdmissionPolicy", validations=asking), binding={"validationActions": ["Warn"]})
    answers = (True, False, True)
    warned = [len(validate(replace(review(), rights=lambda _, may=may: may), known)) for may in answers]
    assert warned == [0, 1, 0]
