"""Policies of admission and their bindings: what is refused, in Kubernetes' words."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from phalanx.embedded.apimachinery.schema import formats
from tests.embedded.apiserver.registry.kinds.writes import Object, refusal

GROUP = "admissionregistration.k8s.io"
RULE = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
MATCH = {"resourceRules": [RULE]}
VALIDATING = {"matchConstraints": MATCH, "validations": [{"expression": "true"}]}
PATCH = {"patchType": "JSONPatch", "jsonPatch": {"expression": "[JSONPatch{op: 'remove', path: '/a'}]"}}
MUTATING = {"matchConstraints": MATCH, "mutations": [PATCH], "reinvocationPolicy": "Never"}
BINDING = {"policyName": "p", "validationActions": ["Deny"]}
RULES, STARS = "spec.matchConstraints.resourceRules[0]", '["*","pods","*/*"]'
KEY = formats.qualified_name("p/a/b")[0]


def of(plural: str, base: Object, spec: Object) -> list[str]:
    body = {"metadata": {"name": "p"}, "spec": {**copy.deepcopy(base), **spec}}
    return sorted(refusal(plural, body, group=GROUP))


@pytest.mark.parametrize(
    ("spec", "lines"),
    [
        ({"variables": [{"name": "a-b", "expression": "1"}, {"name": "in", "expression": ""}]}, [
            'spec.variables[0].name: Invalid value: "a-b": must be a valid CEL identifier',
            'spec.variables[1].name: Invalid value: "in": must be a valid CEL identifier',
            "spec.variables[1].expression: Required value: expression is not specified",
        ]),
        ({"auditAnnotations": [{"key": "a/b", "valueExpression": "'v'"}, {"key": "k", "valueExpression": ""}] * 2}, [
            f'spec.auditAnnotations[0].key: Invalid value: "p/a/b": {KEY}',
            f'spec.auditAnnotations[2].key: Invalid value: "p/a/b": {KEY}',
            'spec.auditAnnotations[2].key: Duplicate value: "a/b"',
            'spec.auditAnnotations[3].key: Duplicate value: "k"',
            "spec.auditAnnotations[1].valueExpression: Required value: valueExpression is not specified",
            "spec.auditAnnotations[3].valueExpression: Required value: valueExpression is not specified",
        ]),
        ({"validations": []}, [
            f"spec.{part}: Required value: validations or auditAnnotations must contain at least one item"
            for part in ("validations", "auditAnnotations")
        ]),
        ({"validations": [{"expression": "true", "message": " ", "reason": "X"}]}, [
            'spec.validations[0].message: Invalid value: " ": must be non-empty if specified',
            'spec.validations[0].reason: Unsupported value: "X": supported values: '
            '"Forbidden", "Invalid", "RequestEntityTooLarge"',
        ]),
        ({"validations": [{"expression": "true", "message": "a\nb"}]}, [
            'spec.validations[0].message: Invalid value: "a\\nb": must not contain line breaks',
        ]),
        ({"matchConditions": [{"name": "a", "expression": "true"}, {"name": "a", "expression": ""}]}, [
            "spec.matchConditions[1].expression: Required value",
            'spec.matchConditions[1].name: Duplicate value: "a"',
        ]),
        ({"paramKind": {"apiVersion": "a/b/c"}}, [
            'spec.paramKind.apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c',
            "spec.paramKind.kind: Required value",
        ]),
        ({"paramKind": {"apiVersion": "x/", "kind": "K"}}, [
            'spec.paramKind.apiVersion: Invalid value: "x/": version must be specified',
        ]),
        ({"matchConstraints": {"matchPolicy": "X", "resourceRules": [{**RULE, "resources": ["*", "pods", "*/*"]}]}}, [
            'spec.matchConstraints.matchPolicy: Unsupported value: "X": supported values: "Equivalent", "Exact"',
            f"{RULES}.resources: Invalid value: {STARS}: if '*/*' is present, must not specify other resources",
            f"{RULES}.resources: Invalid value: {STARS}: if '*' is present, must not specify other resources without "
            "subresources",
        ]),
        ({"matchConstraints": {"resourceRules": [{**RULE, "apiGroups": ["*", "a"], "apiVersions": ["*", ""]}]}}, [
            f'{RULES}.apiGroups: Invalid value: ["*","a"]: if \'*\' is present, must not specify other API groups',
            f'{RULES}.apiVersions: Invalid value: ["*",""]: if \'*\' is present, must not specify other API versions',
            f"{RULES}.apiVersions[1]: Required value",
        ]),
        ({"matchConstraints": {"resourceRules": [{**RULE, "resources": ["pods/*", "pods/log", "*/exec", "x/exec"]}]}}, [
            f'{RULES}.resources[1]: Invalid value: "pods/log": if \'pods/*\' is present, '
            "must not specify pods/log",
            f'{RULES}.resources[3]: Invalid value: "x/exec": if \'*/exec\' is present, '
            "must not specify x/exec",
        ]),
    ],
)  # fmt: skip
def test_wrong_validating_policies(spec: Object, lines: list[str]) -> None:
    assert of("validatingadmissionpolicies", VALIDATING, spec) == sorted(lines)


@pytest.mark.parametrize(
    ("spec", "lines"),
    [
        ({"mutations": [{"patchType": "JSONPatch", "applyConfiguration": {"expression": "Object{}"}}]}, [
            "spec.mutations[0].jsonPatch: Required value: must be specified when patchType is JSONPatch",
            'spec.mutations[0].applyConfiguration: Invalid value: "{applyConfiguration}": must not be specified when '
            "patchType is JSONPatch",
        ]),
        ({"mutations": [{"patchType": "X"}], "reinvocationPolicy": ""}, [
            'spec.mutations[0].patchType: Unsupported value: "X": supported values: "ApplyConfiguration", "JSONPatch"',
            "spec.reinvocationPolicy: Required value",
        ]),
        ({"matchConstraints": {"resourceRules": [{**RULE, "operations": ["DELETE"]}]}}, [
            'spec.matchConstraints.resourceRules.operations: Unsupported value: "DELETE": supported values: '
            '"*", "CONNECT", "CREATE", "UPDATE"',
        ]),
    ],
)  # fmt: skip
def test_wrong_mutating_policies(spec: Object, lines: list[str]) -> None:
    assert of("mutatingadmissionpolicies", MUTATING, spec) == sorted(lines)


@pytest.mark.parametrize(
    ("spec", "lines"),
    [
        ({"paramRef": {"name": "a", "selector": {}, "parameterNotFoundAction": "X"}}, [
            "spec.paramRef.name: Forbidden: name and selector are mutually exclusive",
            "spec.paramRef.selector: Forbidden: name and selector are mutually exclusive",
            'spec.paramRef.parameterNotFoundAction: Unsupported value: "X": supported values: "Deny", "Allow"',
        ]),
        ({"paramRef": {}}, [
            "spec.paramRef: Required value: one of name or selector must be specified",
            "spec.paramRef.parameterNotFoundAction: Required value",
        ]),
        ({"validationActions": ["Deny", "Deny", "X"]}, [
            'spec.validationActions[1]: Duplicate value: "Deny"',
            'spec.validationActions[2]: Unsupported value: "X": supported values: "Audit", "Deny", "Warn"',
        ]),
    ],
)  # fmt: skip
def test_wrong_bindings(spec: dict[str, Any], lines: list[str]) -> None:
    assert of("validatingadmissionpolicybindings", BINDING, spec) == sorted(lines)
