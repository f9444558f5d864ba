"""`embedded/apiserver/registry/crd/schema_check.py`: errors of schemas, in the words of kube-apiserver."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.embedded.apiserver.registry.crd.schema_check import schema_causes
from phalanx.embedded.apiserver.registry.crd.structural import causes

RULE = "x-kubernetes-validations"
TEXT = {"type": "string"}


def lines(schema: Any) -> list[str]:
    return [cause.line() for cause in schema_causes({"type": "object", "properties": {"a": schema}}, "s", root=True)]


def test_a_list_says_how_its_items_are_told_apart() -> None:
    items = {"type": "object", "properties": {"name": {"type": "string"}}}
    plain = {"type": "array", "x-kubernetes-list-type": "map", "items": items}
    assert lines(plain) == [
        "s.properties[a].x-kubernetes-list-map-keys: Required value: must not be empty if x-kubernetes-list-type is map"
    ]
    keyed = plain | {"x-kubernetes-list-map-keys": ["name"]}
    [cause] = schema_causes(keyed, "s")
    assert cause.message.endswith("so it must have a default or be a required property")


def of_rule(**words: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"n": {"type": "integer"}}, RULE: [{"rule": "self.n > 0", **words}]}


A = "s.properties[a]"
RESTRICTED = {"type": "object", "anyOf": [{"required": ["x"]}, {"properties": {"y": TEXT}}]}
REASONS = '"FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"'


@pytest.mark.parametrize(
    ("schema", "found"),
    [
        (RESTRICTED, [f"{A}.anyOf[1].properties[y].type: Forbidden: must be empty to be structural"]),
        (
            {"oneOf": [TEXT]},
            [
                f"{A}.oneOf[0].type: Forbidden: must be empty to be structural",
                f"{A}.type: Required value: must not be empty for specified object fields",
            ],
        ),
        ({"$ref": "#/x"}, [f"{A}.$ref: Forbidden: $ref is not supported"]),
        (
            {"x-kubernetes-preserve-unknown-fields": False},
            [f"{A}.x-kubernetes-preserve-unknown-fields: Invalid value: false: must be true or undefined"],
        ),
        (
            {"type": "string", "pattern": "["},
            [
                f'{A}.pattern: Invalid value: "[": must be a valid regular expression, but isn\'t: error parsing '
                "regexp: missing closing ]: `[`"
            ],
        ),
        (
            {"type": "array", "items": TEXT, "x-kubernetes-map-type": "x"},
            [
                f'{A}.type: Invalid value: "array": must be object if x-kubernetes-map-type is specified',
                f'{A}.x-kubernetes-map-type: Unsupported value: "x": supported values: "atomic", "granular"',
            ],
        ),
        (of_rule(reason="Odd"), [f'{A}.{RULE}[0].reason: Unsupported value: "Odd": supported values: {REASONS}']),
        (of_rule(fieldPath=".m"), [f'{A}.{RULE}[0].fieldPath: Invalid value: ".m": must be a valid path']),
        (of_rule(message="a\nb"), [f'{A}.{RULE}[0].message: Invalid value: "a\\nb": must not contain line breaks']),
        (of_rule(optionalOldSelf=True), [
            f"{A}.{RULE}[0].optionalOldSelf: Invalid value: true: may not be set if oldSelf is not used in rule"
        ]),
    ],
)  # fmt: skip
def test_a_schema_is_refused_in_the_words_of_kubernetes(schema: Any, found: list[str]) -> None:
    assert lines(schema) == found


def test_a_message_is_made_by_an_expression_for_a_text() -> None:
    [cause] = schema_causes({"type": "object", "properties": {"a": of_rule(messageExpression="1 + 1")}}, "s", root=True)
    assert (cause.field, cause.message.rpartition(": ")[2]) == (
        f"{A}.{RULE}[0].messageExpression",
        "messageExpression must evaluate to a string",
    )


def test_items_without_keys_have_no_old_values() -> None:
    rule = {"type": "string", RULE: [{"rule": "self == oldSelf"}]}
    assert [line.rpartition(": ")[2] for line in lines({"type": "array", "items": rule})] == [
        f"oldSelf cannot be used on the uncorrelatable portion of the schema within {A}"
    ]


@pytest.mark.parametrize(
    ("value", "schema", "found"),
    [
        (["x"], {"type": "string", "format": "hostname"}, []),
        (5, {"type": "string", "format": "date"}, [
            'a: Invalid value: "int64": a in body must be of type date: "int64"'
        ]),
        ("x", {"type": "string", "format": "mac"}, ['a: Invalid value: "x": a in body must be of type mac: "x"']),
        (1.5, {"type": "number", "enum": [1, 2]}, []),
        (3, {"type": "number", "multipleOf": 0.5}, [
            "a: Invalid value: 0: factor MultipleOf declared for a must be positive: 0"
        ]),
        ([None, None], {"type": "array", "x-kubernetes-list-type": "set", "items": {}}, []),
    ],
)  # fmt: skip
def test_values_are_judged_as_kubernetes_does(value: Any, schema: Any, found: list[str]) -> None:
    assert [cause.line() for cause in causes(value, schema, path="a")] == found
