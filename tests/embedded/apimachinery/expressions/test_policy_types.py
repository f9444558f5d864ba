"""The types of variables in a policy's expressions."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.embedded.apimachinery.expressions.policy_types import judged


def errors(*expressions: str, **spec: Any) -> list[tuple[str, ...]]:
    validations = [{"expression": text} for text in expressions]
    checked = judged({"validations": validations, **spec})
    return [tuple(found.errors) for path, _, found in checked if path.startswith("spec.validations")]


@pytest.mark.parametrize(
    "expression",
    [
        "object.spec.anything == 1",
        "request.userInfo.extra['a'].all(x, x.startsWith('b'))",
        "request.options.anything == 'x'",
        "namespaceObject.metadata.creationTimestamp < timestamp('2026-01-01T00:00:00Z')",
    ],
)
def test_known_variables(expression: str) -> None:
    assert errors(expression) == [()]


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("request.nothing == ''", "undefined field 'nothing'"),
        ("request.dryRun == 'true'", "found no matching overload"),
        ("namespaceObject.data == ''", "undefined field 'data'"),
        ("variables.a", "undeclared reference to 'variables'"),
        ("params.a == 1", "undeclared reference to 'params'"),
    ],
)
def test_what_a_policy_may_not_use(expression: str, why: str) -> None:
    [(told,)] = errors(expression)
    assert why in told


def test_parameters_exist_if_the_policy_names_their_kind() -> None:
    assert errors("params.a == 1", paramKind={"kind": "ConfigMap"}) == [()]


def test_a_variable_has_the_type_of_its_expression_for_those_after_it() -> None:
    variables = [{"name": "count", "expression": "size(object.spec.items)"}]
    [fine, (wrong,)] = errors("variables.count > 1", "variables.count == 'a'", variables=variables)
    assert fine == ()
    assert "found no matching overload for '_==_' applied to '(int, string)'" in wrong
