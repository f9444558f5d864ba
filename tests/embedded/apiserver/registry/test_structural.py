"""Structural schemas of custom resources: unknown fields, defaults, nulls, and wrong values."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from phalanx.embedded.apimachinery.meta.status import StatusError
from phalanx.embedded.apiserver.registry.crd.crd import CustomStrategy, resources_of
from tests.embedded.apiserver.registry.test_crd import WRONG, definition, lines

[WIDGETS] = resources_of(definition())


def strategy() -> CustomStrategy:
    assert isinstance(WIDGETS.strategy, CustomStrategy)
    return WIDGETS.strategy


def widget(spec: str, **rest: Any) -> dict[str, Any]:
    return {"kind": "Widget", "metadata": {"name": "a"}, "spec": yaml.safe_load(spec), **rest}


def test_unknown_fields_go_and_are_named() -> None:
    obj = widget("{image: abc, odd: 1, free: {any: [1]}, parts: [{name: p, odd: 1}], map: {k: v}}", top=1)
    assert strategy().decode(obj) == ["spec.odd", "spec.parts[0].odd", "top"]
    assert obj["spec"] == {"image": "abc", "free": {"any": [1]}, "parts": [{"name": "p"}], "map": {"k": "v"}}


def test_defaults_are_filled_in_at_every_depth() -> None:
    obj = widget("{image: abc, parts: [{name: p}]}")
    strategy().default(obj)
    assert obj["spec"] == {
        "image": "abc", "parts": [{"name": "p", "value": 5}], "size": 3, "mode": "Fast", "replicas": 1
    }  # fmt: skip


def test_a_null_counts_as_absent_unless_it_is_allowed() -> None:
    obj = widget("{image: abc, size: null, note: null, when: null}")
    strategy().default(obj)
    assert obj["spec"] == {"image": "abc", "size": 3, "note": None, "mode": "Fast", "replicas": 1}


def test_defaulting_leaves_what_it_shares_alone() -> None:
    part = {"name": "p"}
    obj = {"metadata": {"name": "a"}, "spec": {"image": "abc", "parts": [part]}}
    strategy().default(obj)
    assert part == {"name": "p"}


UNCHECKED = (
    "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the "
    "existing errors to complete validation"
)


@pytest.mark.parametrize("spec", WRONG)
def test_a_wrong_value_is_told(spec: str) -> None:
    blocking = any(word in WRONG[spec] for word in ("Required", "must be of type", "Unsupported", "Too many"))
    assert lines(spec) == [WRONG[spec], *[UNCHECKED] * blocking]


def test_a_value_of_the_wrong_type_is_no_value_of_an_enumeration_either() -> None:
    assert lines("{image: abc, mode: 5}") == [
        'spec.mode: Invalid value: "integer": spec.mode in body must be of type string: "integer"',
        'spec.mode: Unsupported value: 5: supported values: "Fast", "Slow"',
        UNCHECKED,
    ]


def test_only_the_first_of_what_a_text_lacks_is_told() -> None:
    text = {"type": "string", "minLength": 3, "pattern": "^b"}
    few = {"type": "object", "minProperties": 2, "required": ["x"]}
    strategy = CustomStrategy({"type": "object", "properties": {"a": text, "b": few}})
    found = strategy.validate({"metadata": {}, "a": "c", "b": {"y": 1}})
    assert [one.line() for one in found] == [
        'a: Invalid value: "c": a in body should be at least 3 chars long',
        "b: Invalid value: 1: b in body should have at least 2 properties",
        "b.x: Required value",
    ]


def test_a_combination_of_schemas_is_told_without_a_field() -> None:
    number, word = {"type": "integer", "minimum": 3}, {"type": "string", "maxLength": 2}
    of = {"spec": {"anyOf": [number, word]}, "all": {"allOf": [number, {"maximum": 1}]}, "one": {"oneOf": [number, {}]}}
    strategy = CustomStrategy({"type": "object", "properties": of | {"never": {"not": number}}})
    found = strategy.validate({"metadata": {}, "spec": 1, "all": 2, "one": 5, "never": 9})
    assert [one.line() for one in found] == [
        '<nil>: Invalid value: "": "spec" must validate at least one schema (anyOf)',
        "spec: Invalid value: 1: spec in body should be greater than or equal to 3",
        "all: Invalid value: 2: all in body should be greater than or equal to 3",
        "all: Invalid value: 2: all in body should be less than or equal to 1",
        '<nil>: Invalid value: "": "all" must validate all the schemas (allOf). None validated',
        '<nil>: Invalid value: "": "one" must validate one and only one schema (oneOf). Found 2 valid alternatives',
        '<nil>: Invalid value: "": "never" must not validate the schema (not)',
    ]


def test_messages_about_a_status_name_its_fields_from_there() -> None:
    status = {"type": "object", "properties": {"ready": {"type": "integer", "minimum": 0}}, "required": ["phase"]}
    strategy = CustomStrategy({"type": "object", "properties": {"status": status}}, has_status=True)
    found = strategy.validate_status_update({"metadata": {}, "status": {"ready": -1}}, {"metadata": {}})
    assert [one.line() for one in found] == [
        "status.phase: Required value",
        "status.ready: Invalid value: -1: ready in body should be greater than or equal to 0",
    ]
    assert strategy.validate_status_update({"metadata": {}}, {"metadata": {}}) == []


@pytest.mark.parametrize(
    "spec",
    ["{image: abc, limit: 50%}", "{image: abc, limit: 5}", "{image: abc, size: 2.0}", "{image: abc, note: null}"],
)
def test_a_right_value_is_not(spec: str) -> None:
    assert lines(spec) == []


def test_an_integer_that_is_no_float_is_compared_exactly() -> None:
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"n": {"type": "integer"}}}}}
    for number in (2**53 + 1, 10**400):
        assert CustomStrategy(schema).validate({"metadata": {}, "spec": {"n": number}}) == []
    schema["properties"]["spec"]["properties"]["n"]["maximum"] = 5
    [found] = CustomStrategy(schema).validate({"metadata": {}, "spec": {"n": 10**400}})
    assert found.line().endswith("should be less than or equal to 5")


@pytest.mark.parametrize("spec", ["{image: abc, size: %s}", "{image: abc, parts: [{name: p, value: %s}]}"])
def test_a_boolean_in_place_of_an_equal_number_is_a_change(spec: str) -> None:
    [line] = [line for line in lines(spec % "true", old=spec % "1") if line != UNCHECKED]
    assert line.endswith('must be of type integer: "boolean"')


def test_what_was_wrong_before_and_has_not_changed_is_let_be() -> None:
    assert lines("{image: abc, size: 99, replicas: 2}", old="{image: abc, size: 99}") == []
    assert lines("{image: abc, parts: [{value: 1}]}", old="{image: abc}") == [
        "spec.parts[0].name: Required value",
        UNCHECKED,
    ]


# --- embedded objects ------------------------------------------------------------------------------------------------


def embedding() -> CustomStrategy:
    free = "spec__versions__0__schema__openAPIV3Schema__properties__spec__properties__free"
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "x-kubernetes-embedded-resource": True}
    [resource] = resources_of(definition(**{free: schema}))
    assert isinstance(resource.strategy, CustomStrategy)
    return resource.strategy


@pytest.mark.parametrize(("metadata", "found"), [("[1]", "array"), ("text", "string"), ("5", "number")])
def test_metadata_of_an_embedded_object_is_an_object(metadata: str, found: str) -> None:
    why = rf"spec.free.metadata: Invalid value: .*: json: cannot unmarshal {found} into Go value of type v1.ObjectMeta"
    with pytest.raises(StatusError, match=why):
        embedding().decode(widget(f"{{image: abc, free: {{apiVersion: v1, kind: Pod, metadata: {metadata}}}}}"))


def test_metadata_of_an_embedded_object_that_is_null_is_empty() -> None:
    obj = widget("{image: abc, free: {apiVersion: v1, kind: Pod, metadata: null}}")
    assert embedding().decode(obj) == []
    assert obj["spec"]["free"]["metadata"] == {}
