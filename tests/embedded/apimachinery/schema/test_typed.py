"""Operations on values with a schema: their fields, their difference, merging, and errors."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from phalanx.embedded.apimachinery.schema.field_set import paths
from phalanx.embedded.apimachinery.schema.schema import Type, structural, type_of
from phalanx.embedded.apimachinery.schema.typed import (
    ABSENT,
    compare,
    field_set,
    form_of,
    item_element,
    merged,
    problems,
    without,
)

POD = type_of("io.k8s.api.core.v1.Pod")
CUSTOM = structural(
    {
        "type": "object",
        "properties": {
            "names": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
            "whole": {"type": "array", "items": {"type": "string"}},
            "parts": {
                "type": "array",
                "items": {"type": "object", "properties": {"id": {"type": "string"}}},
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["id"],
            },
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        },
    }
)


def pod(*containers: dict[str, Any]) -> dict[str, Any]:
    return {"spec": {"containers": list(containers)}}


def fields(value: Any, kind: Type = CUSTOM) -> set[tuple[str, ...]]:
    return set(paths(field_set(value, kind)))


def test_leaves_items_and_free_fields_are_owned() -> None:
    assert fields({"names": ["a"], "whole": ["a"], "free": {"x": {"y": [1]}}}) == {
        ("f:names", 'v:"a"'),
        ("f:whole",),
        ("f:free", "f:x"),
        ("f:free", "f:x", "f:y"),
    }


def test_a_container_is_known_by_its_name_and_a_port_by_its_number_and_protocol() -> None:
    containers = POD.child("spec").child("containers")
    assert item_element({"image": "i", "name": "c"}, containers) == 'k:{"name":"c"}'
    ports = containers.items.child("ports")
    assert item_element({"containerPort": 80}, ports) == 'k:{"containerPort":80,"protocol":"TCP"}'


def test_without_a_type_objects_are_maps_and_lists_are_leaves() -> None:
    assert (form_of({}, None), form_of([], None), form_of(None, None)) == ("map", "leaf", "leaf")


def test_a_difference_has_what_changed_and_nothing_else() -> None:
    old, new = pod({"name": "a", "image": "x"}, {"name": "b"}), pod({"name": "a", "image": "y"}, {"name": "b"})
    change = compare(old, new, POD)
    assert list(paths(change.written)) == [("f:spec", "f:containers", 'k:{"name":"a"}', "f:image")]
    assert not change.removed
    assert not compare(old, pod(*reversed(old["spec"]["containers"])), POD), "another order of a map is no change"
    assert compare({"whole": ["a", "b"]}, {"whole": ["b", "a"]}, CUSTOM), "but of an atomic list"


@pytest.mark.parametrize(
    ("old", "new"), [(1, True), (0, False), (1.0, True), ([1], [True]), ([{"a": 0}], [{"a": False}]), (1, 2), ("1", 1)]
)
def test_numbers_and_booleans_differ_at_any_depth(old: Any, new: Any) -> None:
    for one, other in ((old, new), (new, old)):
        change = compare({"free": {"x": {"y": one, "z": 1}}}, {"free": {"x": {"y": other, "z": 1}}}, CUSTOM)
        assert list(paths(change.written)) == [("f:free", "f:x", "f:y")]
        assert not change.removed


@pytest.mark.parametrize("old", [1, [1], {"a": [1, {"b": 1}], "c": True}])
def test_an_integer_equals_the_same_float(old: Any) -> None:
    new = msgspec.json.decode(msgspec.json.encode(old).replace(b"1", b"1.0"))
    assert type(new) is not int
    for one, other in ((old, new), (new, old)):
        assert not compare({"x": one}, {"x": other}, None)
        assert not compare({"free": {"x": one}}, {"free": {"x": other}}, CUSTOM)


def test_what_is_gone_is_removed_with_all_below_it() -> None:
    change = compare({"free": {"x": {"y": 1}}}, {}, CUSTOM)
    assert set(paths(change.removed)) == {("f:free",), ("f:free", "f:x"), ("f:free", "f:x", "f:y")}
    assert not change.written


def test_items_of_the_configuration_come_in_its_order_around_those_of_others() -> None:
    live = pod({"name": "a"}, {"name": "other"}, {"name": "b", "image": "x"})
    config = pod({"name": "b", "command": ["c"]}, {"name": "new"}, {"name": "a"})
    found = merged(live, config, POD)["spec"]["containers"]
    assert [one["name"] for one in found] == ["other", "b", "new", "a"]
    assert found[1] == {"name": "b", "image": "x", "command": ["c"]}
    assert live == pod({"name": "a"}, {"name": "other"}, {"name": "b", "image": "x"}), "the live object is unchanged"


def test_a_configuration_may_set_null_or_replace_another_shape() -> None:
    assert merged({"free": {"x": {"y": 1}}}, {"free": {"x": None}}, CUSTOM) == {"free": {"x": None}}
    assert merged({"free": {"x": 1}}, {"free": {"x": {"y": 1}}}, CUSTOM) == {"free": {"x": {"y": 1}}}
    assert merged({"names": ["a"]}, ABSENT, CUSTOM) == {"names": ["a"]}


def test_an_object_that_loses_all_its_fields_goes_with_them() -> None:
    value = {"names": ["a", "b"], "free": {"x": 1}}
    assert without(value, field_set({"free": {"x": 1}}, CUSTOM), CUSTOM) == {"names": ["a", "b"]}
    assert without(value, field_set({"names": ["a"]}, CUSTOM), CUSTOM) == {"names": ["b"], "free": {"x": 1}}
    assert without(value, field_set(value, CUSTOM), CUSTOM) is ABSENT


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (pod({"name": "a", "nope": 1}), '.spec.containers[name="a"].nope: field not declared in schema'),
        ({"spec": {"containers": [None]}},
         ".spec.containers: element 0: associative list with keys may not have a null element"),
        (pod({"name": "a"}, {"name": "a"}), '.spec.containers: duplicate entries for key [name="a"]'),
        ({"spec": []}, ".spec: expected map, got &{[]}"),
        ({"spec": {"containers": {}}}, ".spec.containers: expected list, got &{map[]}"),
        ({"spec": {"hostNetwork": "yes"}}, ".spec.hostNetwork: expected boolean, got &{yes}"),
        ({"spec": {"priority": True}}, ".spec.priority: expected numeric (int or float), got bool"),
        ({"spec": {"nodeName": {"a": [1]}}},
         '.spec.nodeName: expected string, got &value.valueUnstructured{Value:map[string]interface {}'
         '{"a":[]interface {}{1}}}'),
    ],
)  # fmt: skip
def test_errors_of_a_configuration(value: Any, told: str) -> None:
    assert list(problems(value, POD)) == [told]


def test_an_item_without_a_key_is_an_error_unless_the_key_has_a_default() -> None:
    assert list(problems({"parts": [{}, {"id": "a"}]}, CUSTOM)) == [
        ".parts: element 0: associative list with keys has an element that omits key field "
        '"id" (and doesn\'t have default value)'
    ]
    assert list(problems({"parts": ["a"]}, CUSTOM)) == [
        ".parts: element 0: associative list with keys may not have non-map elements"
    ]
    port = {"name": "c", "ports": [{"containerPort": 80}]}
    assert list(problems(pod(port), POD)) == []
