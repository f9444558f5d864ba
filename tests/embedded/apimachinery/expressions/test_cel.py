"""CEL as Kubernetes writes it: struct literals, its own functions, errors instead of guesses."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.embedded.apimachinery.expressions.cel import (
    CelScope,
    CelView,
    ExpressionError,
    compiled,
    paths_of,
    without_structs,
)
from phalanx.embedded.apimachinery.expressions.metering import Budget


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('JSONPatch{op: "add"}', '{"op": "add"}'),
        ("Object{}", "{}"),
        ("Object{spec: Object.spec{suspend: true}}", '{"spec": {"suspend": true}}'),
        ('[A{x: {"k": 1}, y: [B{z: 2}]}]', '[{"x": {"k": 1}, "y": [{"z": 2}]}]'),
        ('x in {"a": 1} ? "y{z: 1}" : "n"', 'x in {"a": 1} ? "y{z: 1}" : "n"'),
        ("l.all(i, i < 3) // A{b: 1}", "l.all(i, i < 3) // A{b: 1}"),
    ],
)
def test_structs_become_maps_and_nothing_else_changes(text: str, expected: str) -> None:
    assert without_structs(text) == expected


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('"a/b~c".split("/")[1] + jsonpatch.escapeKey("x/y~")', "b~cx~1y~0"),
        ('["b", "a"].isSorted()', False),
        ('"Ab".lowerAscii().indexOf("b")', 1),
        ("[1, 2].sum()", 3),
        ("quantity('1500m').isLessThan(quantity('2')) && quantity('1Gi').isGreaterThan(quantity('1G'))", True),
        ("quantity('1').compareTo(quantity('1000m'))", 0),
        ("isQuantity('two')", False),
        ("has(object.spec.suspend) && object.spec.suspend", True),
        ('"q" in object.labels ? object.labels["q"] : "none"', "none"),
    ],
)
def test_functions_of_kubernetes(text: str, value: Any) -> None:
    assert compiled(text).evaluate({"object": {"spec": {"suspend": True}, "labels": {}}}) == value


def test_an_absent_field_is_an_error_not_false() -> None:
    with pytest.raises(ExpressionError, match="no such key: y"):
        compiled("object.y").evaluate({"object": {}})


@pytest.mark.parametrize("text", ["object.?y", "1 +", ""])
def test_what_cannot_be_compiled_is_refused(text: str) -> None:
    with pytest.raises(ExpressionError):
        compiled(text)


LISTS = {("object", "lists")}


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("object.spec.suspend", {("object", "spec", "suspend")}),
        ("has(object.spec.template.spec.x)", {("has",), ("object", "spec", "template", "spec", "x", "")}),
        ("object.spec.items.exists(x, x.y)", {("object", "spec", "items"), ("x",), ("x", "y")}),
        ("object.spec.exists(x, true)", {("object", "spec"), ("x",), ("true",)}),
        ("object.size() > 1", {("object",)}),
        ('object["spec"].a', {("object", "spec"), ("a",)}),
        ("object.labels['a/b.c'] == 'd'", {("object", "labels", "a/b.c")}),
        ('!("a/b" in object.labels)', {("in",), ("object", "labels", "a/b")}),
        ('x && "a" in object.labels', {("x",), ("in",), ("object", "labels", "a")}),
        ('"a" + "b" in object.labels', {("in",), ("object", "labels")}),
        ('"a" in object.lists["b"] && "a" in object.lists[i]', {("in",), ("i",), *LISTS, ("object", "lists", "b")}),
        (r'"a\"b" in object.labels', {("in",), ("object", "labels")}),
        ("object == oldObject", {("object",), ("oldObject",)}),
        ("'object.no' + object . metadata\n.name // object.not", {("object", "metadata", "name")}),
        ("Object{spec: object.spec}", {("Object",), ("spec",), ("object", "spec")}),
    ],
)
def test_the_fields_that_an_expression_looks_at(text: str, paths: set[tuple[str, ...]]) -> None:
    assert paths_of(text) == paths


def view(value: object, *texts: str) -> object:
    return CelView(texts).of({"object": value})["object"]


def test_a_view_shows_what_is_looked_at_and_nothing_else() -> None:
    value = {"metadata": {"name": "a", "labels": {"b": "c"}}, "spec": {"d": 1, "e": 2}, "status": {}}
    assert view(value, "object.metadata.labels.b") == {"metadata": {"labels": {"b": "c"}}}
    assert view(value, "object.spec.d", "has(object.spec)") == {"spec": {"d": 1}}
    assert view(value, "object.spec.d", "object == null") is value
    assert view(value, "has(object.metadata.labels)") == {"metadata": {"labels": {}}}
    assert view(value, 'has(object.metadata) && "b" in object.metadata.labels') == {"metadata": {"labels": {"b": "c"}}}
    assert view(value, '"x" in object.metadata.labels') == {"metadata": {"labels": {}}}
    assert view({"spec": None}, "object.spec.d") == {"spec": None}
    assert view(None, "object.spec.d") is None
    assert CelView(["other.spec"]).of({"object": value}) == {}


def test_a_result_for_the_same_variables_is_remembered_with_what_it_cost() -> None:
    text, variables = "object.values.all(value, value != 7)", {"object": {"values": list(range(8))}}
    first = CelScope(variables)
    assert compiled(text).evaluate(first) is False
    again = CelScope(variables)
    assert compiled(text).evaluate(again) is False
    assert "context" not in vars(again), "nothing was handed to the library"
    assert again.budget.left == first.budget.left
    with pytest.raises(ExpressionError, match="cost limit exceeded"):
        compiled(text).evaluate(CelScope(variables, Budget(steps=1)))
    assert compiled(text).evaluate(CelScope({"object": {"values": [1]}})) is True


def test_what_json_cannot_tell_apart_is_not_remembered() -> None:
    for value, expected in ((b"YQ==", False), ("YQ==", True)):
        scope = CelScope({})
        scope.add("variables", {"x": value})
        assert compiled('variables.x == "YQ=="').evaluate(scope) is expected
