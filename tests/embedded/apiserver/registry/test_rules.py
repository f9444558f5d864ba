"""`embedded/apiserver/registry/crd/rules.py`: `x-kubernetes-validations`."""

from __future__ import annotations

import pytest

from phalanx.embedded.apiserver.registry.crd.rules import broken, mistakes, ruled
from tests.embedded.apiserver.registry.test_crd import WIDGETS


def test_rules_name_odd_properties_by_their_escapes() -> None:
    rule = "self.max__dash__size < 5 && self.__namespace__ == 'a'"
    schema = {
        "type": "object",
        "properties": {"max-size": {"type": "integer"}, "namespace": {"type": "string"}},
        "x-kubernetes-validations": [{"rule": rule}],
    }
    assert mistakes(rule, schema) == ""
    assert list(broken({"max-size": 4, "namespace": "a"}, schema)) == []
    assert len(list(broken({"max-size": 5, "namespace": "a"}, schema))) == 1


def test_rules_of_one_place_are_told_apart() -> None:
    rules = ("self.a < 5", "self.b < 5", "oldSelf.b == self.b", "self.max__dash__size < 5")
    schema = {
        "type": "object",
        "properties": {name: {"type": "integer"} for name in ("a", "b", "max-size")},
        "x-kubernetes-validations": [{"rule": rule} for rule in rules],
    }

    def said(value: dict[str, int], **old: dict[str, int]) -> list[str]:
        return [cause.message.removeprefix("Invalid value: ") for cause in broken(value, schema, **old)]

    assert said({"a": 1, "b": 1, "max-size": 1}) == []
    assert said({"a": 5, "b": 1, "max-size": 5}) == [f"failed rule: {rules[0]}", f"failed rule: {rules[3]}"]
    assert said({"a": 1, "b": 1, "max-size": 1}, old={"b": 2}) == [f"failed rule: {rules[2]}"]


def test_a_rule_is_evaluated_for_a_boolean_in_place_of_a_number() -> None:
    rule = {"rule": "type(self.a) == int", "message": "no integer"}
    schema = {
        "properties": {"free": {"x-kubernetes-preserve-unknown-fields": True, "x-kubernetes-validations": [rule]}}
    }
    assert [cause.line() for cause in broken({"free": {"a": True}}, schema, {"free": {"a": 1}})] == [
        "free: Invalid value: no integer"
    ]
    assert not list(broken({"free": {"a": True}}, schema, {"free": {"a": True}})), "unchanged"


def test_only_what_has_rules_is_walked_for_them() -> None:
    whole = {"type": "object", "x-kubernetes-validations": [{"rule": "self.a < 5"}]}
    number = {"type": "integer"}
    keys = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
    parts = {
        "plain": {"type": "object", "properties": {"a": number}},
        "map": {"type": "object", "additionalProperties": whole},
        "list": {"type": "array", "items": whole, **keys},
        "odd": {
            "type": "object",
            "properties": {"in": number},
            "x-kubernetes-validations": [{"rule": "self.__in__ < 5"}],
        },
    }
    schema = {"type": "object", "properties": parts}
    less = ruled(schema)
    assert less is not None
    assert set(less["properties"]) == {"map", "list", "odd"}
    assert ruled(parts["plain"]) is None
    wrong = {"plain": {"a": 9}, "map": {"k": {"a": 9}}, "list": [{"name": "n", "a": 9}], "odd": {"in": 9}}
    found = list(broken(wrong, less))
    assert [cause.field for cause in found] == ["map.k", "list[0]", "odd"]
    assert found == list(broken(wrong, schema))
    assert list(broken(wrong, less, wrong)) == list(broken(wrong, schema, wrong)) == []


@pytest.mark.parametrize(
    ("rule", "wrong"),
    [
        ("self.spec.size > 1", ""),
        ("self.metadata.name.startsWith('a')", ""),
        ("self.spec.tags.all(t, t.size() < 5)", ""),
        ("has(self.spec.note) && self.spec.free.any.thing == 1", ""),
        ("self.spec.sise > 1", "sise"),
        ("'self.spec.sise' == 'x'", ""),
        ("self.spec.size >", "compilation failed"),
        ("self.?spec.nothing.orValue(1) == 1", ""),
    ],
)
def test_a_rule_is_held_against_the_schema(rule: str, wrong: str) -> None:
    found = mistakes(rule, WIDGETS.schema or {}, root=True)
    assert bool(found) == bool(wrong)
    assert wrong in found


@pytest.mark.parametrize(
    ("rule", "what"),
    [
        (
            "self.spec.size > 'large'",
            "ERROR: <input>:1:16: found no matching overload for '_>_' applied to '(int, string)'",
        ),
        ("self.spec.size + 1", "cel expression must evaluate to a bool"),
    ],
)
def test_a_rule_whose_types_do_not_fit_is_refused_when_it_is_written(rule: str, what: str) -> None:
    spec = {"type": "object", "properties": {"size": {"type": "integer"}}}
    found = mistakes(rule, {"type": "object", "properties": {"spec": spec}}, root=True)
    assert what in found
    assert mistakes("self.spec.size > 1", {"type": "object", "properties": {"spec": spec}}, root=True) == ""
