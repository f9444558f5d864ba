"""Admission policies and their bindings, as the API server takes them."""

from __future__ import annotations

from phalanx.client.policies import (
    MUTATING,
    MUTATING_BINDINGS,
    VALIDATING,
    VALIDATING_BINDINGS,
    changing,
    refusing,
    rule,
)

PODS = rule("", "pods", "CREATE")


def test_a_policy_that_refuses_is_bound_to_deny() -> None:
    (kind, policy), (bound_kind, binding) = refusing("n.example", [PODS], {"ours": "true"}, {"say no": "1 == 2"})
    assert (kind, bound_kind) == (VALIDATING, VALIDATING_BINDINGS)
    assert policy == {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "n.example"},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [PODS]},
            "matchConditions": [{"name": "ours", "expression": "true"}],
            "validations": [{"expression": "1 == 2", "message": "say no", "reason": "Forbidden"}],
        },
    }
    assert binding["spec"] == {"policyName": "n.example", "validationActions": ["Deny"]}


def test_a_policy_that_changes_has_a_binding_without_actions() -> None:
    (kind, policy), (bound_kind, binding) = changing("n.example", [PODS], {}, "Object{}")
    assert (kind, bound_kind) == (MUTATING, MUTATING_BINDINGS)
    assert policy["spec"]["mutations"] == [
        {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "Object{}"}}
    ]
    assert binding["spec"] == {"policyName": "n.example"}
    (_, patched), _ = changing("n.example", [PODS], {}, "[]", patch=True)
    assert patched["spec"]["mutations"] == [{"patchType": "JSONPatch", "jsonPatch": {"expression": "[]"}}]


def test_further_fields_take_the_place_of_the_usual_ones() -> None:
    selected = {"resourceRules": [PODS], "objectSelector": {"matchLabels": {"a": "b"}}}
    (_, policy), _ = refusing("n.example", [PODS], {}, {}, matchConstraints=selected, failurePolicy="Ignore")
    assert policy["spec"]["matchConstraints"] == selected
    assert policy["spec"]["failurePolicy"] == "Ignore"
